"""The clocks of other processes in a test's hands: a library preloaded into them, and a file.

It works on programs that ask the C library for the time, Python and redis-server among them, and
takes effect while they run. Programs written in Go ask the kernel themselves: see ``goclock.py``.

    clock = Clock(folder)
    server = Redis()
    server.environment |= clock.environment
    ...
    clock.step(-3600)
"""

from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path

from tests.servers.server import Missing

SHIM = Path(__file__).with_name("clockshim.c")


class Clock:
    """What is added to the clocks of the processes that have this environment."""

    def __init__(self, folder: Path) -> None:
        if sys.platform != "linux":
            raise Missing("stepping the clocks of a process needs Linux")
        self._offsets = folder / "offsets"
        self._library = folder / "clockshim.so"
        self._wall = 0.0
        self.set()
        if not self._library.exists():
            _compile(self._library)

    @property
    def environment(self) -> dict[str, str]:
        return {"LD_PRELOAD": str(self._library), "CLOCK_OFFSETS": str(self._offsets)}

    def step(self, seconds: float) -> None:
        """Set the wall clock forward, or back, from where it is now."""
        self.set(wall=self._wall + seconds)

    def set(self, *, wall: float = 0.0, monotonic: float = 0.0, boot: float = 0.0) -> None:
        """Say how far each clock is off; processes see it when they ask for the time next.

        A server may not do so for every command: wait until its own clock shows the step.
        """
        self._wall = wall
        self._offsets.touch()
        with self._offsets.open("r+b") as file:  # in one write: nobody may see an empty file
            file.write(struct.pack("ddd", wall, monotonic, boot))


def _compile(library: Path) -> None:
    command = ["cc", "-shared", "-fPIC", "-O1", "-o", str(library), str(SHIM), "-ldl"]
    try:
        build = subprocess.run(command, capture_output=True, text=True)
    except FileNotFoundError:
        raise Missing("cc is not installed: sudo apt-get install gcc libc6-dev") from None
    if build.returncode:
        raise Missing(f"the clock shim cannot be compiled: {build.stderr}")
