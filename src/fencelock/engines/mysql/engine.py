"""The base of the engines of both modes: the URL, the server, and what a mode does not offer."""

from __future__ import annotations

from abc import abstractmethod
from importlib import util
from typing import ClassVar

from ...engine import Address, Engine
from ...errors import Misconfigured, Unsupported
from ...model import Finding, Grant, Traits
from ...world import Flavor, World
from . import settings as options
from .server import Server, inspect_server
from .wire.connection import Wire


class MysqlEngine(Engine):
    """``mysql://user:password@host:3306/database`` or ``mariadb://…``, in any mode."""

    schemes = ("mysql", "mariadb")
    options: ClassVar = options.OPTIONS
    drivers = ("pymysql",)  # and aiomysql with asyncio: see _wire

    def __init__(self, world: World, address: Address) -> None:
        super().__init__(world, address)
        self.settings = options.read(address)
        self.wire = _wire(world.flavor)

    async def open(self) -> None:
        connection = await self.wire.connect(self.world, self.settings)
        try:
            server = await inspect_server(connection, self.settings)
        finally:
            connection.close()
        self.traits = self.traits_on(server)
        self.begin(server)

    @abstractmethod
    def traits_on(self, server: Server) -> Traits:
        """Return what the engine promises on this server."""

    def begin(self, server: Server) -> None:
        """Set up the engine for a server, where the tables exist by now."""

    async def diagnose(self) -> list[Finding]:
        from .doctor import diagnose

        connection = await self.wire.connect(self.world, self.settings)
        try:
            return await diagnose(connection, self.settings, self.world)
        finally:
            connection.close()

    def connection(self, grant: Grant) -> object:
        raise Unsupported(
            f"mode={self.settings.mode} holds this lock without a transaction of its own: use "
            "a connection of yours, and in mode=lease fencelock.sql.verify() before it commits"
        )


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
