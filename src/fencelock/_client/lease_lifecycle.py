"""Check, renew and release the holds of one client, from their grant to their end.

``client.py`` acquires. From then on the holder's own clock decides whether a hold is valid, the
keeper renews it, and it ends by being released, dropped or handed over. Nothing here acquires
another hold, and nothing knows the client.
"""

from __future__ import annotations

import weakref
from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

from .. import observe
from ..engine import Engine
from ..errors import FencelockError, LeaseLost, SessionEnded, Unsupported, UsageError
from ..model import Busy, Grant, Meta, Request
from ..world import GRACE_S, NO_LIMIT, World
from . import policy
from .events import timed
from .hold_state import HasHold, HoldState
from .holder_meta import read_meta
from .keeper import Keeper
from .lease_token import pack
from .lock_options import READ
from .loss_notify import warn_unreleased
from .pending import Pending
from .release import free, free_again, free_all, give_back, release_later, settle
from .validation import TTL_MIN_S

PRESUMED = "a request had no answer, and asked again the lock was gone: released, or revoked before"


class Levels(NamedTuple):
    """A re-entrant hold, and how often its holder had entered it before a call that enters again.

    An exception of a signal handler may end that call at any bytecode: then it has not entered.
    """

    hold: HoldState
    entered: int

    def restore(self) -> None:
        self.hold.count = self.entered


class LeaseLifecycle:
    """The holds of one client, in one process."""

    def __init__(self, world: World, engine: Engine) -> None:
        self.world = world
        self._reentrant: dict[tuple[int, str], tuple[weakref.ref[Any], weakref.ref[Any]]] = {}
        """Re-entrant leases by id of the thread or task and by name: weak references to the thread
        or task and to the lease."""
        self.abandoned: list[HoldState] = []
        """Holds whose leases were collected unreleased; the engine may still keep them."""
        self.engine = engine
        self.keeper = Keeper(world, engine)
        self.pending = Pending(world, engine)
        engine.on_gone = self.keeper.on_gone
        self.generation = world.generation()

    async def release(
        self, hold: HoldState, entirely: bool = False, limit: float | None = None
    ) -> bool:
        """Leave one level of a hold; leaving the last one releases the lock."""
        levels = 0
        try:
            levels = 1 if hold.rare is None or entirely else hold.count
            world, engine, pending = self.world, self.engine, self.pending
            if hold.generation != world.generation():
                return False
            if levels > 1:
                hold.count = levels - 1
                if hold.loss is None and not hold.released:
                    return True
            if hold.released and not hold.owed:
                return False
            if hold.rare is not None:
                if hold.before_release is not None:
                    hold.before_release()
                self._forget(hold)
            began = world.now()
            if limit is None:  # under asyncio the connections have limits of their own
                limit = NO_LIMIT if world.cancels else began + policy.RELEASE_S
            with world.until(limit):
                held = self.keeper.retire(hold)
                if not held:  # its holder was told of a loss: then no work may be kept
                    engine.mark_failed(hold.grant)
                if world.cancels:
                    work = free(world, engine, pending, hold, began)
                    freed = await world.shield(work, engine.plain)
                else:
                    try:  # as free() does, with one await less
                        if hold.rare is None:
                            freed = await engine.release(hold.grant)
                        else:
                            freed = await give_back(world, engine, hold)
                    except BaseException as error:
                        freed = await free_again(world, engine, pending, hold, began, error)
                    if hold.rare is not None:
                        settle(pending, hold)
            if hold.loss is None and not freed and held:
                self._lose(hold)
            if observe.subscribers:
                self._emit_released(hold, began if hold.rare is None else None)
            return freed
        except FencelockError as error:
            if hold.released and observe.subscribers:
                spent = self.world.now() - hold.since
                observe.emit(hold.event("release_failed", str(error), spent))
            raise
        except BaseException:
            # An exception of a signal handler, at any bytecode: the caller will not retry.
            levels = levels or (1 if entirely else hold.count)
            if levels > 1:
                hold.count = levels - 1
            else:
                self.release_later(hold)
            raise

    def leave_later(self, hold: HoldState, levels: int, error: BaseException | None) -> None:
        """End a ``with`` block that was the innermost of so many levels, however far the
        interrupted call has come; a release is left to the background."""
        if error is not None and not hold.released:
            self._mark_failed(hold, levels)
        if levels > 1:
            hold.count = levels - 1
        elif not hold.released:
            self.release_later(hold)

    def levels(self, who: Hashable, name: str) -> Levels | None:
        """Return the re-entrant hold of a thread or task, if it has one."""
        lease = self._entered(who, name)
        return None if lease is None else Levels(lease._hold, lease._hold.count)

    def release_later(self, hold: HoldState) -> None:
        """Release a lock in the background. Under asyncio a release that has begun goes on anyway:
        it is shielded.
        """
        if self.is_foreign(hold) or (self.world.cancels and hold.released):
            return
        self.world.unbound()
        self.keeper.retire(hold)
        hold.owed = True
        release_later(self.world, self.engine, self.pending, hold)

    def _lose(self, hold: HoldState) -> None:
        """Record a loss that only the reply to a release has revealed."""
        gone = self.engine.why_gone(hold.grant)
        hold.loss = hold.lost_error(gone.loss, gone.reason)
        if observe.subscribers:
            observe.emit(hold.event("lost", hold.loss.reason, self.world.now() - hold.since))

    def _emit_released(self, hold: HoldState, asked_at: float | None) -> None:
        detail, now = PRESUMED if hold.presumed else "", self.world.now()
        call = None if asked_at is None else now - asked_at
        observe.emit(hold.event("released", detail, now - hold.since, call=call))

    async def release_all(
        self, holds: Sequence[HoldState], limit: float | None = None
    ) -> list[bool] | None:
        """Give several locks back in one request, where the engine can.

        Return None, having done nothing, unless each of them holds and is plain: then the caller
        releases them one by one.
        """
        if len(holds) < 2 or self.engine.commits or not all(map(self._is_plain, holds)):
            return None
        try:
            return await self._release_all(holds, limit)
        except FencelockError:
            raise
        except BaseException:  # an exception of a signal handler: see release()
            for hold in holds:
                self.release_later(hold)
            raise

    def _is_plain(self, hold: HoldState) -> bool:
        usual = hold.count == 1 and hold.before_release is None and not hold.min_until
        return usual and self.loss(hold) is None and not hold.released

    async def _release_all(self, holds: Sequence[HoldState], limit: float | None) -> list[bool]:
        world, engine = self.world, self.engine
        began = world.now()
        if limit is None:
            limit = NO_LIMIT if world.cancels else began + policy.RELEASE_S
        with world.until(limit):
            held = [self.keeper.retire(hold) for hold in holds]
            for hold in holds:
                self._forget(hold)
            work = free_all(world, engine, self.pending, holds, began)
            freed = await world.shield(work, engine.plain)
        for hold, was_held, was_freed in zip(holds, held, freed, strict=True):
            if hold.loss is None and not was_freed and was_held:
                self._lose(hold)
            if observe.subscribers:
                self._emit_released(hold, None)
        return freed

    def remember(self, who: Hashable, name: str, lease: HasHold) -> None:
        """Let the same thread or task enter again, without keeping either alive."""
        entry = lease._hold.entry = (id(who), name)  # pyright: ignore[reportPrivateUsage]
        self._reentrant[entry] = (weakref.ref(who), weakref.ref(lease))

    def reenter(self, who: Hashable, name: str) -> Any:
        """Enter a hold again and return its lease; None if this thread or task has none."""
        lease = self._entered(who, name)
        if lease is None or self.remaining(lease._hold) <= 0:
            return None  # if it has ended, the caller acquires a new hold
        lease._hold.count += 1
        return lease

    def _entered(self, who: Hashable, name: str) -> Any:
        """Return the lease that a thread or task has entered and may enter again, or None."""
        whose, reference = self._reentrant.get((id(who), name), (None, None))
        if whose is None or reference is None or whose() is not who:
            return None
        return reference()

    def _forget(self, hold: HoldState) -> None:
        """Let nobody enter a hold again. An entry that is a later hold's by now stays."""
        _, reference = self._reentrant.get(hold.entry, (None, None))
        lease = reference() if reference is not None else None
        if lease is None or lease._hold is hold:
            self._reentrant.pop(hold.entry, None)

    async def leave(self, hold: HoldState, error: BaseException | None) -> None:
        """End a ``with`` block: release, and raise if the body ran without the lock at any time.

        An error of the body is never hidden; it gets a note instead. A release that was not
        confirmed after a body that ended well is a warning and an event.
        """
        failure: FencelockError | None = None
        lost: LeaseLost | None = None
        levels = 0
        try:
            levels = 1 if hold.rare is None else hold.count
            lost = self.loss(hold)
            if error is not None:
                self._mark_failed(hold, levels)
            await self.release(hold)
            if self.engine.commits and hold.released and hold.failed:
                failure = UsageError(
                    f"a block within this one raised under {hold.grant.name!r}: its transaction "
                    "was rolled back and nothing is committed. Let such an error through"
                )
        except FencelockError as raised:
            failure = raised
        except BaseException:
            self.leave_later(hold, levels or hold.count, error)
            raise
        lost = lost or hold.loss
        trouble = hold.lost_again(lost) if lost is not None else failure
        if trouble is None or isinstance(error, LeaseLost):
            return
        if error is not None:
            error.add_note(f"While this was raised: {trouble}")
        elif lost is None and not self.engine.commits:
            # The body ended well under the lock. An error here would make callers run it again.
            warn_unreleased(trouble)
        else:
            raise trouble

    def _mark_failed(self, hold: HoldState, levels: int) -> None:
        """Let no work be kept of a block that has raised."""
        if not self.is_foreign(hold):
            self.engine.mark_failed(hold.grant)
            if levels > 1:
                hold.failed = True

    async def renew(self, hold: HoldState, ttl: float | None) -> None:
        """Renew at once, with a new ttl if one is given."""
        self.check(hold)
        if ttl is not None:
            hold.ttl = ttl
        if (longest := self.engine.traits.ttl_max) is not None:  # more would be cut
            hold.ttl = min(hold.ttl, max(longest - hold.delay, TTL_MIN_S))
        with self.world.until(max(self.world.now(), hold.valid_until()) + GRACE_S):
            await self.keeper.renew_now(hold)
        self.check(hold)

    async def downgrade(self, hold: HoldState) -> None:
        """Make a write lock a read lock, with nobody else writing in between.

        From before the request is sent it counts as a read lock here: others may read at once.
        """
        self.check(hold)
        grant = hold.grant
        if grant.share is None or hold.role not in ("read", "write"):
            raise UsageError(f"{grant.name!r} is not held for writing: only that can be downgraded")
        hold.downgraded, hold.reader = True, weakref.ref(self.world.who())
        request = Request(grant.name, grant.owner, hold.ttl, hold.meta, share=READ)
        with self.world.until(max(self.world.now(), hold.valid_until()) + GRACE_S):
            if observe.callers:
                answer = await timed(self.world, self.engine, self.engine.acquire, request)
            else:
                answer = await self.engine.acquire(request)
        if isinstance(answer, Busy) or answer.fence != grant.fence:  # others came between
            self.keeper.lose(hold, "expired", "its record was gone when it was to be downgraded")
        self.check(hold)

    def remaining(self, hold: HoldState) -> float:
        """Seconds for which the hold still promises exclusivity."""
        return 0.0 if self.is_foreign(hold) else hold.remaining(self.world.now())

    def loss(self, hold: HoldState) -> LeaseLost | None:
        """The loss of a hold, judged by the clock if nobody has noticed yet."""
        if self.is_foreign(hold):
            reason = "this process was forked from its holder, and the lease stays with the parent"
            return hold.lost_error("session", reason)
        if hold.loss is None and not hold.released:
            self.keeper.expire_if_due(hold, self.world.now())
        return hold.loss

    def check(self, hold: HoldState) -> None:
        """Raise LeaseLost unless the hold is valid."""
        loss = self.loss(hold)
        if loss is not None:
            raise hold.lost_again(loss)
        if hold.released:
            name, reason = hold.grant.name, "handed over" if hold.handed_over else "released"
            raise SessionEnded(
                f"the lease on {name!r} was {reason}: acquire the lock again",
                name=name,
                fence=hold.grant.fence,
                reason=f"it was {reason}",
            )

    async def wait_lost(self, hold: HoldState, timeout: float | None) -> bool:
        """Wait until the hold is lost; False when time is up or it was released."""
        deadline = policy.deadline(self.world.now(), timeout)
        if hold.signal is None:
            hold.signal = self.world.signal()
        while self.loss(hold) is None:
            if hold.released:
                return False
            # The keeper sets the signal on a loss; the nap is for a release and for suspend.
            nap = policy.earlier(deadline, self.world.now() + 1.0)
            with self.world.until(NO_LIMIT):
                await self.world.wait(hold.signal, nap)
            if deadline is not None and self.world.now() >= deadline:
                return self.loss(hold) is not None
        return True

    def is_foreign(self, hold: HoldState) -> bool:
        """Whether this process is a forked child that merely inherited the object."""
        return hold.generation != self.world.generation()

    def abandon(self, hold: HoldState) -> bool:
        """Stop renewing a hold whose lease was collected unreleased; True if a warning is in order.

        A lease that is collected because the program ends is released when the client is closed.
        """
        now = self.world.now()
        if hold.remaining(now) == 0 or self.is_foreign(hold):
            return False  # if it has just expired, the keeper tells that
        self.keeper.abandon(hold)
        self._forget(hold)
        self.abandoned = [*(t for t in self.abandoned if t.remaining(now) > 0), hold]
        return True

    def give_away(self, hold: HoldState) -> str:
        """Return a token that hands the hold over; it cannot be used here any more."""
        if not self.engine.traits.portable:
            raise Unsupported(
                f"a lease of {self.engine.address.public} ends with the process that acquired it "
                "and cannot be handed over: use sqlite, redis, etcd, zookeeper, or postgresql and "
                "mysql with mode=lease"
            )
        if hold.count > 1:
            raise UsageError(
                f"{hold.grant.name!r} was entered {hold.count} times: hand it over in the outermost"
            )
        return pack(self.hand_over(hold), hold.delay)

    def hand_over(self, hold: HoldState) -> Grant:
        """Return the grant of a hold for its next holder, and stop looking after it, unreleased."""
        self.check(hold)
        self.keeper.retire(hold)
        hold.handed_over = True
        self._forget(hold)
        if observe.subscribers:
            observe.emit(hold.event("handed_over", seconds=self.world.now() - hold.since))
        return hold.grant

    def connection(self, hold: HoldState) -> object:
        """Return the connection whose transaction is the hold, where the engine holds locks so."""
        self.check(hold)
        return self.engine.connection(hold.grant)

    def meta(self, hold: HoldState) -> Meta:
        """What others see of the holder."""
        return read_meta(hold.meta)
