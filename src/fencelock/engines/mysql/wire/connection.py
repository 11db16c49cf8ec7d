"""The protocols of a connection, and of the module that opens one."""

from __future__ import annotations

from typing import Protocol

from ....wires.disconnect_monitor import Hangups
from ....world import World
from ..settings import Settings
from .codec import Reply

IDLE_S = 3600  # the wait_timeout of a session of ours that holds no lock


class Connection(Protocol):
    """One connection to the server, used by one caller at a time."""

    @property
    def identity_lock(self) -> str:
        """The name of a lock by GET_LOCK, as SQL, that only this connection's session has."""
        ...

    @property
    def is_closed(self) -> bool:
        """Whether it can no longer be used."""
        ...

    @property
    def socket(self) -> int:
        """The file descriptor to watch for the connection's end."""
        ...

    @property
    def under_way(self) -> bool:
        """Whether a caller has left before the response to its request: ``finish`` awaits it."""
        ...

    async def query(self, sql: str, timeout: float, keep: bool = False) -> list[Reply]:
        """Run statements; raise ServerError, Unavailable or OutcomeUnknown.

        A cancelled caller waits a moment for the response; after that, and where a thread is
        interrupted, the connection is closed. Under threads it ends by ``world.limit()``. With
        ``keep`` a caller whose own time is over, or that was cancelled, leaves the connection as it
        is, with its request ``under_way``.
        """
        ...

    async def finish(self, timeout: float) -> list[Reply]:
        """Await the response to a request that is under way; raise as ``query`` does."""
        ...

    def closed_by_server(self) -> bool:
        """Return, without waiting, whether the server has closed it."""
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
        """Return a monitor that calls back when the server has closed a connection."""
        ...


def identity_lock_sql(token: str) -> str:
    """Return the name of the lock that identifies a session."""
    return f"'fencelock:link:{token}'"


def setup_sql(settings: Settings, identity_lock: str) -> str:
    """Return the statements that set a session up, so that no server setting changes our SQL.

    The session takes its identity lock. Its wait for a row that others have locked ends before our
    wait for the response; MySQL checks once a second whether such a wait is over.
    """
    wait = max(1, int(settings.request_timeout) - 2)
    return (
        "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED;"
        "SET SESSION time_zone='+00:00', sql_mode='STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION',"
        f" autocommit=1, innodb_lock_wait_timeout={wait}, lock_wait_timeout={wait},"
        f" wait_timeout={IDLE_S};DO GET_LOCK({identity_lock},0)"
    )
