"""What the engines know of a connection, and of the module that makes one."""

from __future__ import annotations

from typing import Protocol

from ....wires.disconnect_monitor import Hangups
from ....world import World
from ..settings import Settings
from .codec import Reply
from .transaction import Transaction

IDLE_S = 3600  # how long the server keeps a session of ours that carries no lock


class Link(Protocol):
    """One connection to the server, used by one caller at a time."""

    @property
    def badge(self) -> str:
        """The lock by GET_LOCK, as SQL, that its session has: whoever has it is that session."""
        ...

    @property
    def is_over(self) -> bool:
        """Whether it can be used no more."""
        ...

    @property
    def socket(self) -> int:
        """What to listen to for its end."""
        ...

    async def ask(self, sql: str, within: float) -> list[Reply]:
        """Have statements run; raise ServerError, Unavailable or OutcomeUnknown.

        A caller that is cancelled gets a moment for the answer; after that, and where a thread is
        interrupted, the link is over. Under threads it ends by the limit of the world.
        """
        ...

    def has_ended(self) -> bool:
        """Look, without waiting, whether the server has closed it."""
        ...

    def close(self) -> None:
        """Say good-bye without waiting for an answer."""
        ...


class Wire(Protocol):
    """A module that connects: ``connection_threads`` or ``connection_aio``."""

    async def dial(self, world: World, settings: Settings, greeting: str = "") -> Link:
        """Connect and set the session up."""
        ...

    def lanes(self, pool: int) -> int:
        """How many questions are under way, of so many links, before callers share one."""
        ...

    def hangups(self) -> Hangups:
        """Who tells that the server has closed a connection."""
        ...

    async def join(self, world: World, settings: Settings) -> Transaction:
        """Connect for a transaction that the caller may join."""
        ...


def badge_sql(token: str) -> str:
    """The name of the lock by which a session is known."""
    return f"'fencelock:link:{token}'"


def wear(badge: str) -> str:
    """What a new session is told, so that it is known by its badge."""
    return f"DO GET_LOCK({badge},0)"


def hello(settings: Settings, idle_s: int = IDLE_S) -> str:
    """What every session is told first, so that no setting of the server changes what we mean.

    It gives up waiting for a row that others have locked before we give up waiting for its answer;
    MySQL looks once a second whether a wait is over.
    """
    wait = max(1, int(settings.request_timeout) - 2)
    return (
        "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED;"
        "SET SESSION time_zone='+00:00', sql_mode='STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION',"
        f" autocommit=1, innodb_lock_wait_timeout={wait}, lock_wait_timeout={wait},"
        f" wait_timeout={idle_s}"
    )
