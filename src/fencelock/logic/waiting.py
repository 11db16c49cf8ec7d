"""The one waiting loop, for those whose first try did not do: subscribe, try again, wait with a
deadline, undo.

It serves every engine. A push means "look again", and looking is asking ``acquire`` once more for
the same owner; engines answer that idempotently. Whatever ends the loop without a grant (timeout,
cancellation, an error, Ctrl-C) takes the attempt back, shielded, so that neither an orphan lock nor
an orphan place in a queue stays.
"""

from __future__ import annotations

from ..engine import Engine
from ..errors import OutcomeUnknown, Unavailable, UsageError
from ..model import Busy, Grant, Request, queued
from ..world import Signal, World, sleep
from . import policy


class Waitlist:
    """Who waits through one client, so that closing it ends their waits."""

    def __init__(self) -> None:
        self.closed = False
        self.attempts: set[str] = set()
        """Owners that are trying, and have not yet got their lease or taken the attempt back."""
        self.signals: dict[Signal, None] = {}  # in the order in which they came

    def close(self) -> None:
        """End all waits."""
        self.closed = True
        for signal in list(self.signals):
            signal.set()

    def check(self) -> None:
        """Raise if the client was closed."""
        if self.closed:
            raise UsageError("this client was closed while it tried to acquire: connect again")


async def go_on(
    world: World,
    engine: Engine,
    request: Request,
    timeout: float | None,
    started: float,
    waitlist: Waitlist,
    first: Grant | Busy | OutcomeUnknown,
) -> Grant | Busy:
    """Acquire within the timeout, or leave nothing behind.

    The caller has asked the engine once, and ``first`` is what came of it: a no, a grant that is
    over already, or no answer.
    """
    deadline = None if timeout is None else started + timeout
    try:
        if isinstance(first, Busy):
            answer: Grant | Busy = first
        else:
            unknown = first if isinstance(first, OutcomeUnknown) else None
            answer = await _insist(world, engine, request, unknown)
        if timeout == 0 or isinstance(answer, Grant):
            return answer
        request = queued(request)
        answer = await _contend(world, engine, request, deadline, waitlist, answer)
        if isinstance(answer, Grant) and answer.valid_until <= world.now():
            raise _too_late(request)  # ending the watch took longer than the lease lasts
    except BaseException as error:
        undone = await world.shield(_undo(engine, request))
        if isinstance(error, OutcomeUnknown):
            raise _verdict(request, error, undone) from error
        raise
    if isinstance(answer, Busy):
        await world.shield(_undo(engine, request))
    return answer


async def undo(world: World, engine: Engine, request: Request) -> None:
    """Take an attempt back of which nobody knows how far it got."""
    await world.shield(_undo(engine, request))


async def _contend(
    world: World,
    engine: Engine,
    request: Request,
    deadline: float | None,
    waitlist: Waitlist,
    first: Busy,
) -> Grant | Busy:
    """Subscribe, then look again and again until the deadline.

    An engine that queued the request at once remembers a push that comes before we listen.
    """
    busy, look = first, not first.queued
    signal = world.signal()
    healthy_at = world.now()
    waitlist.signals[signal] = None
    try:
        await engine.watch(request, signal)
        while True:
            if waitlist.closed:
                waitlist.check()
            if look:
                try:
                    handed = engine.handed(request)
                    if handed is None:
                        answer = await _ask(world, engine, request)
                    elif handed.valid_until > world.now():
                        return handed
                    else:
                        answer = await _insist(world, engine, request, None)
                    if isinstance(answer, Grant):
                        return answer
                    busy, healthy_at = answer, world.now()
                except Unavailable:  # a short outage costs nothing, a long one is ours to know
                    if world.now() >= healthy_at + request.ttl:
                        raise
                    busy = Busy(policy.RETRY_MAX_S)
            look, now = True, world.now()
            if deadline is not None and now >= deadline:
                return busy
            look_at = policy.look_at(now, busy.look_in, world.random())
            await engine.wait(signal, policy.earlier(deadline, look_at))
            signal.clear()
    finally:
        waitlist.signals.pop(signal, None)
        try:
            await engine.unwatch(request)
        except BaseException:  # cancelled at this very moment: end the watch all the same
            await world.shield(engine.unwatch(request))
            raise


async def _ask(world: World, engine: Engine, request: Request) -> Grant | Busy:
    """Ask for an answer that can be believed."""
    try:
        answer = await engine.acquire(request)
    except OutcomeUnknown as error:
        return await _insist(world, engine, request, error)
    if isinstance(answer, Busy) or answer.valid_until > world.now():
        return answer
    return await _insist(world, engine, request, None)


async def _insist(
    world: World, engine: Engine, request: Request, unknown: OutcomeUnknown | None
) -> Grant | Busy:
    """Ask again after a first answer that will not do.

    No answer is resolved by asking again for the same owner. A grant that comes so late that it is
    over already is given back.
    """
    for attempt in range(1, policy.UNKNOWN_TRIES):
        if unknown is None:
            await engine.withdraw(request)
        else:
            request = request._replace(waits=False)  # it may be ours already: a bare no will not do
            await sleep(world, policy.RETRY_MIN_S * attempt)
        try:
            answer = await engine.acquire(request)
        except OutcomeUnknown as error:
            unknown = error
            continue
        if isinstance(answer, Busy) or answer.valid_until > world.now():
            return answer
        unknown = None
    if unknown is not None:
        raise unknown
    await engine.withdraw(request)
    raise _too_late(request)


async def _undo(engine: Engine, request: Request) -> bool:
    """Take the attempt back; the ttl is the net when even that fails."""
    for _ in range(policy.UNKNOWN_TRIES):
        try:
            await engine.withdraw(request)
        except OutcomeUnknown:
            continue
        except Exception:
            return False
        return True
    return False


def _too_late(request: Request) -> Unavailable:
    return Unavailable(
        f"the engine's answers for {request.name!r} took longer than the ttl of {request.ttl:g} s; "
        "nothing is held. Ask for a longer ttl, or see why the engine is slow"
    )


def _verdict(request: Request, error: OutcomeUnknown, undone: bool) -> Exception:
    if undone:
        return Unavailable(
            f"the engine did not answer the request for {request.name!r} ({error}); "
            "it was taken back and nothing is held. Try again"
        )
    return OutcomeUnknown(
        f"the engine did not answer the request for {request.name!r} ({error}): it may be granted "
        f"to nobody who knows, and frees itself within {request.ttl:g} s",
        until=request.ttl,
    )
