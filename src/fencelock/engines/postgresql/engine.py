"""PostgreSQL as an engine: picks the mode that was asked for and the wire of the flavor."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import ClassVar

from ...engine import Address, Engine, Verification
from ...errors import Misconfigured
from ...model import Busy, Finding, Gone, Grant, Holding, Request, State, Traits
from ...world import Signal, World
from .modes import Mode, Wire
from .settings import OPTIONS, Settings, read_settings


class PostgresqlEngine(Engine):
    """``postgresql://user@host:port/database?mode=lease|advisory|row``."""

    schemes = ("postgresql",)
    options: ClassVar = OPTIONS
    drivers = ("psycopg",)
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
        self._settings = settings = read_settings(address)
        self._wire = _wire(world, settings)
        self._mode = _mode(world, self._wire, settings)
        self.traits = self._mode.traits
        self.takes_keys = self._mode.takes_keys
        self.plain = self._mode.plain
        self.commits = self._mode.commits
        self._mode.tell = self._tell

    def _tell(self, owners: Collection[str], gone: Gone) -> None:
        if self.on_gone is not None:
            self.on_gone(owners, gone)

    async def open(self) -> None:
        await self._mode.open()
        self.traits = self._mode.traits  # a pooler in the way takes some of them back

    async def close(self) -> None:
        await self._mode.close()
        await self._wire.close()

    def close_nowait(self) -> None:
        self._mode.close_nowait()
        self._wire.close_nowait()

    async def acquire(self, request: Request) -> Grant | Busy:
        return await self._mode.acquire(request)

    async def renew(self, grants: Sequence[Grant]) -> list[Grant | Gone]:
        return await self._mode.renew(grants)

    async def release(self, grant: Grant) -> bool:
        return await self._mode.release(grant)

    async def withdraw(self, request: Request) -> None:
        await self._mode.withdraw(request)

    async def watch(self, request: Request, signal: Signal) -> None:
        await self._mode.watch(request, signal)

    async def wait(self, signal: Signal, deadline: float) -> None:
        await self._mode.wait(signal, deadline)

    def pushed_grant(self, request: Request) -> Grant | None:
        return self._mode.pushed_grant(request)

    async def unwatch(self, request: Request) -> None:
        await self._mode.unwatch(request)

    async def inspect(self, name: str) -> State:
        return await self._mode.inspect(name)

    async def scan(self, prefix: str) -> list[Holding]:
        return await self._mode.scan(prefix)

    async def revoke(self, name: str, reason: str) -> bool:
        return await self._mode.revoke(name, reason)

    async def diagnose(self) -> list[Finding]:
        from .doctor import FACTS, diagnose

        rows = await self._wire.ask(FACTS)
        facts = {(name or b"").decode(): (fact or b"").decode() for name, fact in rows}
        return diagnose(facts, self._settings, self._wire.direct, self.world.wall_us() / 1e6)

    def mark_failed(self, grant: Grant) -> None:
        self._mode.mark_failed(grant)

    def why_gone(self, grant: Grant) -> Gone:
        return self._mode.why_gone(grant) or super().why_gone(grant)

    def connection(self, grant: Grant) -> object:
        return self._mode.connection(grant)

    def verification(self, grant: Grant) -> Verification:
        return self._mode.verification(grant)


def _wire(world: World, settings: Settings) -> Wire:
    if world.flavor == "threads":
        from .wire.threads import ThreadsWire

        return ThreadsWire(world, settings)
    if world.flavor == "asyncio":
        from .wire.aio import AioWire

        return AioWire(settings)
    raise Misconfigured("postgresql needs a server, which the simulator does not have")


def _mode(world: World, wire: Wire, settings: Settings) -> Mode:
    if settings.mode == "advisory" and settings.bound == "session":
        from .session import SessionMode

        return SessionMode(world, wire, settings)
    if settings.mode != "lease":
        from .bound import BoundMode

        return BoundMode(world, wire, settings)
    from .lease import LeaseMode

    return LeaseMode(world, wire, settings)
