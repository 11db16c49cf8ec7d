"""Where the tests keep their files: in memory, where there is plenty.

A disk that others use as well may stand still for seconds. A server that waits for it misses the
end of a short lease, and a test fails that has nothing to do with disks. Nothing is lost by it:
tests end servers, not machines.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MEMORY = Path("/dev/shm")
NEEDED = 8 << 30  # a whole run takes three of them at most
AVAILABLE = Path("/proc/meminfo")
LIMIT = Path("/sys/fs/cgroup/memory.max")


@contextmanager
def temporary_folder() -> Iterator[dict[str, str]]:
    """The environment to run tests in; what they leave in memory is removed at the end."""
    if "TMPDIR" in os.environ or free_bytes() < NEEDED:
        yield dict(os.environ)
        return
    folder = tempfile.mkdtemp(prefix="fl-", dir=MEMORY)  # short: paths of sockets may not be long
    os.chmod(folder, 0o1777)  # as the usual one: some servers run as another user
    try:
        yield {**os.environ, "TMPDIR": folder}
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def free_bytes() -> int:
    """How much fits into memory, whoever sets the limit; 0 where nobody says."""
    if not os.access(MEMORY, os.W_OK | os.X_OK):
        return 0
    found = re.search(r"^MemAvailable: +(\d+) kB$", _read(AVAILABLE), re.M)
    if found is None:
        return 0
    limits = [shutil.disk_usage(MEMORY).free, int(found[1]) << 10]
    if (allowed := _read(LIMIT).strip()).isdecimal():
        limits.append(int(allowed))
    return min(limits)


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="ascii")
    except OSError:
        return ""
