"""Open, acquire and close: one client, which ties a world, an engine and a keeper together.

Once a hold is granted, ``lease_lifecycle.py`` takes over. ``sync.py`` and ``aio.py`` are thin
facades of both. Everything is ``async def`` and reaches its surroundings only through the World;
under threads the facades run it with ``drive()``.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import partial
from typing import Generic, TypeVar

from .. import observe
from ..engine import Address, Engine
from ..errors import FencelockError, OutcomeUnknown, Unavailable, UsageError
from ..model import (
    Busy,
    Grant,
    Owed,
    Request,
    Traits,
    granted,
    wished,
)
from ..world import GRACE_S, NO_LIMIT, World, sleep
from . import acquire, demands, lease_token
from .events import Attempt, call_engine, emit_refused, outcome_of
from .hold_state import HasHold, HoldState, Label
from .holder_meta import HolderMeta
from .lease_lifecycle import LeaseLifecycle
from .lock_options import READ, WRITE, LockSpec
from .pending import grace
from .release import release_later
from .single_open import OpenCall, SingleOpen

ENDING_S = 0.002
MANY = 100  # with so many leases of one client, memory matters
ALIKE = 0.0005  # of a ttl: grants so near in time share their numbers
DELAYED = 0.9  # of a delay must remain after the holder's end
CLOSE_S = 5.0  # the longest that closing a client may take for its background work to end


L = TypeVar("L", bound=HasHold)


class Core(Generic[L]):
    """One client: opens the engine, acquires, and closes."""

    def __init__(
        self,
        world: World,
        make_engine: Callable[[], Engine],
        lease: Callable[[Core[L], HoldState], L],
    ) -> None:
        self.world = world
        self._make_engine = make_engine
        self.make_lease = lease
        self._inherited: list[LeaseLifecycle] = []
        self._opening = SingleOpen(world)
        self._mutex = world.mutex()
        self._opened_in = -1
        """The generation in which the engine was opened."""
        self._last = Grant("", "", 0, 0.0, 0.0, 0.0)
        self._hinted = False
        self.closed = self._closing = self.is_let_go = False
        self._begin()

    def _begin(self) -> None:
        self.waitlist = acquire.Waitlist()
        self.about = HolderMeta(self.world)
        engine = self._make_engine()
        self.lifecycle = LeaseLifecycle(self.world, engine)
        self.engine, self.keeper = engine, self.lifecycle.keeper
        self.label: Label = (engine.address.scheme, None)
        self.pending = self.lifecycle.pending
        self.keeper.chore = partial(self.waitlist.adopt, self.pending)
        self.generation = self.lifecycle.generation  # last: from here on all of it can be used

    @property
    def traits(self) -> Traits:
        return self.engine.traits

    @property
    def address(self) -> Address:
        return self.engine.address

    def here(self) -> Core[L]:
        """Return this core, which serves every thread."""
        return self

    def owed(self) -> tuple[Owed, ...]:
        """Return the undos that are not confirmed yet and go on in the background."""
        return self.pending.owed()

    def __del__(self) -> None:
        if getattr(self, "keeper", None) is not None:
            self.abandon_all()

    def abandon_all(self) -> None:
        """End background work without waiting: nobody can reach this client any more."""
        if self.generation == self.world.generation():
            self.keeper.stop()
            self.pending.stop()
            self.engine.on_gone = None
            self.engine.close_nowait()

    async def close(self) -> None:
        """Release all holds, stop the keeper and close the engine.

        If an exception of a signal handler ends a call, the next one goes on with it.
        """
        if self.is_let_go:
            return
        self.closed = True
        try:
            if self.generation != self.world.generation():
                return  # a forked child: all that is open belongs to the parent
            if self._opened_in != self.generation:
                self.abandon_all()  # the engine was never opened here
                return
            await self.world.shield(self._let_go_once())
        except BaseException:  # half a close would renew what nobody can release
            for hold in self.keeper.held():
                self.engine.mark_failed(hold.grant)
                self.lifecycle.release_later(hold)
            raise

    async def _let_go_once(self) -> None:
        """Let go, unless another call does."""
        mine = False
        try:
            with self._mutex:
                mine, self._closing = not self._closing, True
            if mine:
                await self._let_go()
                self.is_let_go = True
        finally:
            if mine:
                self._closing = False

    async def _let_go(self) -> None:
        deadline = self.world.now() + CLOSE_S
        self.waitlist.close()
        self.waitlist.adopt(self.pending)
        while self.waitlist.attempts and self.world.now() < deadline - CLOSE_S / 2:
            await sleep(self.world, ENDING_S)  # the waiters take their attempts back
        for hold in [*self.keeper.held(), *self.lifecycle.abandoned]:
            self.engine.mark_failed(hold.grant)  # its body has not ended well, or not at all
            try:
                if self.world.now() < deadline:
                    await self.lifecycle.release(hold, entirely=True, limit=deadline)
                else:
                    self.keeper.retire(hold)
                    release_later(self.world, self.engine, self.pending, hold)
            except FencelockError as error:
                observe.warn(f"{hold.grant.name!r} was not released on closing: {error}")
            hold.loss = hold.loss or hold.lost_error("session", "its client was closed")
        await self.pending.close(deadline)
        await self.keeper.close(deadline)
        self.engine.on_gone = None
        try:
            with self.world.until(max(deadline, self.world.now() + GRACE_S)):
                await self.engine.close()
        except OutcomeUnknown:
            self.engine.close_nowait()  # not even that was answered

    async def open(self) -> None:
        """Open the engine, unless it is open."""
        with self.world.until(NO_LIMIT):
            await self.ready()

    async def ready(self) -> None:
        """Make sure that the engine is open in this process; callers at the same time share that.

        A forked child gets an engine of its own. The caller is in an ``until`` block.
        """
        world = self.world
        if self.closed:
            raise UsageError("this client is closed: connect again")
        world.admit()
        generation, mine = world.generation(), OpenCall(world.signal())
        while self._opened_in != generation:
            if await self._opening.begin(mine, generation):
                try:
                    await self._open()
                    self._opened_in = generation
                finally:
                    mine.generation = -1
                    mine.ended.set()

    async def _open(self) -> None:
        if self.generation != self.world.generation():
            # The parent's engine and keeper must not even be collected here: closing them would
            # send on the parent's connection.
            self._inherited.append(self.lifecycle)
            self._begin()
        try:
            await call_engine(self.world, self.engine, self.engine.open)
        except BaseException:
            self.engine.close_nowait()
            self._begin()  # the next caller begins with a fresh engine
            raise

    def demand(self, spec: LockSpec) -> None:
        """Refuse what the engine cannot promise."""
        demands.check(self.engine, self.traits, spec)

    def _admit(self, spec: LockSpec) -> None:
        """Refuse what the engine cannot promise, and what would wait for itself.

        The facade has checked the former before, but some engines know their traits only once open.
        """
        self.demand(spec)
        if spec.share is WRITE:
            demands.refuse_upgrade(self.world.who(), self.keeper.held(), spec.name)

    async def attempt(
        self, spec: LockSpec, timeout: float | None, limit: float | None = None
    ) -> L | Busy:
        """Acquire within the timeout and return the lease, or Busy; by the limit in any case."""
        world = self.world
        started = world.now()
        if limit is None:
            limit = NO_LIMIT if timeout is None else started + timeout + GRACE_S
        if self.closed or self._opened_in != world.generation():
            await self._ready_for(spec, started, limit)
        if world.cancels:  # any thread may call, but no task of another event loop
            world.admit()
        name, _, _, renew, max_hold, on_lost, reentrant, safety, _, key, share, linger, group = spec
        if safety is not None or key is not None or share is not None or linger is not None:
            self._admit(spec)
        if reentrant:
            entered: L | None = self.lifecycle.reenter(world.who(), name)
            if entered is not None:
                return entered
        request, ttl = self._wish(spec, timeout != 0)
        owner, engine, keeper = request.owner, self.engine, self.keeper
        waitlist, pending = self.waitlist, self.pending
        hold: HoldState | None = None
        answer: Grant | Busy | OutcomeUnknown | None = None
        attempt = Attempt()
        attempt.group = group
        waitlist.attempts[owner] = (request, weakref.ref(attempt, waitlist.gone.append))
        try:
            if waitlist.gone:
                waitlist.adopt(pending)
            try:
                with world.until(limit):
                    answer = await engine.acquire(request)
            except BaseException as error:
                self._emit_call(started, error)
                if not isinstance(error, OutcomeUnknown):
                    raise
                answer = error  # the wait resolves it
            if not isinstance(answer, Grant) or answer.valid_until <= world.now():
                answer = await self._wait(request, attempt, timeout, limit, answer, started)
                if isinstance(answer, Busy):
                    return answer
            grant = answer if len(keeper.holds) < MANY else self._share_times(answer)
            if request.ttl != ttl:
                grant = await self._believed(request, grant, ttl, limit)
            hold_until = None if max_hold is None else grant.asked_at + max_hold
            label = self.label if group is None else (self.label[0], group)
            hold = HoldState(
                grant, request.meta, renew, hold_until, on_lost, self.generation, label
            )
            if linger is not None or share is READ:
                self._note(hold, spec)
            lease = self.make_lease(self, hold)  # from here on its garbage collection is noticed
            if waitlist.closed:
                waitlist.check()
            keeper.add(hold)
            if reentrant:
                self.lifecycle.remember(world.who(), name, lease)
            if observe.subscribers:
                observe.emit(hold.acquired(world.now(), started, attempt))
            waitlist.attempts.pop(owner, None)
            return lease
        except BaseException as error:
            if hold is not None or not isinstance(error, FencelockError):
                await self.undo(request, hold, limit)
            self._refuse(request, attempt, outcome_of(error), started)
            raise
        finally:
            del attempt  # an attempt that has not ended by now is taken back
            answer = None  # an error's traceback has this frame

    async def _wait(
        self,
        request: Request,
        attempt: Attempt,
        timeout: float | None,
        limit: float,
        answer: Grant | Busy | OutcomeUnknown,
        started: float,
    ) -> Grant | Busy:
        """Go on after a first call that brought no grant: wait for one, or return Busy."""
        if isinstance(answer, Busy):
            self._note_blocker(answer, request, attempt, started)
            if timeout == 0:
                self._refuse(request, attempt, "busy", started)
                return answer
        answer = await acquire.wait_for_lock(
            self.world,
            self.engine,
            self.waitlist,
            self.pending,
            request,
            attempt,
            timeout,
            limit,
            answer,
        )
        attempt.at_once = False
        if isinstance(answer, Busy):
            self._refuse(request, attempt, "timeout" if timeout else "busy", started)
        return answer

    def _wish(self, spec: LockSpec, waits: bool) -> tuple[Request, float]:
        """Return the request for the engine, and the ttl that its holder may count on."""
        name, ttl, _, _, max_hold, _, _, _, meta, key, share, linger, group = spec
        if max_hold is not None and max_hold < ttl:
            ttl = max_hold
        if observe.context is None:
            about = self.about.text(meta)
        else:
            about = self.about.text(meta, observe.context_words(group or observe.group_of(name)))
        kept = ttl if linger is None else ttl + linger.delay
        return wished(name, self.world.owner(), kept, about, waits, key, share), ttl

    def _note_blocker(self, busy: Busy, request: Request, attempt: Attempt, started: float) -> None:
        """Record the holder that was in the way of the first call."""
        attempt.blocker = busy.holder
        self._emit_call(started, None)
        if request.waits and not self._hinted:
            self._hint(request)

    def _emit_call(self, started: float, error: BaseException | None) -> None:
        """Emit the duration of a first call that brought no grant, if there are subscribers."""
        if observe.callers:
            observe.emit_call(self.label[0], "acquire", self.world.now() - started, error)

    def _refuse(self, request: Request, attempt: Attempt, outcome: str, started: float) -> None:
        """Take an attempt that was not granted off the list, and emit that."""
        self.waitlist.attempts.pop(request.owner, None)
        if observe.subscribers:
            emit_refused(self.engine, request, attempt, outcome, self.world.now() - started)

    def _note(self, hold: HoldState, spec: LockSpec) -> None:
        """Set the attributes of a hold that only lingering locks and readers need."""
        if spec.linger is not None:
            hold.delay = spec.linger.delay
            hold.min_until = self.world.now() + spec.linger.min_hold
        if spec.share is READ:
            hold.reader = weakref.ref(self.world.who())

    async def _believed(self, request: Request, grant: Grant, ttl: float, limit: float) -> Grant:
        """Return the grant without the delay, for which the engine keeps it after its holder's ttl.

        Where the engine granted less than was requested, the ttl is cut and the delay is not. Where
        it counts from the age of a session, the delay is shorter by a tenth at most.
        """
        delay = request.ttl - ttl
        if grant.ttl < request.ttl:
            ttl = min(ttl, grant.ttl - delay)
        end = grant.valid_until - delay * DELAYED
        grant = granted(grant.name, grant.owner, grant.fence, ttl, grant.asked_at, grant.share)
        if end < grant.valid_until:
            grant = grant._replace(valid_until=end)
        if grant.valid_until <= self.world.now():
            await self.undo(request, None, limit)
            raise acquire.too_late(request._replace(ttl=ttl))
        return grant

    async def _ready_for(self, spec: LockSpec, started: float, limit: float) -> None:
        """Make sure that the engine is open; emit a refused attempt if that fails."""
        try:
            await self.ready_by(limit)
        except BaseException as error:
            if observe.subscribers and not isinstance(error, UsageError):
                attempt = Attempt()
                attempt.group = spec.group
                request = Request(spec.name, "", spec.ttl, share=spec.share)
                spent = self.world.now() - started
                emit_refused(self.engine, request, attempt, outcome_of(error), spent)
            raise

    async def ready_by(self, limit: float) -> None:
        try:
            with self.world.until(limit):
                await self.ready()
        except OutcomeUnknown as error:
            raise Unavailable(
                f"the engine was not reached in time ({error}); nothing was asked for"
            ) from error

    async def undo(self, request: Request, hold: HoldState | None, limit: float) -> None:
        """Take back an attempt that has failed: the engine may have granted it all the same.

        The reason may be anything: a cancellation, an exception of a signal handler, no thread
        left. Errors of ours that come before the grant have been dealt with.
        """
        if hold is not None:
            self.keeper.retire(hold)
        self.world.unbound()
        if request.owner in self.waitlist.attempts:
            await self.pending.withdraw(
                request,
                grace(self.world, limit),
                self.waitlist.attempts,
                doubted=True,
                watched=True,
            )
        else:
            self.pending.go_on()

    def _hint(self, request: Request) -> None:
        """Warn once of a wait that stops an event loop, or that waits for the caller's own hold."""
        why, holds = self.world.stalls(), self.keeper.holds
        if len(holds) > MANY:
            return
        if not why and holds:
            why = acquire.own_blocker(request, list(holds))
        if why:
            self._hinted = True
            observe.warn(f"a blocking call ({request.meta}): {why}")

    def _share_times(self, grant: Grant) -> Grant:
        """Let grants of nearly the same moment share the numbers of the oldest.

        A holder gives up earlier by ``ALIKE`` of a ttl at most; ten thousand take less memory.
        """
        name, owner, fence, ttl, asked_at, end, share = grant
        _, _, _, same_ttl, earlier, valid_until, _ = self._last
        alike = earlier <= asked_at <= earlier + ttl * ALIKE
        if ttl != same_ttl or not alike or valid_until > end:
            self._last = grant
            return grant
        return Grant(name, owner, fence, same_ttl, earlier, valid_until, share)

    def take_over(self, grant: Grant) -> L:
        """Return the lease that another process handed over. Only its holder renews it.

        Only the engine knows whether it still holds: clocks are not compared across processes.
        """
        name, owner, fence, ttl, _, _, share = grant
        grant = granted(name, owner, fence, ttl, self.world.now(), share)
        hold = HoldState(grant, "{}", False, None, None, self.generation, self.label)
        return self.make_lease(self, hold)

    async def resume(self, token: str) -> L:
        """Hold and renew a lease that was handed over; raise LeaseLost if it is gone."""
        grant, delay = lease_token.unpack(token)
        await self.ready()
        lease = self.take_over(grant)
        hold = lease._hold  # pyright: ignore[reportPrivateUsage]  # a lease is a facade of ours
        hold.renews, hold.delay = True, delay
        try:
            await self.lifecycle.renew(hold, None)
        except BaseException:
            self.keeper.retire(hold)  # the grant is untouched, and the token can be used again
            raise
        self.keeper.add(hold)
        if observe.subscribers:
            observe.emit(hold.event("taken_over"))
        return lease

    async def wait_lost(self, hold: HoldState, timeout: float | None) -> bool:
        """Wait until the hold is lost; False when time is up or it was released."""
        return await self.lifecycle.wait_lost(hold, timeout)
