"""Make the events of attempts to acquire, and time the calls of an engine.

What happened to a hold is told by ``hold_state.py`` and those who use it. Nothing here is called
unless somebody has subscribed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import ParamSpec, TypeVar

from .. import observe
from ..engine import Engine
from ..errors import EngineError, NotAcquired, OutcomeUnknown
from ..model import Busy, Request, is_election, role_of
from ..observe import Event
from ..world import World
from .holder_meta import read_meta

P = ParamSpec("P")
R = TypeVar("R")


class Attempt:
    """Lives as long as the call that makes an attempt, and knows what events tell of it."""

    group: str | None = None
    """What the caller gave."""
    at_once = True
    """Whether the engine was called once."""
    waited = False
    """Whether it was told that it waits."""
    blocker = ""
    """Who was in its way, as far as the engine has said."""


def emit_waiting(engine: Engine, request: Request, attempt: Attempt, busy: Busy) -> None:
    """Tell that an attempt joins the queue."""
    attempt.waited, attempt.blocker = True, busy.holder or attempt.blocker
    event = _event("waiting", engine, request, attempt)
    observe.emit(event._replace(position=busy.position))


def emit_refused(
    engine: Engine, request: Request, attempt: Attempt, outcome: str, seconds: float
) -> None:
    """Tell that an attempt was not granted."""
    event = _event("refused", engine, request, attempt)
    observe.emit(event._replace(outcome=outcome, seconds=seconds, waited=attempt.waited))


def outcome_of(error: BaseException) -> str:
    """What an error says of the attempt that it ended."""
    if isinstance(error, NotAcquired):
        return "timeout"
    if isinstance(error, EngineError):
        return "unavailable"
    return "unknown" if isinstance(error, OutcomeUnknown) else "cancelled"


def _event(kind: str, engine: Engine, request: Request, attempt: Attempt) -> Event:
    role, name = role_of(request.share), request.name
    return Event(
        kind,
        name,
        role=role,
        election=is_election(role, read_meta(request.meta)),
        engine=engine.address.scheme,
        group=attempt.group or observe.group_of(name),
        blocker=attempt.blocker,
    )


async def timed(
    world: World, engine: Engine, verb: Callable[P, Awaitable[R]], *args: P.args, **kwargs: P.kwargs
) -> R:
    """Call an engine, and tell how long it took."""
    began, error = world.now(), None
    try:
        return await verb(*args, **kwargs)
    except BaseException as raised:
        error = raised
        raise
    finally:
        called = getattr(verb, "__name__", "")
        observe.emit_call(engine.address.scheme, called, world.now() - began, error)
        del error  # its traceback has this frame
