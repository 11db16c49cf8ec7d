"""What knows libpq and sockets: connections, pools, sessions and transactions, in each flavor.

The protocols below are all that a recipe knows of it: ``threads.py`` and ``aio.py`` have them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from ..rows import Rows
from ..statements import Statement, Statements

if TYPE_CHECKING:
    from ....world import World
    from ..listener import Listener


class Session(Protocol):
    """One connection for its whole life: when it ends, the server gives its locks back."""

    pid: int
    """The server's process."""
    holds: set[str]
    """The owners that hold a lock by it."""
    ttls: Counter[float]
    """How many of them have which ttl."""
    limit: str
    """Its idle timeout as the server was last told, in milliseconds; empty when nobody knows."""
    limits_sent: int
    """How many statements that set it are under way."""
    dead: bool

    async def execute(self, statement: Statement, *values: object) -> Rows: ...

    def send_async(
        self,
        statement: Statement,
        values: tuple[object, ...],
        done: Callable[[Rows | Exception], None],
    ) -> None:
        """Send a statement that may wait for ever; call ``done`` with what becomes of it."""
        ...

    async def wait_briefly(self, seconds: float) -> None:
        """Give the result of ``send_async`` a moment to come, where waiting here is cheaper."""
        ...

    def on_end(self, ended: Callable[[], None]) -> None:
        """Have this called once, in whatever thread, when the session has ended."""
        ...

    def drop(self) -> None:
        """End it: the server gives its locks back."""
        ...


class Transaction(Protocol):
    """A connection of the driver's, whose transaction the caller may join."""

    pid: int
    dead: bool

    @property
    def connection(self) -> Any:
        """What a holder is given."""
        ...

    @property
    def open(self) -> bool:
        """Whether a transaction is open and has not failed."""
        ...

    @property
    def failed(self) -> bool:
        """Whether a statement has failed, and all that is left is to roll back."""
        ...

    async def execute(self, statement: Statement, *values: object) -> Rows: ...

    async def execute_if_idle(self, statement: Statement, *values: object) -> Rows | None:
        """Run a statement, unless the holder is using the connection at this moment."""
        ...

    async def execute_last(self, statement: Statement) -> Rows:
        """Run the last statement, after whatever the holder is doing with the connection."""
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
        """Let go of sessions whose client was dropped."""
        ...

    async def execute(self, statement: Statement, *values: object, owner: str = "") -> Rows:
        """Run one statement in a transaction of its own. Those of one owner run in order."""
        ...

    async def execute_soon(
        self, statement: Statement, *values: object, within: float | None = None
    ) -> Rows:
        """The same, never behind others, and over soon enough to be tried again."""
        ...

    async def run_script(self, script: str) -> None:
        """Run several statements without parameters in one transaction."""
        ...

    def listener(self, world: World, *sql: Statements) -> Listener:
        """What listens for the waiters of this client, with these statements."""
        ...

    async def session(self) -> Session:
        """A connection that holds locks: it never becomes another one."""
        ...

    async def transaction(self) -> Transaction:
        """A connection of the driver's, for a transaction that the caller may join."""
        ...
