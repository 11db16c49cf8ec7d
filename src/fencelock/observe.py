"""Events for logs, metrics and tests.

``subscribe(function)`` has the function called with every ``Event``; it must be quick and may be
called from any thread. Warnings also go to the logger ``fencelock``. With nobody subscribed an
event costs one truth test.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from .model import Role


class Event(NamedTuple):
    """Something that happened to a name."""

    kind: str
    """acquired, released, release_failed, renew_failed, lost, callback_failed"""
    name: str
    fence: int | None = None
    detail: str = ""
    seconds: float | None = None
    """How long it took: the wait of an acquire, the hold of a release or a loss."""
    role: Role = "lock"
    """What is held: a lock, a slot of a semaphore, a read or a write lock."""
    slot: int | None = None
    """Which slot of a semaphore."""
    election: bool = False
    """Whether the lock is held in order to lead."""


_sink: Callable[[str], object] | None = None
subscribers: list[Callable[[Event], object]] = []
"""Who wants events. The hot path looks here whether anybody does before it makes one."""


def subscribe(function: Callable[[Event], object]) -> Callable[[], None]:
    """Have a function called with every event; call the result to end that."""
    subscribers.append(function)

    def unsubscribe() -> None:
        if function in subscribers:
            subscribers.remove(function)

    return unsubscribe


def emit(event: Event) -> None:
    """Tell all subscribers. One that fails is named in the log and harms nobody."""
    for function in list(subscribers):
        try:
            function(event)
        except Exception as error:
            warn(f"a subscriber failed on {event.kind} of {event.name!r}: {error!r}")


def redirect(function: Callable[[str], object] | None) -> None:
    """Have warnings given to a function instead of the log; None ends that."""
    global _sink
    _sink = function


def warn(message: str) -> None:
    """Say in the log what an operator should know."""
    if _sink is not None:
        _sink(message)
        return
    import logging  # 7 ms at first, and only when something is wrong

    logging.getLogger("fencelock").warning(message)
