"""What the modes have in common: the verbs of an engine, and what a mode does not offer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from typing import ClassVar

from ...engine import Verification
from ...errors import Unsupported
from ...model import Busy, Gone, Grant, Holding, Request, State, Traits
from ...world import Signal, World
from .server import Server
from .settings import Settings
from .wire.connection import Wire


def _nobody(owners: Collection[str], gone: Gone) -> None:
    """Who has no client is told nothing."""


class Mode(ABC):
    """One way to lock in this database."""

    promises: ClassVar[Traits]
    """What it promises where the server is set up well."""

    def __init__(self, world: World, settings: Settings, wire: Wire) -> None:
        self.world = world
        self.settings = settings
        self.wire = wire
        self.tell: Callable[[Collection[str], Gone], None] = _nobody
        """Called with the owners whose grants have ended by themselves."""

    @abstractmethod
    def traits(self, server: Server) -> Traits:
        """What it promises on this server."""

    async def open(self, server: Server) -> None:
        """Begin to serve; the tables are there."""

    @abstractmethod
    async def close(self) -> None: ...

    @abstractmethod
    def close_nowait(self) -> None: ...

    @abstractmethod
    async def acquire(self, request: Request) -> Grant | Busy: ...

    @abstractmethod
    async def renew(self, grants: Sequence[Grant]) -> list[Grant | Gone]: ...

    @abstractmethod
    async def release(self, grant: Grant) -> bool: ...

    @abstractmethod
    async def withdraw(self, request: Request) -> None: ...

    @abstractmethod
    async def watch(self, request: Request, signal: Signal) -> None: ...

    @abstractmethod
    async def unwatch(self, request: Request) -> None: ...

    @abstractmethod
    async def inspect(self, name: str) -> State: ...

    @abstractmethod
    async def scan(self, prefix: str) -> list[Holding]: ...

    async def revoke(self, name: str, reason: str) -> bool:
        raise Unsupported(
            f"mode={self.settings.mode} cannot revoke a lock: end the session of its holder with "
            "KILL, whose number inspect() shows, or use mode=lease"
        )

    def mark_failed(self, grant: Grant) -> None:
        """The body under this lock has raised."""

    def connection(self, grant: Grant) -> object:
        raise Unsupported(
            f"mode={self.settings.mode} holds this lock without a transaction of its own: use "
            "mode=row, or a connection of yours and fencelock.sql.verify() before it commits"
        )

    def verification(self, grant: Grant) -> Verification:
        raise Unsupported(
            f"mode={self.settings.mode} cannot be asked within a transaction: use mode=lease, or "
            "mode=row, where the lock and the data commit together"
        )
