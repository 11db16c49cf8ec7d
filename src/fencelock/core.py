"""One client: ties a world, an engine and a keeper together, for both flavors.

Here it begins, acquires and ends; what it does with a tenure once it is granted is in
``logic/custody.py``. ``sync.py`` and ``aio.py`` are thin faces of both. Everything is ``async def``
and asks only the World; under threads the faces run it with ``drive()``.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable
from typing import Generic, Protocol, TypeVar

from . import observe
from .engine import Engine
from .errors import (
    FencelockError,
    OutcomeUnknown,
    Unsupported,
    UsageError,
)
from .logic import waiting
from .logic.about import About
from .logic.custody import Custody
from .logic.tenure import Tenure
from .model import (
    Busy,
    Finding,
    Grant,
    Holding,
    Safety,
    State,
    Traits,
    granted,
    wished,
)
from .spec import Spec
from .world import World, sleep

ENDING_S = 0.002
MANY = 100  # leases of one client from which on memory matters
ALIKE = 0.0005  # of a ttl: moments so near are one
CLOSE_S = 5.0  # the longest that closing a client may take for its background work to end


class HasTenure(Protocol):
    """What core needs of a lease: that it points to its tenure."""

    @property
    def _tenure(self) -> Tenure: ...


L = TypeVar("L", bound=HasTenure)


class Core(Custody, Generic[L]):
    """One client."""

    def __init__(
        self, world: World, make_engine: Callable[[], Engine], lease: Callable[[Core[L], Tenure], L]
    ) -> None:
        super().__init__(world)
        self._make_engine = make_engine
        self._make_lease = lease
        self._inherited: list[object] = []
        self._last = Grant("", "", 0, 0.0, 0.0, 0.0)
        self.closed = False
        self._begin()

    def _begin(self) -> None:
        self._waitlist = waiting.Waitlist()
        self._about = About(self.world)
        self._take_charge(self._make_engine())

    @property
    def traits(self) -> Traits:
        return self.engine.traits

    async def open(self) -> None:
        """Reach the engine."""
        await self.engine.open()

    def __del__(self) -> None:
        keeper = getattr(self, "keeper", None)
        if keeper is not None and self.generation == self.world.generation():
            keeper.stop()  # nobody can reach this client any more
            self.engine.on_gone = None
            self.engine.abandon()

    async def close(self) -> None:
        """Release what is held, stop the keeper, let go of the engine."""
        if self.closed:
            return
        self.closed = True
        if self.generation != self.world.generation():
            return  # a forked child: all that is open belongs to the parent
        await self.world.shield(self._let_go())  # half a close would renew what nobody can release

    async def _let_go(self) -> None:
        deadline = self.world.now() + CLOSE_S
        self._waitlist.close()
        while self._waitlist.attempts and self.world.now() < deadline:
            await sleep(self.world, ENDING_S)  # those who waited take their attempts back
        for tenure in [*self.keeper.held(), *self._abandoned]:
            try:
                await self.release(tenure, entirely=True)
            except FencelockError as error:
                observe.warn(f"{tenure.grant.name!r} was not released on closing: {error}")
            tenure.loss = tenure.loss or tenure.lost_error("session", "its client was closed")
        await self.keeper.close(deadline)
        self.engine.on_gone = None
        await self.engine.close()

    async def ready(self) -> None:
        """See that the client can be used here; a forked child gets a link of its own."""
        if self.closed:
            raise UsageError("this client is closed: connect again")
        self.world.admit()
        if self.generation != self.world.generation():
            # The parent's engine and keeper must not even be collected here: closing them would
            # speak on the parent's connection.
            self._inherited += [self.engine, self.keeper]
            self._begin()
            await self.engine.open()

    def demand(self, safety: Safety | None, key: int | None = None) -> None:
        """Refuse what the engine cannot promise."""
        traits = self.traits
        if key is not None and not self.engine.takes_keys:
            raise Unsupported(
                f"{self.engine.address.public} locks by name only, and key={key} was given: leave "
                "it out, or use postgresql with mode=advisory"
            )
        if safety == "correctness" and traits.safety != "correctness":
            raise Unsupported(
                f'{self.engine.address.public} promises efficiency only, and safety="correctness" '
                f"was demanded: {traits.advice or 'use sqlite, postgresql, etcd or zookeeper'}"
            )

    async def attempt(self, spec: Spec, timeout: float | None) -> L | Busy:
        """Acquire within the timeout, or say who is in the way."""
        world = self.world
        if self.closed or self.generation != world.generation():
            await self.ready()
        if world.cancels:  # threads may come from everywhere
            world.admit()
        name, ttl, _, renew, max_hold, on_lost, reentrant, _, meta, key = spec
        if reentrant and (lease := self._reenter(world.who(), name)) is not None:
            return lease
        if max_hold is not None and max_hold < ttl:
            ttl = max_hold
        about, owner, heard = self._about.text(meta), world.owner(), bool(observe.subscribers)
        request = wished(name, owner, ttl, about, timeout != 0, key)
        started = world.now() if heard or timeout else 0.0
        engine, keeper, waitlist = self.engine, self.keeper, self._waitlist
        waitlist.attempts.add(owner)
        try:
            try:
                answer = await engine.acquire(request)  # most go no further than here
            except OutcomeUnknown as error:
                answer = await waiting.go_on(
                    world, engine, request, timeout, started, waitlist, error
                )
            except BaseException:
                await waiting.undo(world, engine, request)
                raise
            else:
                if isinstance(answer, Busy) or answer.valid_until <= world.now():
                    answer = await waiting.go_on(
                        world, engine, request, timeout, started, waitlist, answer
                    )
            if isinstance(answer, Busy):
                return answer
            grant = answer if len(keeper.tenures) < MANY else self._alike(answer)
            hold_until = None if max_hold is None else grant.asked_at + max_hold
            tenure = Tenure(grant, about, renew, hold_until, on_lost, self.generation)
            try:
                if waitlist.closed:
                    waitlist.check()
                keeper.add(tenure)
            except Exception:  # no thread to be had: a lease that nobody looks after is not given
                await self.release(tenure)
                raise
        finally:
            waitlist.attempts.discard(owner)
        lease = self._make_lease(self, tenure)
        if reentrant:
            tenure.entry = (world.who(), name)
            self._reentrant[tenure.entry] = weakref.ref(lease)
        if heard:
            waited = world.now() - started
            observe.emit(observe.Event("acquired", name, grant.fence, seconds=waited))
        return lease

    def _alike(self, grant: Grant) -> Grant:
        """Let grants of nearly the same moment share its numbers, which are then as old as the
        oldest: a holder gives up a trifle earlier, and ten thousand of them take less memory.
        """
        name, owner, fence, ttl, asked_at, _ = grant
        _, _, _, same_ttl, earlier, valid_until = self._last
        if ttl != same_ttl or not earlier <= asked_at <= earlier + ttl * ALIKE:
            self._last = grant
            return grant
        return Grant(name, owner, fence, same_ttl, earlier, valid_until)

    def _reenter(self, who: Hashable, name: str) -> L | None:
        reference = self._reentrant.get((who, name))
        lease: L | None = reference() if reference is not None else None
        if lease is None:
            return None
        tenure = lease._tenure  # pyright: ignore[reportPrivateUsage]  # a lease is a face of ours
        if self.remaining(tenure) <= 0:
            return None  # over: what follows is a new tenure
        tenure.count += 1
        return lease

    def take_over(self, grant: Grant) -> L:
        """A lease that another process handed over. It is not renewed unless its holder does.

        Whether it still holds is the engine's to say: clocks are not compared across processes.
        """
        name, owner, fence, ttl, _, _ = grant
        grant = granted(name, owner, fence, ttl, self.world.now())
        tenure = Tenure(grant, "{}", False, None, None, self.generation)
        return self._make_lease(self, tenure)

    async def examine(self) -> list[Finding]:
        await self.ready()
        return await self.engine.examine()

    async def inspect(self, name: str) -> State:
        await self.ready()
        return await self.engine.inspect(name)

    async def scan(self, prefix: str) -> list[Holding]:
        await self.ready()
        return await self.engine.scan(prefix)

    async def revoke(self, name: str, reason: str) -> bool:
        await self.ready()
        return await self.engine.revoke(name, reason)
