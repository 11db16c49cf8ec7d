"""Locks in etcd: the recipe of ``etcdctl lock`` and of Go's ``concurrency.Mutex``.

Whoever wants the lock puts a key under ``<name>/``. The key with the lowest create revision holds
it, the others queue in the order of theirs, and each watches only the one before it. Contenders of
other languages that follow the recipe on the same name stand in the same queue.

``contending.py`` is the recipe itself, ``renewing.py`` keeps what is held, ``session.py`` has the
leases that keys are on, and ``naming.py`` says what the keys look like. The create revision is the
fence: revisions grow with every change of the store.
"""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import Any, ClassVar

from ...engine import Address, Engine
from ...errors import Misconfigured, UsageError
from ...model import Busy, Finding, Gone, Grant, Holding, Request, State, Traits
from ...world import Signal, World
from ..options import REQUEST_TIMEOUT_S
from . import requests
from .contending import Contending
from .link import RANGE, Link, Wire
from .listing import Listing
from .naming import Naming
from .options import OPTIONS, members_of, tls_of
from .renewing import Renewing
from .session import Sessions
from .standing import Standing
from .watcher import Watcher


class EtcdEngine(Engine):
    """``etcd://host:2379`` or ``etcd://h1:2379,h2:2379,h3:2379``."""

    schemes = ("etcd",)
    options: ClassVar = OPTIONS
    plain = True
    traits = Traits(
        safety="correctness",
        scope="network",
        fence=True,
        fifo=True,
        push=True,
        durable=True,
        portable=True,
    )

    def __init__(self, world: World, address: Address) -> None:
        super().__init__(world, address)
        members = members_of(address)
        request_timeout = float(str(address.options.get("request_timeout", REQUEST_TIMEOUT_S)))
        wire = _wire(world, members, address)
        self._naming = Naming(str(address.options.get("prefix", "")).encode())
        self._link = Link(wire, members, request_timeout, world.now, address.user, address.password)
        self._watcher = Watcher(world, self._link)
        self._sessions = Sessions(world, self._link, self._watcher.look)
        self._standing = Standing(world, self._sessions, self._watcher, self._naming)
        self._contending = Contending(
            world, self._link, self._sessions, self._watcher, self._naming, self._standing
        )
        self._renewing = Renewing(world, self._link, self._sessions, self._standing, self._naming)
        self._listing = Listing(world, self._link, self._naming)

    async def open(self) -> None:
        look = requests.range_of(self._naming.told(""), count_only=True)
        await self._link.call(RANGE, look, reads=True)  # linearizable: a majority has answered

    async def close(self) -> None:
        self._watcher.close()
        await self._sessions.close()
        await self._link.wire.close()

    def close_nowait(self) -> None:
        self._watcher.close_nowait()
        self._sessions.close_nowait()
        self._link.wire.close_nowait()

    def acquire(  # pyright: ignore[reportIncompatibleMethodOverride]  # one await less
        self, request: Request
    ) -> Coroutine[Any, Any, Grant | Busy]:
        return self._contending.acquire(request)

    async def withdraw(self, request: Request) -> None:
        await self._contending.withdraw(request)

    async def watch(self, request: Request, signal: Signal) -> None:
        self._contending.watch(request.owner, signal)

    async def unwatch(self, request: Request) -> None:
        self._contending.unwatch(request.owner)

    async def renew(self, grants: Sequence[Grant]) -> list[Grant | Gone]:
        return await self._renewing.renew(grants)

    def release(  # pyright: ignore[reportIncompatibleMethodOverride]  # one await less
        self, grant: Grant
    ) -> Coroutine[Any, Any, bool]:
        return self._renewing.release(grant)

    async def revoke(self, name: str, reason: str) -> bool:
        return await self._renewing.revoke(name, reason, self._listing)

    async def inspect(self, name: str) -> State:
        return await self._listing.inspect(name)

    async def scan(self, prefix: str) -> list[Holding]:
        return await self._listing.scan(prefix)

    async def diagnose(self) -> list[Finding]:
        from .doctor import diagnose

        return await diagnose(self.world, self._link)

    def comparison(self, grant: Grant) -> tuple[bytes, int, bytes]:
        """What a transaction of the user's own has to compare: key, create revision, message."""
        place = self._standing.places.get(grant.owner)
        if place is None:
            raise UsageError(
                f"the key of {grant.name!r} is not known here, because another process has made "
                "it: renew the lease once"
            )
        return place.key, grant.fence, requests.equal(requests.CREATED, place.key, grant.fence)


def _wire(world: World, members: Sequence[str], address: Address) -> Wire:
    if world.flavor == "asyncio":
        from .wire_aio import AioWire

        return AioWire(members, tls_of(address))
    if world.flavor == "threads":
        from .wire_threads import ThreadsWire

        return ThreadsWire(members, tls_of(address), lambda: world.limit() - world.now())
    raise Misconfigured("etcd cannot be simulated: use memory:// there")
