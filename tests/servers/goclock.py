"""The clocks of a program written in Go in a test's hands, while it runs.

Go asks the kernel for the time without the C library, by a function that the kernel maps into every
process. So another page is put in that one's place before the program begins: a preloaded library
does it, which takes a program that was linked with the C library, as Debian's etcd is.
"""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path

from tests.servers.clock import Clock
from tests.servers.server import Missing

OFFSETS_AT = "0x600000000000UL"  # far from where Go and the loader put anything
VERSIONS = "LINUX_2.6 { global: __vdso_clock_gettime; local: *; };\n"  # as the kernel's own has
IMAGE = ("-nostdlib", "-Wl,--hash-style=both", "-Wl,-z,noseparate-code")  # can be mapped as it lies


class GoClock(Clock):
    """What is added to the clocks of the Go programs that have this environment."""

    def __init__(self, folder: Path) -> None:
        if sys.platform != "linux" or platform.machine() != "x86_64":
            raise Missing("stepping the clock of a Go program needs Linux on x86-64")
        super().__init__(folder)
        self._shim, self._page = folder / "goshim.so", folder / "gopage.so"
        versions = folder / "gopage.map"
        versions.write_text(VERSIONS)
        _compile("goshim.c", self._shim)
        _compile("gopage.c", self._page, *IMAGE, f"-Wl,--version-script={versions}")

    @property
    def environment(self) -> dict[str, str]:
        return {
            "LD_PRELOAD": str(self._shim),
            "CLOCK_OFFSETS": str(self._offsets),
            "CLOCK_PAGE": str(self._page),
        }


def _compile(source: str, library: Path, *flags: str) -> None:
    path = Path(__file__).with_name(source)
    command = ["cc", "-shared", "-fPIC", "-O1", f"-DOFFSETS_AT={OFFSETS_AT}", *flags]
    build = subprocess.run(
        [*command, "-o", str(library), str(path)], capture_output=True, text=True
    )
    if build.returncode:
        raise Missing(f"the clock shim for Go cannot be compiled: {build.stderr}")
