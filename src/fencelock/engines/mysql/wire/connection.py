"""What the engines know of a connection, and of the module that makes one."""

from __future__ import annotations

from typing import Protocol

from ....wires.disconnect_monitor import Hangups
from ....world import World
from ..settings import Settings
from .codec import Reply

IDLE_S = 3600  # how long the server keeps a session of ours that carries no lock


class Connection(Protocol):
    """One connection to the server, used by one caller at a time."""

    @property
    def identity_lock(self) -> str:
        """The lock by GET_LOCK, as SQL, that its session has: whoever has it is that session."""
        ...

    @property
    def is_closed(self) -> bool:
        """Whether it can be used no more."""
        ...

    @property
    def socket(self) -> int:
        """The file descriptor to watch for its end."""
        ...

    async def query(self, sql: str, timeout: float) -> list[Reply]:
        """Run statements; raise ServerError, Unavailable or OutcomeUnknown.

        A caller that is cancelled gets a moment for the response; after that, and where a thread is
        interrupted, the connection is closed. Under threads it ends by the limit of the world.
        """
        ...

    def closed_by_server(self) -> bool:
        """Look, without waiting, whether the server has closed it."""
        ...

    def close(self) -> None:
        """Send COM_QUIT and close, without waiting for a response."""
        ...


class Wire(Protocol):
    """A module that connects: ``connection_threads`` or ``connection_aio``."""

    async def connect(self, world: World, settings: Settings) -> Connection:
        """Connect and set the session up."""
        ...

    def disconnect_monitor(self) -> Hangups:
        """Make what tells that the server has closed a connection."""
        ...


def identity_lock_sql(token: str) -> str:
    """The name of the lock by which a session is known."""
    return f"'fencelock:link:{token}'"


def setup_sql(settings: Settings, identity_lock: str) -> str:
    """Set a session up, so that no setting of the server changes what we mean.

    It takes the lock by which it is known. It gives up waiting for a row that others have locked
    before we give up waiting for its response; MySQL looks once a second whether a wait is over.
    """
    wait = max(1, int(settings.request_timeout) - 2)
    return (
        "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED;"
        "SET SESSION time_zone='+00:00', sql_mode='STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION',"
        f" autocommit=1, innodb_lock_wait_timeout={wait}, lock_wait_timeout={wait},"
        f" wait_timeout={IDLE_S};DO GET_LOCK({identity_lock},0)"
    )
