"""Record the calls between the clients of a check and their engine.

A check has to know when a waiter is queued and whether a bad call reached the engine. No
engine can tell that, so its class is extended by a record of its own calls.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, TypeVar

from ...engine import Engine
from ...model import Busy, Grant, Request

R = TypeVar("R")

VERBS = ("renew", "release", "withdraw", "inspect", "watch", "revoke", "scan")


class Record:
    """The calls that the engines of one check got, and who was told to wait."""

    def __init__(self) -> None:
        self.calls = 0
        self.waiters: dict[str, dict[str, None]] = {}
        """For each name the owners that were told to wait, in the order they came."""
        self.look_in: float | None = None
        """When set, waiters are told to look again this late: only a push is earlier."""

    def waiting(self, name: str) -> int:
        """How many have been told to wait for a name so far."""
        return len(self.waiters.get(name, ()))

    def note(self, request: Request, answer: Grant | Busy) -> Grant | Busy:
        if isinstance(answer, Grant):
            return answer
        if request.queue or answer.queued:  # some join the queue with the first question
            self.waiters.setdefault(request.name, {})[request.owner] = None
        return answer if self.look_in is None else answer._replace(look_in=self.look_in)


def recorded(engine: type[Engine], record: Record) -> type[Engine]:
    """The same engine, keeping a record of its calls."""

    async def acquire(self: Engine, request: Request) -> Grant | Busy:
        record.calls += 1
        return record.note(request, await engine.acquire(self, request))

    verbs = {verb: _counted(getattr(engine, verb), record) for verb in VERBS}
    return type(engine.__name__, (engine,), {"acquire": acquire, **verbs})


def _counted(
    verb: Callable[..., Coroutine[Any, Any, R]], record: Record
) -> Callable[..., Coroutine[Any, Any, R]]:
    @wraps(verb)
    async def call(self: Engine, *arguments: Any) -> R:
        record.calls += 1
        return await verb(self, *arguments)

    return call
