"""A disk that is small enough to be filled."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_disk(place: Path, megabytes: int = 1) -> Iterator[Path]:
    """A disk of a few megabytes, mounted here; without root the test is skipped."""
    if os.name != "posix" or os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("a small disk needs root and mount")
    place.mkdir()
    mount = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "fencelock-test", place],
        capture_output=True,
        text=True,
    )
    if mount.returncode:
        pytest.skip(f"a small disk cannot be mounted: {mount.stderr.strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)


def fill(disk: Path) -> Path:
    """Leave no room, not even for a byte."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file:
        size = 65536
        while size:
            try:
                if file.write(b"\0" * size) < size:
                    size //= 2
            except OSError:
                size //= 2
    return filler
