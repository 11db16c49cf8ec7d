"""Bare Python: the floor of every import."""

from __future__ import annotations

from bench.contestant import Contestant, Session


class Python(Contestant):
    """Starts, and does nothing."""

    name = "bare python"
    works = frozenset({"import"})

    def connect(self, *, traced: bool = False) -> Session:
        raise NotImplementedError

    def first_use(self) -> str:
        return "pass"
