"""Make the events of attempts to acquire, and time the calls of an engine.

The events of a hold are made in ``hold_state.py``. No event is made, and no call is timed, unless
somebody has subscribed.
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
    """What events tell of an attempt. It lives exactly as long as the call that makes it."""

    group: str | None = None
    """The group that the caller gave."""
    at_once = True
    """Whether the first call of ``acquire`` was enough."""
    waited = False
    """Whether the event ``waiting`` was emitted."""
    blocker = ""
    """The meta of the holder in its way as JSON text, as far as the engine tells."""


def emit_waiting(engine: Engine, request: Request, attempt: Attempt, busy: Busy) -> None:
    """Emit that an attempt waits."""
    attempt.waited, attempt.blocker = True, busy.holder or attempt.blocker
    event = _event("waiting", engine, request, attempt)
    observe.emit(event._replace(position=busy.position))


def emit_refused(
    engine: Engine, request: Request, attempt: Attempt, outcome: str, seconds: float
) -> None:
    """Emit that an attempt was not granted."""
    event = _event("refused", engine, request, attempt)
    observe.emit(event._replace(outcome=outcome, seconds=seconds, waited=attempt.waited))


def outcome_of(error: BaseException) -> str:
    """Return the outcome of an attempt that this error has ended."""
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


async def call_engine(
    world: World, engine: Engine, verb: Callable[P, Awaitable[R]], *args: P.args, **kwargs: P.kwargs
) -> R:
    """Call an engine, and emit how long the call took if somebody has subscribed to that."""
    if observe.callers:
        return await timed(world, engine, verb, *args, **kwargs)
    return await verb(*args, **kwargs)


async def timed(
    world: World, engine: Engine, verb: Callable[P, Awaitable[R]], *args: P.args, **kwargs: P.kwargs
) -> R:
    """Call an engine, and emit how long the call took."""
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
