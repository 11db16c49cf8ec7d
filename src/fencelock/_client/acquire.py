"""Wait for a lock that the first try did not get: watch, retry, wait until a deadline, withdraw.

It serves every engine. A push means "look again", and looking is calling ``acquire`` once more for
the same owner, which engines answer idempotently.

* No engine call lasts longer than the caller's deadline and ``GRACE_S``. An attempt that ends
  without a grant is taken back, in the background if need be, so that neither an orphan lock nor an
  orphan queue entry remains.
* A doubt is never forgotten. Once an outcome is unknown, only a proof makes it known: the engine
  answered the same owner, or confirmed that the attempt was taken back. Until then the error is
  ``OutcomeUnknown``, whatever was raised last.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Sequence

from .. import observe
from ..engine import Engine
from ..errors import FencelockError, OutcomeUnknown, Unavailable, UsageError
from ..model import Busy, Grant, Request, queued
from ..world import GRACE_S, Signal, World, sleep, snapshot
from . import policy
from .events import Attempt, emit_waiting, timed
from .hold_state import HoldState
from .pending import Pending, grace, taken_back, unconfirmed, unwatch


class Waitlist:
    """The attempts of one client, so that closing the client ends their waits.

    A signal handler can raise at any bytecode, and again while the first exception is handled. So
    the list refers weakly to an object that lives in the call of each attempt and nowhere else: if
    that object dies and its attempt is still listed, the attempt is withdrawn here.
    """

    def __init__(self) -> None:
        self.closed = False
        self.attempts: dict[str, tuple[Request, weakref.ref[Attempt]]] = {}
        """By owner, the attempts that have neither got their lease nor been taken back. The call
        that begins one adds it, and removes it once it has its lease or has left nothing behind."""
        self.gone: deque[object] = deque()
        """Dead references of calls that have ended. The weak references' callback, written in C,
        fills it: no exception of a signal handler comes in between."""
        self.signals: dict[Signal, None] = {}  # in the order in which they came

    def adopt(self, pending: Pending) -> None:
        """Withdraw, in the background, the attempts whose calls are gone."""
        gone = self.gone.copy()
        if gone:  # an exception may end any step, and then the next caller starts over
            pending.go_on()
            for owner, (request, attempt) in snapshot(self.attempts):
                if attempt() is None:
                    pending.withdraw_later(request)
                    self.attempts.pop(owner, None)
            for reference in gone:
                try:
                    self.gone.remove(reference)
                except ValueError:
                    pass  # another thread has removed it

    def close(self) -> None:
        """End all waits."""
        self.closed = True
        for signal in list(self.signals):
            signal.set()

    def check(self) -> None:
        """Raise if the client was closed."""
        if self.closed:
            raise UsageError("this client was closed while it tried to acquire: connect again")


async def wait_for_lock(
    world: World,
    engine: Engine,
    waitlist: Waitlist,
    pending: Pending,
    request: Request,
    attempt: Attempt,
    timeout: float | None,
    limit: float,
    first: Grant | Busy | OutcomeUnknown,
) -> Grant | Busy:
    """Acquire by the limit, or take the attempt back.

    The caller has called ``acquire`` once, and ``first`` is its outcome: busy, a grant that has
    expired already, or no reply. After a cancellation or Ctrl-C, the caller takes the attempt back.
    """
    joins = False
    try:
        with world.until(limit):
            if isinstance(first, Busy):
                answer: Grant | Busy = first
            else:
                unknown = first if isinstance(first, OutcomeUnknown) else None
                answer = await _retry_unknown(world, engine, request, unknown, limit)
            if timeout == 0 or isinstance(answer, Grant):
                return answer
            request, joins = queued(request), True
            deadline = None if timeout is None else limit - GRACE_S
            answer = await _wait_in_queue(
                world, engine, request, attempt, deadline, limit, waitlist, answer
            )
            if isinstance(answer, Grant) and answer.valid_until <= world.now():
                raise too_late(request)  # ending the watch took longer than the lease lasts
    except FencelockError as error:
        doubt = isinstance(error, OutcomeUnknown)
        if not doubt and not joins:
            raise
        undone = await pending.withdraw(  # in asyncio the end of its time ends the watch as well
            request, grace(world, limit), waitlist.attempts, doubt, watched=joins
        )
        if not undone:
            raise unconfirmed(request, error) from error
        if doubt:
            raise taken_back(request, error) from error
        raise
    if isinstance(answer, Busy) and not await pending.withdraw(
        request, grace(world, limit), waitlist.attempts, doubted=False, watched=False
    ):
        raise unconfirmed(request, "it was not acquired in time, and the engine did not answer")
    return answer


async def _wait_in_queue(
    world: World,
    engine: Engine,
    request: Request,
    attempt: Attempt,
    deadline: float | None,
    limit: float,
    waitlist: Waitlist,
    first: Busy,
) -> Grant | Busy:
    """Watch, then look again and again until the lock is granted or the deadline has passed.

    A cancellation or Ctrl-C leaves at once: taking the attempt back ends the watch, too.
    """
    signal = world.signal()
    waitlist.signals[signal] = None
    try:
        answer = await _look(
            world, engine, request, attempt, deadline, limit, waitlist, signal, first
        )
    except FencelockError:
        await unwatch(engine, request)
        raise
    finally:
        waitlist.signals.pop(signal, None)
    await unwatch(engine, request)
    return answer


async def _look(
    world: World,
    engine: Engine,
    request: Request,
    attempt: Attempt,
    deadline: float | None,
    limit: float,
    waitlist: Waitlist,
    signal: Signal,
    first: Busy,
) -> Grant | Busy:
    """Look again when the signal is set, and now and then without it.

    An engine that queued the request at once remembers a push that comes before the watch.
    """
    busy, look = first, not first.queued
    failing_since: float | None = None
    doubt: OutcomeUnknown | None = None
    await engine.watch(request, signal)
    if first.queued and observe.subscribers:
        emit_waiting(engine, request, attempt, first)
    while True:
        if waitlist.closed:
            waitlist.check()
        if look and world.now() < limit:
            try:
                handed = engine.pushed_grant(request)
                if handed is None:
                    answer = await _acquire(world, engine, request, limit)
                elif handed.valid_until > world.now():
                    return handed
                else:
                    answer = await _retry_unknown(world, engine, request, None, limit)
                if isinstance(answer, Grant):
                    return answer
                busy, failing_since, doubt = answer, None, None
                attempt.blocker = answer.holder or attempt.blocker
                if observe.subscribers and not attempt.waited:
                    emit_waiting(engine, request, attempt, answer)
            except (Unavailable, OutcomeUnknown) as error:
                # A short outage costs nothing; one as long as the ttl is raised, or the doubt that
                # it left.
                doubt = error if isinstance(error, OutcomeUnknown) else doubt
                failing_since = world.now() if failing_since is None else failing_since
                if world.now() >= failing_since + request.ttl:
                    raise doubt or error from None
                busy = Busy(policy.RETRY_MAX_S)
        look, now = True, world.now()
        if deadline is not None and now >= deadline:
            if doubt is not None:
                raise doubt
            return busy
        look_at = policy.look_at(now, busy.look_in, world.random())
        await engine.wait(signal, policy.earlier(deadline, look_at))
        signal.clear()


async def _acquire(world: World, engine: Engine, request: Request, limit: float) -> Grant | Busy:
    """Call acquire, and again if there is no reply or the grant has expired already."""
    try:
        if observe.callers:
            answer = await timed(world, engine, engine.acquire, request)
        else:
            answer = await engine.acquire(request)
    except OutcomeUnknown as error:
        return await _retry_unknown(world, engine, request, error, limit)
    if isinstance(answer, Busy) or answer.valid_until > world.now():
        return answer
    return await _retry_unknown(world, engine, request, None, limit)


async def _retry_unknown(
    world: World, engine: Engine, request: Request, unknown: OutcomeUnknown | None, limit: float
) -> Grant | Busy:
    """Retry after no reply (``unknown``), or after a grant that came too late (None).

    A missing reply is resolved by calling ``acquire`` again for the same owner; an engine that
    cannot be reached meanwhile resolves nothing. A grant that has expired already is given back.
    """
    for attempt in range(1, policy.UNKNOWN_TRIES):
        if unknown is None:
            await _give_back(engine, request)
        elif world.now() >= limit:
            break
        else:
            request = request._replace(waits=False)  # a bare Busy would not tell if we hold it
            await sleep(world, policy.RETRY_MIN_S * attempt)
        try:
            if observe.callers:
                answer = await timed(world, engine, engine.acquire, request)
            else:
                answer = await engine.acquire(request)
        except OutcomeUnknown as error:
            unknown = error
            continue
        except Unavailable:
            if unknown is None:
                raise
            continue
        if isinstance(answer, Busy) or answer.valid_until > world.now():
            return answer
        unknown = None
    if unknown is not None:
        raise unknown
    await _give_back(engine, request)
    raise too_late(request)


async def _give_back(engine: Engine, request: Request) -> None:
    """Give back a grant that came too late to be of use."""
    try:
        await engine.withdraw(request)
    except Unavailable as error:  # it was granted, so there is something to take back
        raise OutcomeUnknown(
            f"a grant that came too late could not be given back: {error}"
        ) from error


def own_blocker(request: Request, holds: Sequence[HoldState]) -> str:
    """Return how a thread or task blocks itself by what it holds, as a text; empty if it does not.

    The holder of a slot of a semaphore may wait for another one, unless it holds them all.
    """
    name, share, about = request.name, request.share, request.meta
    kind = None if share is None else share.kind
    own = [
        hold
        for hold in holds
        if hold.grant.name == name
        and hold.meta == about
        and (hold.grant.share.kind if hold.grant.share else None) == kind
    ]
    if len(own) < (share.limit if share is not None and kind == "semaphore" else 1):
        return ""
    held = "which it holds itself"
    if kind == "semaphore":
        held = f"whose {len(own)} slot(s) it holds all by itself"
    instead = ", or acquire with reentrant=True" if share is None else ""
    return f"it waits for {name!r}, {held}: release that lease first{instead}"


def too_late(request: Request) -> Unavailable:
    return Unavailable(
        f"the engine's answers for {request.name!r} took longer than the ttl of {request.ttl:g} s; "
        "nothing is held. Ask for a longer ttl, or see why the engine is slow"
    )
