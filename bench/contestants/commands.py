"""Ways to run a command under a lock from a shell, and what they stand on."""

from __future__ import annotations

import os
import shutil
import sys
from abc import abstractmethod
from typing import ClassVar

from bench.contestant import Contestant, Session, Target


class Command(Contestant):
    """A program around `true`."""

    works = frozenset({"cli"})

    @abstractmethod
    def line(self) -> list[str]:
        """What a shell would start."""

    def connect(self, *, traced: bool = False) -> Session:
        raise NotImplementedError


class Run(Command):
    """The embedded engine, a lock that is free."""

    name = "fencelock run"
    targets: ClassVar = {"cli": (Target("over_ms", "at most", 120.0),)}

    def line(self) -> list[str]:
        url = f"sqlite:///{os.path.join(self.place, 'locks.db')}"
        return [sys.executable, "-m", "fencelock", "run", "name", "--url", url, "--", "true"]


class FlockProgram(Command):
    """flock(1), in C, without lease, fence or queue."""

    name = "flock(1)"
    yardstick = Command.works

    @classmethod
    def missing(cls) -> str:
        return "" if shutil.which("flock") else "not installed: flock"

    def line(self) -> list[str]:
        return ["flock", os.path.join(self.place, "lock"), "true"]


class PythonProgram(Command):
    """What any program in Python costs."""

    name = "python -c pass"
    yardstick = Command.works

    def line(self) -> list[str]:
        return [sys.executable, "-c", "pass"]
