"""Bare Python: the floor of every import."""

from __future__ import annotations

from bench.contestant import EVERY, Contestant, Session


class Python(Contestant):
    """Starts, and does nothing."""

    name = "bare python"
    field = EVERY
    works = frozenset({"import"})
    yardstick = works

    def connect(self, *, traced: bool = False) -> Session:
        raise NotImplementedError

    def first_use(self) -> str:
        return "pass"
