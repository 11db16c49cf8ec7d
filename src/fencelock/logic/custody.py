"""What a client does with its tenures once they are granted, until each of them ends.

``core.py`` gets a tenure. From then on it is in custody here: whether it still holds is judged by
the holder's own clock, it is renewed when its holder wishes so, and it ends by being released,
dropped or handed over. Nothing here acquires, and nothing knows whose client it is.
"""

from __future__ import annotations

import weakref
from functools import partial
from typing import Any

from .. import observe
from ..engine import Engine
from ..errors import FencelockError, LeaseLost, SessionEnded, UsageError
from ..model import Grant, Meta
from ..world import GRACE_S, NO_LIMIT, World
from . import policy
from .about import read_meta
from .freeing import free, free_again, settle
from .keeper import Keeper
from .pending import Pending
from .telling import tell_unreleased
from .tenure import Tenure


class Custody:
    """The tenures of one client, in one process."""

    def __init__(self, world: World) -> None:
        self.world = world

    def _take_charge(self, engine: Engine) -> None:
        """Begin in this process, with an engine that has granted nothing yet."""
        self._reentrant: dict[tuple[int, str], tuple[weakref.ref[Any], weakref.ref[Any]]] = {}
        """Leases that whoever holds them may enter again: by the id of the thread or task."""
        self._abandoned: list[Tenure] = []
        """Tenures whose leases were collected unreleased; the engine may hold them still."""
        self.engine = engine
        self.keeper = Keeper(self.world, engine)
        self.pending = Pending(self.world, engine)
        engine.on_gone = self.keeper.heed
        self.generation = self.world.generation()  # last: from here on all of it is of use

    async def release(
        self, tenure: Tenure, entirely: bool = False, limit: float | None = None
    ) -> bool:
        """Leave one level of a tenure; the last one gives the lock back."""
        try:
            return await self._release(tenure, entirely, limit)
        except FencelockError:
            raise
        except BaseException:
            # Of a signal handler, at any bytecode: its caller will not come again.
            self._release_later(tenure)
            raise

    def _release_later(self, tenure: Tenure) -> None:
        """Have a lock given back in the background, unless that is under way or done."""
        if not self.world.cancels and not self.is_foreign(tenure):
            self.world.unbound()
            self.keeper.retire(tenure)
            tenure.owed = True
            self.pending.release(tenure.grant, partial(settle, self.pending, tenure))

    async def _release(self, tenure: Tenure, entirely: bool, limit: float | None) -> bool:
        world, engine, pending = self.world, self.engine, self.pending
        if tenure.generation != world.generation():
            return False
        if tenure.rare is not None and tenure.count > 1 and not entirely:
            tenure.count -= 1
            if tenure.loss is None and not tenure.released:
                return True
        if tenure.released and not tenure.owed:
            return False
        if tenure.rare is not None:
            if tenure.before_release is not None:
                tenure.before_release()
            self._forget(tenure)
        with world.until(limit if limit is not None else self._release_by()):
            held, began = self.keeper.retire(tenure), world.now()
            if not held:  # its holder was told of a loss: then nothing may be kept
                engine.spoil(tenure.grant)
            if world.cancels:
                work = free(world, engine, pending, tenure, began)
                freed = await world.shield(work, engine.plain)
            else:
                try:  # as free() does, with one await less
                    freed = await engine.release(tenure.grant)
                except BaseException as error:
                    freed = await free_again(world, engine, pending, tenure, began, error)
                if tenure.rare is not None:
                    settle(pending, tenure)
        if tenure.loss is None and not freed and held:
            gone = engine.why_gone(tenure.grant)
            tenure.loss = tenure.lost_error(gone.loss, gone.reason)
        if observe.subscribers:
            held_s = world.now() - tenure.grant.asked_at
            name, fence = tenure.grant.name, tenure.grant.fence
            observe.emit(observe.Event("released", name, fence, seconds=held_s))
        return freed

    def _release_by(self) -> float:
        """By when a release ends whose caller has set no limit; wires of asyncio know their own."""
        return NO_LIMIT if self.world.cancels else self.world.now() + policy.RELEASE_S

    def _forget(self, tenure: Tenure) -> None:
        """Let nobody enter a tenure again. What is remembered may be a later one of the same."""
        _, reference = self._reentrant.get(tenure.entry, (None, None))
        lease = reference() if reference is not None else None
        if lease is None or lease._tenure is tenure:
            self._reentrant.pop(tenure.entry, None)

    async def leave(self, tenure: Tenure, error: BaseException | None) -> None:
        """End a ``with`` block: release, and raise if the body ran without the lock for any of
        its time.

        An error of the body is never hidden; it gets a note instead. A release that was not
        confirmed after a body that ended well is a warning and an event.
        """
        failure: FencelockError | None = None
        lost: LeaseLost | None = None
        try:
            lost = self.loss(tenure)
            if error is not None and not self.is_foreign(tenure):
                self.engine.spoil(tenure.grant)
                if tenure.count > 1:
                    tenure.spoiled = True
            await self.release(tenure)
            if tenure.released and tenure.spoiled and self.engine.commits:
                failure = UsageError(
                    f"a block within this one raised under {tenure.grant.name!r}: its transaction "
                    "was rolled back and nothing is committed. Let such an error through"
                )
        except FencelockError as raised:
            failure = raised
        except BaseException:
            if not tenure.released and tenure.count <= 1:
                self._release_later(tenure)
            raise
        lost = lost or tenure.loss
        trouble = tenure.lost_again(lost) if lost is not None else failure
        if trouble is None or isinstance(error, LeaseLost):
            return
        if error is not None:
            error.add_note(f"While this was raised: {trouble}")
        elif lost is None and not self.engine.commits:
            # The body ended well under the lock. An error here would make callers run it again.
            tell_unreleased(tenure, trouble)
        else:
            raise trouble

    async def renew(self, tenure: Tenure, ttl: float | None) -> None:
        """Renew at once, with a new ttl if one is given."""
        self.check(tenure)
        if ttl is not None:
            tenure.ttl = ttl
        with self.world.until(max(self.world.now(), tenure.valid_until()) + GRACE_S):
            await self.keeper.renew_now(tenure)
        self.check(tenure)

    def remaining(self, tenure: Tenure) -> float:
        """Seconds for which the tenure still promises exclusivity."""
        return 0.0 if self.is_foreign(tenure) else tenure.remaining(self.world.now())

    def loss(self, tenure: Tenure) -> LeaseLost | None:
        """The loss of a tenure, judged by the clock if nobody has noticed yet."""
        if self.is_foreign(tenure):
            reason = "this process was forked from its holder, and the lease stays with the parent"
            return tenure.lost_error("session", reason)
        if tenure.loss is None and not tenure.released:
            self.keeper.lapse(tenure, self.world.now())
        return tenure.loss

    def check(self, tenure: Tenure) -> None:
        """Raise unless the tenure holds."""
        loss = self.loss(tenure)
        if loss is not None:
            raise tenure.lost_again(loss)
        if tenure.released:
            name = tenure.grant.name
            raise SessionEnded(
                f"the lease on {name!r} was released: acquire the lock again",
                name=name,
                fence=tenure.grant.fence,
                reason="it was released",
            )

    async def wait_lost(self, tenure: Tenure, timeout: float | None) -> bool:
        """Wait until the tenure is lost; False when time is up or it was released."""
        deadline = policy.deadline(self.world.now(), timeout)
        if tenure.signal is None:
            tenure.signal = self.world.signal()
        while self.loss(tenure) is None:
            if tenure.released:
                return False
            # A tenure that ends is noticed by the keeper; the nap is for a release and for suspend.
            nap = policy.earlier(deadline, self.world.now() + 1.0)
            with self.world.until(NO_LIMIT):
                await self.world.wait(tenure.signal, nap)
            if deadline is not None and self.world.now() >= deadline:
                return self.loss(tenure) is not None
        return True

    def is_foreign(self, tenure: Tenure) -> bool:
        """Whether this process is a forked child that merely inherited the object."""
        return tenure.generation != self.world.generation()

    def abandon(self, tenure: Tenure) -> bool:
        """A lease was collected unreleased: renew no more. True when that deserves a warning.

        What is collected because the program ends is still released when the client is closed.
        """
        if tenure.released or tenure.loss is not None or self.is_foreign(tenure):
            return False
        self.keeper.drop(tenure)
        self._forget(tenure)
        now = self.world.now()
        self._abandoned = [*(t for t in self._abandoned if t.remaining(now) > 0), tenure]
        return True

    def hand_over(self, tenure: Tenure) -> Grant:
        """Stop looking after a tenure without releasing it: whoever gets the grant carries on."""
        self.check(tenure)
        self.keeper.retire(tenure)
        self._forget(tenure)
        return tenure.grant

    def connection(self, tenure: Tenure) -> object:
        """The connection whose transaction is the hold, where the engine holds locks that way."""
        self.check(tenure)
        return self.engine.connection(tenure.grant)

    def meta(self, tenure: Tenure) -> Meta:
        """What others see of the holder."""
        return read_meta(tenure.meta)
