"""The code that uses libpq and sockets: connections, pools, sessions, transactions, per flavor.

The engines know only the protocols below, which ``threads.py`` and ``aio.py`` implement.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from ..rows import Rows
from ..statements import Statement, Statements

if TYPE_CHECKING:
    from ....world import World
    from ..listener import Listener

Undo: TypeAlias = tuple[Statement, object]
"""A statement with its only value. It undoes what another one has done that was refused after that:
a session's advisory lock outlives the transaction that took it."""


class Session(Protocol):
    """One connection for its whole life: when it ends, the server releases its locks."""

    pid: int
    """The process id of its backend."""
    holds: set[str]
    """The owners of its locks."""
    ttls: Counter[float]
    """How many of its locks have which ttl."""
    limit: str
    """The idle timeout that the server was last sent, in milliseconds; empty if not known."""
    limits_sent: int
    """How many statements that set the limit are under way."""
    dead: bool

    async def execute(
        self, statement: Statement, *values: object, undo: Undo | None = None
    ) -> Rows:
        """Run one statement in a transaction of its own; run ``undo`` if the server refuses it."""
        ...

    def send_async(
        self,
        statement: Statement,
        values: tuple[object, ...],
        done: Callable[[Rows | Exception], None],
    ) -> None:
        """Send a statement without a timeout; call ``done`` with its rows or its error."""
        ...

    async def wait_briefly(self, seconds: float) -> None:
        """Wait for the result of ``send_async`` for a moment, where that is cheaper here."""
        ...

    def on_end(self, ended: Callable[[], None]) -> None:
        """Have this called once, in whatever thread, when the session has ended."""
        ...

    def drop(self) -> None:
        """End the session: the server releases its locks."""
        ...


class Transaction(Protocol):
    """A connection of the driver's, whose transaction the caller may join."""

    pid: int
    """The process id of the backend that runs its latest transaction."""
    began: int
    """When that transaction began, in microseconds of the server's clock."""
    dead: bool

    @property
    def connection(self) -> Any:
        """The driver's connection, which the holder is given."""
        ...

    @property
    def open(self) -> bool:
        """Whether a transaction is open and has not failed."""
        ...

    @property
    def failed(self) -> bool:
        """Whether a statement has failed, so that only a rollback is possible."""
        ...

    async def execute(self, statement: Statement, *values: object) -> Rows: ...

    async def execute_if_idle(self, statement: Statement, *values: object) -> Rows | None:
        """Run a statement, unless the holder is using the connection at this moment."""
        ...

    async def execute_last(self, statement: Statement) -> Rows:
        """Run the last statement, once no statement of the holder's is using the connection."""
        ...

    def send_async(
        self,
        statement: Statement,
        values: tuple[object, ...],
        done: Callable[[Rows | Exception], None],
    ) -> None: ...

    async def wait_briefly(self, seconds: float) -> None: ...

    def on_end(self, ended: Callable[[], None]) -> None: ...

    def drop(self) -> None: ...


class Wire(Protocol):
    """The connections of one client, in either flavor."""

    direct: bool
    """Whether they lead to the server itself, and not to a pooler."""
    alone: bool
    """Whether each statement is a transaction of its own."""

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    def close_nowait(self) -> None:
        """End background work without waiting, for a client that was dropped."""
        ...

    async def execute(self, statement: Statement, *values: object, owner: str = "") -> Rows:
        """Run one statement and commit it. The statements of one owner run in order."""
        ...

    async def execute_soon(
        self, statement: Statement, *values: object, within: float | None = None
    ) -> Rows:
        """Run one statement, never behind others, in ``within`` seconds: in time for a retry."""
        ...

    async def run_script(self, script: str) -> None:
        """Run several statements without parameters in one transaction."""
        ...

    def listener(self, world: World, *sql: Statements) -> Listener:
        """Return the listener for this client's waiters, with these statements."""
        ...

    async def session(self) -> Session:
        """Open a connection that holds locks: it is never replaced by another one."""
        ...

    async def transaction(self) -> Transaction:
        """Open a connection of the driver's, for a transaction that the caller may join."""
        ...
