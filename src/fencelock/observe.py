"""Events for logs, metrics and tests.

``subscribe(function)`` has the function called with every ``Event``; it must be quick and may be
called from any thread. Warnings also go to the logger ``fencelock``. With nobody subscribed an
event costs one truth test.

``fencelock.telemetry`` counts events and shows them as metrics.
"""

from __future__ import annotations

import _thread
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple, TypeAlias, cast

from .model import Role

GROUP_MAX = 100  # characters of a group
NAMES_MAX = 4_096  # names whose groups are remembered


class Event(NamedTuple):
    """Something that happened to a name, or a call of an engine."""

    kind: str
    """acquired, waiting, refused, renewed, renew_failed, released, release_failed, lost, revoked,
    abandoned, handed_over, taken_over, callback_failed, stale, engine"""
    name: str
    fence: int | None = None
    detail: str = ""
    seconds: float | None = None
    """How long it took: the wait of an acquire that was granted or refused, the hold of a release
    or a loss, the call of an engine."""
    role: Role = "lock"
    """What is held: a lock, a slot of a semaphore, a read or a write lock."""
    slot: int | None = None
    """Which slot of a semaphore."""
    election: bool = False
    """Whether the lock is held in order to lead."""
    engine: str = ""
    """The scheme of the engine's URL; empty for what a guard tells."""
    group: str = ""
    """What names of one kind have in common: what the caller gave, or ``group_of`` the name."""
    outcome: str = ""
    """Of ``refused``: busy, timeout, unavailable, unknown or cancelled. Of ``lost``: expired,
    revoked or session. Of ``engine``: the class of the error, or nothing when it answered."""
    waited: bool = False
    """Of ``acquired`` and ``refused``: whether ``waiting`` was told of the same attempt."""
    position: int | None = None
    """Of ``waiting``: how many wait before this one, where the engine tells."""
    blocker: str = ""
    """Who was in the way of an acquire: its meta as JSON text, where the engine tells."""
    renewals: int = 0
    """Of ``renewed``: how often the lease was renewed by now."""
    slack: float | None = None
    """Of ``renewed``: seconds that were left of the lease when its renewal landed."""
    verb: str = ""
    """Of ``engine``: what was called."""
    guard: str = ""
    """Of ``stale``: which kind of guard refused the fence."""
    call: float | None = None
    """Of ``acquired`` and ``released``: seconds that the engine took, where one call was enough."""


_Functions: TypeAlias = tuple[Callable[[Event], object], ...]

_mutex = _thread.allocate_lock()
_muted: set[int] = set()
"""Threads whose events and warnings are dropped."""
_sink: Callable[[str], object] | None = None
_groups: dict[str, str] = {}
_substitute: Callable[[str, str], str] | None = None
subscribers: _Functions = ()
"""The functions that get events. The hot path checks that there are any before it makes one."""
callers: _Functions = ()
"""The functions that get an event of kind ``engine`` for calls of an engine, too: for all of them,
or for those that no other event reports by its ``call``. Those are rare, so that timing costs next
to nothing."""
_timers: _Functions = ()
"""The functions that get it for all calls."""
context: Callable[[str], Mapping[str, str]] | None = None
"""Called with the group when an acquire begins; returns entries for the meta that others see of the
holder. They are left out where they do not fit. A tracer sets it; nobody else needs it."""

# On the hot path a named tuple is made as the plain one that it is, in half the time.
make_event: Callable[[type[Event], tuple[object, ...]], Event] = cast("Any", tuple).__new__


def subscribe(
    function: Callable[[Event], object], *, calls: bool | Literal["rest"] = False
) -> Callable[[], None]:
    """Have a function called with every event; call the result to end that.

    With ``calls``, every call of an engine is an event as well; with ``"rest"``, those calls of
    which neither ``acquired`` nor ``released`` tells by its ``call``.
    """
    global subscribers, callers, _timers
    with _mutex:
        subscribers = (*subscribers, function)
        callers = (*callers, function) if calls else callers
        _timers = (*_timers, function) if calls is True else _timers

    def unsubscribe() -> None:
        global subscribers, callers, _timers
        with _mutex:
            subscribers = _without(subscribers, function)
            callers = _without(callers, function) if calls else callers
            _timers = _without(_timers, function) if calls is True else _timers

    return unsubscribe


def _without(functions: _Functions, one: Callable[[Event], object]) -> _Functions:
    """Return the functions without one of them; of two equal ones the first is removed."""
    if one not in functions:
        return functions
    index = functions.index(one)
    return functions[:index] + functions[index + 1 :]


class Muted:
    """Suppress the events and warnings of a thread within a block, for simulated clients."""

    def __enter__(self) -> None:
        self._thread = _thread.get_ident()
        self._was = self._thread in _muted
        _muted.add(self._thread)

    def __exit__(self, *_: object) -> None:
        if not self._was:
            _muted.discard(self._thread)


def _is_muted() -> bool:
    return bool(_muted) and _thread.get_ident() in _muted


def emit(event: Event) -> None:
    """Call all subscribers. An error of one is logged and harms nobody."""
    if _is_muted():
        return
    for function in subscribers:
        try:
            function(event)
        except Exception as error:
            _failed(event, error)
    if _timers and event.call is not None:
        verb = "acquire" if event.kind == "acquired" else "release"
        _tell(_timers, _made(event.engine, verb, event.call, ""))


def emit_call(engine: str, verb: str, seconds: float, error: BaseException | None) -> None:
    """Emit a call of an engine to ``callers``."""
    if _is_muted():
        return
    _tell(callers, _made(engine, verb, seconds, "" if error is None else type(error).__name__))


def _made(engine: str, verb: str, seconds: float, error: str) -> Event:
    return Event("engine", "", seconds=seconds, engine=engine, outcome=error, verb=verb)


def _tell(functions: _Functions, event: Event) -> None:
    for function in functions:
        try:
            function(event)
        except Exception as error:
            _failed(event, error)


def _failed(event: Event, error: Exception) -> None:
    warn(f"a subscriber failed on {event.kind} of {event.name!r}: {error!r}")


def context_words(group: str) -> Mapping[str, str]:
    """Return the entries that a tracer adds to the meta of an acquire that begins now."""
    if _is_muted():
        return {}
    try:
        return context(group) if context is not None else {}
    except Exception as error:
        warn(f"a tracer failed: {error!r}")
        return {}


def group_of(name: str) -> str:
    """What a name has in common with others of its kind: numbers, hex and UUIDs are ``*``.

    ``order:4711`` and ``order:4712`` are ``order:*``. Long words with digits, such as ids in base
    32 or 64, are ``*`` as well.
    """
    group = _groups.get(name)
    if group is None:
        if len(_groups) >= NAMES_MAX:
            _groups.clear()
        group = _groups[name] = (_substitute or _compile())("*", name)[:GROUP_MAX]
    return group


def _compile() -> Callable[[str, str], str]:
    global _substitute
    import re  # here: only where events need a group

    word = r"(?<![^\W_]){}(?![^\W_])"  # neither a letter nor a digit beside it
    patterns = (
        r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}",
        word.format(r"(?=[a-fA-F]*[0-9])[0-9a-fA-F]+"),
        word.format(r"[0-9a-fA-F]{8,}"),
        word.format(r"(?=[a-zA-Z]*[0-9])[0-9a-zA-Z]{16,}"),
        r"\d+",
    )
    _substitute = re.compile("|".join(patterns)).sub
    return _substitute


def redirect(function: Callable[[str], object] | None) -> None:
    """Have warnings given to a function instead of the log; None ends that."""
    global _sink
    _sink = function


def warn(message: str) -> None:
    """Log a warning for an operator."""
    if _is_muted():
        return
    if _sink is not None:
        _sink(message)
        return
    import logging  # 7 ms at first, and only when something is wrong

    logging.getLogger("fencelock").warning(message)
