"""The witness of exclusion: files that all holders of a lock write in turn, ours and others.

``inside`` can be made by one process at a time, which the kernel decides; whoever finds it there
writes to ``clashes``. ``count`` is read and then written, so two at a time would lose a turn.
``history`` has who held and the fence, in the order of the turns. A reader makes a mark of its own
in ``readers`` before it looks for a writer, and a writer the other way round, so that one of two
that meet sees the other. The programs in Go and Java do the same.
"""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple


class Turn(NamedTuple):
    who: str
    fence: int

    @property
    def ours(self) -> bool:
        return self.who.startswith("ours")


class Register:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "count").write_text("0")
        (folder / "readers").mkdir()

    def record(self, who: str, fence: int) -> None:
        """Note one turn of whoever holds the lock, alone."""
        try:
            os.close(os.open(self.folder / "inside", os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        except FileExistsError:
            self._add("clashes", who)
            return
        if any((self.folder / "readers").iterdir()):
            self._add("clashes", f"{who} met a reader")
        (self.folder / "count").write_text(str(self.count + 1))
        self._add("history", f"{who} {fence}")
        (self.folder / "inside").unlink()

    def read(self, who: str) -> None:
        """Note one turn of somebody who reads beside others."""
        mark = self.folder / "readers" / who
        mark.touch(exist_ok=False)
        if (self.folder / "inside").exists():
            self._add("clashes", f"{who} met a writer")
        self._add("reads", f"{who} {self.count}")
        mark.unlink()

    @property
    def count(self) -> int:
        return int((self.folder / "count").read_text())

    @property
    def clashes(self) -> list[str]:
        return self._lines("clashes")

    @property
    def reads(self) -> list[Turn]:
        """Who read, and the number of turns before."""
        return [_turn(line) for line in self._lines("reads")]

    @property
    def history(self) -> list[Turn]:
        return [_turn(line) for line in self._lines("history")]

    def _lines(self, name: str) -> list[str]:
        file = self.folder / name
        return file.read_text().splitlines() if file.exists() else []

    def _add(self, name: str, line: str) -> None:
        with (self.folder / name).open("a") as file:
            file.write(f"{line}\n")


def _turn(line: str) -> Turn:
    who, fence = line.split()
    return Turn(who, int(fence))


def check_exclusion(register: Register, turns: int) -> None:
    """Nobody met another, and no turn is missing; those of both sides were mixed."""
    assert register.clashes == []
    history = register.history
    assert register.count == len(history) == turns
    assert changes(history) >= 20, "one side had all its turns before the other began"


def check_fences(turns: list[Turn]) -> None:
    fences = [turn.fence for turn in turns]
    assert fences == sorted({*fences})
    assert fences[0] > 0


def changes(history: list[Turn]) -> int:
    """How often the lock went from one side to the other."""
    return sum(one.ours != other.ours for one, other in pairwise(history))
