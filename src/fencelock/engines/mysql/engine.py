"""The MySQL and MariaDB engine: reads the URL, reaches the server, and hands on to a mode.

* ``mode=lease``, the default (``lease.py``): a lock is a row with an end.
* ``mode=advisory`` (``advisory.py``): ``GET_LOCK`` on a session; shared with whoever uses that.
* ``mode=row`` (``row.py``): a locked row in a transaction that the caller may join.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from importlib import util
from typing import ClassVar

from ...engine import Address, Engine, Verification
from ...errors import Misconfigured
from ...model import (
    Busy,
    Finding,
    Gone,
    Grant,
    Holding,
    Request,
    State,
    Traits,
)
from ...world import Flavor, Signal, World
from . import settings as options
from .advisory import AdvisoryMode
from .lease import LeaseMode
from .mode import Mode
from .row import RowMode
from .server import look
from .wire.connection import Wire

_MODES: dict[str, type[Mode]] = {"lease": LeaseMode, "advisory": AdvisoryMode, "row": RowMode}


class MysqlEngine(Engine):
    """``mysql://user:password@host:3306/database`` or ``mariadb://…``."""

    schemes = ("mysql", "mariadb")
    options: ClassVar = options.OPTIONS
    drivers = ("pymysql",)  # and aiomysql with asyncio: see _wire
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
        self._settings = options.read(address)
        self._wire = _wire(world.flavor)
        self._mode = _MODES[self._settings.mode](world, self._settings, self._wire)
        self.traits = self._mode.promises
        self.commits = self._settings.mode == "row"
        self._mode.tell = self._tell

    def _tell(self, owners: Collection[str], gone: Gone) -> None:
        if self.on_gone is not None:
            self.on_gone(owners, gone)

    async def open(self) -> None:
        link = await self._wire.dial(self.world, self._settings)
        try:
            self._server = await look(link, self._settings)
        finally:
            link.close()
        self.traits = self._mode.traits(self._server)
        await self._mode.open(self._server)

    async def close(self) -> None:
        await self._mode.close()

    def close_nowait(self) -> None:
        self._mode.close_nowait()

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

    async def unwatch(self, request: Request) -> None:
        await self._mode.unwatch(request)

    async def inspect(self, name: str) -> State:
        return await self._mode.inspect(name)

    async def scan(self, prefix: str) -> list[Holding]:
        return await self._mode.scan(prefix)

    async def revoke(self, name: str, reason: str) -> bool:
        return await self._mode.revoke(name, reason)

    async def diagnose(self) -> list[Finding]:
        from .doctor import diagnose

        link = await self._wire.dial(self.world, self._settings)
        try:
            return await diagnose(link, self._settings, self.world)
        finally:
            link.close()

    def mark_failed(self, grant: Grant) -> None:
        self._mode.mark_failed(grant)

    def connection(self, grant: Grant) -> object:
        return self._mode.connection(grant)

    def verification(self, grant: Grant) -> Verification:
        return self._mode.verification(grant)


def _wire(flavor: Flavor) -> Wire:
    if flavor == "asyncio":
        if util.find_spec("aiomysql") is None:
            raise Misconfigured(
                'mysql:// needs the package aiomysql with asyncio: pip install "fencelock[mysql]"'
            )
        from .wire import connection_aio

        return connection_aio
    from .wire import connection_threads

    return connection_threads
