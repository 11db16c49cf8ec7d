"""A counter in a file, replaced whole."""

from __future__ import annotations

import json
import os
from pathlib import Path

from fencelock.guards.files import FileGuard, guarded_open, guarded_replace

NAME = "counter"


class Counter:
    """One file."""

    @classmethod
    def prepare(cls, folder: Path) -> str:
        path = folder / "counter.txt"
        path.write_text("0")
        return json.dumps({"path": str(path)})

    def __init__(self, where: str) -> None:
        self._path = Path(json.loads(where)["path"])

    def enter(self, fence: int, reading: bool = False) -> int:
        with guarded_open(self._path, "r", fence, name=NAME, reading=reading) as file:
            return int(file.read())

    def write(self, value: int, fence: int) -> None:
        guarded_replace(self._path, str(value), fence, name=NAME)

    def read(self) -> int:
        return int(self._path.read_text())

    def write_bare(self, value: int) -> None:
        other = self._path.with_suffix(f".{os.getpid()}")
        other.write_text(str(value))
        other.replace(self._path)

    def mark(self, reading: bool = False) -> int:
        return FileGuard(self._path).mark(reading=reading)

    def close(self) -> None:
        pass
