"""The clients of actors: the package's own, a mutex of one process, or none.

Each acquires, checks, renews and releases for the script of its actor, and tells until when it
believes that it holds the lock. The textbook's client is in `textbook.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from .._client import administration
from .._client.client import Core
from .._client.hold_state import HoldState
from .._client.lock_options import DEFAULT_TTL_S, make_lock_spec
from ..engine import Engine
from ..errors import AcquireTimeout
from ..model import Busy, Grant, Request
from ..sim.network import Host
from ..sim.world import SimWorld
from .script import Statement
from .servers import Servers

if TYPE_CHECKING:
    from ..sim.votes import Votes


class Voted(NamedTuple):
    """The votes of the servers in a running attempt, or for the lock that is held."""

    servers: list[str]
    """The servers that have granted."""
    needed: int
    valid_until: float | None
    """Until when, in true time, the client considers its votes valid, once it has enough."""


class Client(ABC):
    """The interface of a client, as the script of an actor uses it."""

    fence = 0
    """The fence of the lock that it holds, or held last."""

    async def open(self) -> None:
        """Connect, as a program does when it starts; raise what prevents that."""

    @abstractmethod
    async def acquire(self, wanted: Statement) -> float:
        """Wait for the lock, and return its ttl, infinite if it has none; raise if that fails."""

    @abstractmethod
    async def release(self) -> bool:
        """Release the lock; return False if it was no longer held."""

    async def check(self) -> None:
        """Raise LeaseLost if the lock is known to be lost."""

    async def renew(self) -> None:
        """Restart the ttl; raise LeaseLost if it is too late."""

    def believed_until(self) -> float | None:
        """Return until when, in true time, it believes that it holds the lock, or None."""
        return None

    def voted(self) -> Voted | None:
        """Return the votes of its servers; None if they do not vote."""
        return None

    def crash(self) -> Engine | None:
        """Return the engine whose connections the machine closes when the process is killed, or
        None."""
        return None


class NoClient(Client):
    """The client of an actor that uses no lock."""

    async def acquire(self, wanted: Statement) -> float:
        raise NotImplementedError

    async def release(self) -> bool:
        raise NotImplementedError


class LocalClient(Client):
    """A mutex of one process: no other process knows of it, so it is always free."""

    _held = False

    async def acquire(self, wanted: Statement) -> float:
        self._held = True
        return float("inf")

    async def release(self) -> bool:
        self._held = False
        return True

    def believed_until(self) -> float | None:
        return float("inf") if self._held else None


class _Lease:
    """A lease, as far as the client knows it."""

    def __init__(self, hold: HoldState) -> None:
        self._hold = hold

    @property
    def hold(self) -> HoldState:
        return self._hold


class FencelockClient(Client):
    """The package's own client, unmodified."""

    def __init__(
        self, servers: Servers, world: SimWorld, host: Host, lost: Callable[[int], None]
    ) -> None:
        self._servers = servers
        self._world = world
        self._host = host
        self._lost = lost
        self._hold: HoldState | None = None
        self._votes: Votes | None = None
        self._core: Core[_Lease] = Core(world, self._engine, self._lease)

    def _engine(self) -> Engine:
        engine: Any = self._servers.engine(self._world, self._host)
        ask = engine.acquire

        def acquire(request: Request) -> Awaitable[Grant | Busy]:
            self._servers.introduce(request.owner, self._world.name)
            answer: Awaitable[Grant | Busy] = ask(request)
            return answer

        engine.acquire = acquire
        self._votes = self._servers.votes(self._world, engine)
        return engine  # type: ignore[no-any-return]

    def _lease(self, core: Core[_Lease], hold: HoldState) -> _Lease:
        def lost() -> None:
            if self._votes is not None:
                self._votes.forget()
            self._lost(hold.grant.fence)

        hold.hook = lost
        return _Lease(hold)

    async def open(self) -> None:
        await self._core.open()

    async def acquire(self, wanted: Statement) -> float:
        ttl = DEFAULT_TTL_S if wanted.ttl is None else wanted.ttl
        spec = make_lock_spec(
            wanted.word, ttl, wanted.timeout, wanted.renews, None, None, False, None, None
        )
        lease = await self._core.attempt(spec, wanted.timeout)
        if isinstance(lease, Busy):
            raise AcquireTimeout(f"{wanted.word!r} was not free in time")
        self._hold, self.fence = lease.hold, lease.hold.grant.fence
        return ttl

    async def check(self) -> None:
        if self._hold is not None:
            self._core.lifecycle.check(self._hold)

    async def renew(self) -> None:
        if self._hold is not None:
            await self._core.lifecycle.renew(self._hold, None)

    async def release(self) -> bool:
        return self._hold is not None and await self._core.lifecycle.release(self._hold)

    async def revoke(self, name: str) -> bool:
        """Revoke the lock of its holder."""
        return await administration.revoke(self._core, name, "revoked by an operator")

    def believed_until(self) -> float | None:
        hold = self._hold
        if hold is None or hold.ended:
            return None
        until = self._world.true_time(hold.valid_until())
        return until if until > self._world.simulation.now else None

    def voted(self) -> Voted | None:
        votes = self._votes
        if votes is None:
            return None
        until = votes.valid_until
        until = None if until is None else self._world.true_time(until)
        return Voted(votes.granted(), votes.needed, until)

    def crash(self) -> Engine | None:
        return self._core.engine if self._world.edge is not None else None
