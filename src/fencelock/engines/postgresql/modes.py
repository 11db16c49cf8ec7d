"""What the modes have in common: the surroundings they are given, and the verbs they may leave out.

A mode is what an engine is (``engine.py`` of the package); the engine of this folder only picks
one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import Any, Protocol

from ...engine import Verification
from ...errors import Unavailable, Unsupported
from ...model import Busy, Gone, Grant, Holding, Request, State, Traits
from ...world import Signal, World
from .listener import Listener
from .settings import Settings
from .statements import LeaseStatements, Statement
from .wire.connection import Rows

MAKES_MAX = 3  # how often the tables are made before it is said that they cannot be


class Session(Protocol):
    """One connection for its whole life: when it ends, the server gives its locks back."""

    pid: int
    """The server's process."""
    holds: set[str]
    """The owners that hold a lock by it."""
    ttls: Counter[float]
    """How many of them have which ttl."""
    limit: str
    """The milliseconds after which the server was told to end it if it says nothing; empty when
    nobody knows what it has heard."""
    telling: int
    """How many are telling it such a limit at this moment."""
    dead: bool

    async def ask(self, statement: Statement, *values: object) -> Rows: ...

    def post(
        self,
        statement: Statement,
        values: tuple[object, ...],
        done: Callable[[Rows | Exception], None],
    ) -> None:
        """Send one statement that may take for ever; ``done`` hears what becomes of it."""
        ...

    async def linger(self, seconds: float) -> None:
        """Give the answer of what was posted a moment to come, where waiting here is cheaper."""
        ...

    def on_end(self, ended: Callable[[], None]) -> None:
        """Have this called once, in whatever thread, when the session has ended."""
        ...

    def drop(self) -> None: ...


class Transaction(Session, Protocol):
    """A connection of the driver's, whose transaction the caller may join."""

    @property
    def connection(self) -> Any: ...

    @property
    def open(self) -> bool:
        """Whether a transaction is open and has not failed."""
        ...

    @property
    def failed(self) -> bool:
        """Whether a statement has failed, and all that is left is to roll back."""
        ...

    async def whisper(self, statement: Statement, *values: object) -> Rows | None:
        """Ask, unless the caller is using the connection at this moment."""
        ...

    async def end(self, statement: Statement) -> Rows:
        """Say the last word, after whatever the caller is doing with the connection."""
        ...


class Wire(Protocol):
    """The way to the database, in either flavor."""

    direct: bool
    """Whether it leads to the server itself, and not to a pooler."""
    alone: bool
    """Whether each statement is a transaction of its own."""

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    def close_nowait(self) -> None:
        """Let go of sessions whose client was dropped."""
        ...

    async def ask(self, statement: Statement, *values: object, owner: str = "") -> Rows:
        """Run one statement in a transaction of its own. Those of one owner run in order."""
        ...

    async def keep(
        self, statement: Statement, *values: object, within: float | None = None
    ) -> Rows:
        """The same, never behind others, and over soon enough to be tried again."""
        ...

    def listener(self, world: World, say: LeaseStatements) -> Listener:
        """What hears for the waiters of this client."""
        ...

    async def session(self) -> Session: ...

    async def transaction(self) -> Transaction: ...

    async def run(self, script: str) -> None:
        """Run several statements without parameters in one transaction."""
        ...


def _nobody(owners: Collection[str], gone: Gone) -> None:
    """Who has no client is told nothing."""


class Mode(ABC):
    """One way to lock in PostgreSQL."""

    traits: Traits
    takes_keys = False
    plain = False
    """Whether a release waits for nothing but futures, in asyncio."""

    commits = False
    """Whether a release commits work."""

    def __init__(self, world: World, wire: Wire, settings: Settings) -> None:
        self.world = world
        self.wire = wire
        self.settings = settings
        self.tell: Callable[[Collection[str], Gone], None] = _nobody
        """Called with the owners whose grants have ended by themselves."""

    async def open(self) -> None:
        """Reach the database, and make there what is missing."""
        from .tables import ADVISORY, lift, qualified, store  # text that most clients never need

        await self.wire.open()
        table, schema = self.settings.table, self.settings.schema
        await self._make(qualified(table, schema), store(table, schema))
        if self.settings.mode == "advisory":
            await self._make(ADVISORY, lift(ADVISORY))

    async def _make(self, names: str, script: str) -> None:
        """Have a script run unless it was, which its last function tells."""
        from .tables import SPACE, versioned

        lock = f"SELECT pg_advisory_xact_lock({SPACE}, hashtext('{names}'));"
        there, last = Statement("", "SELECT to_regproc($1)"), versioned(names) + "_lift"
        for left in reversed(range(MAKES_MAX)):
            if (await self.wire.ask(there, last))[0][0] is not None:
                return
            try:
                await self.wire.run(lock + script)
            except Unavailable:  # who was first uses the tables already: a deadlock, with its locks
                if not left:
                    raise

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

    async def wait(self, signal: Signal, deadline: float) -> None:
        await self.world.wait(signal, deadline)

    def pushed_grant(self, request: Request) -> Grant | None:
        return None

    @abstractmethod
    async def unwatch(self, request: Request) -> None: ...

    @abstractmethod
    async def inspect(self, name: str) -> State: ...

    @abstractmethod
    async def scan(self, prefix: str) -> list[Holding]: ...

    async def revoke(self, name: str, reason: str) -> bool:
        raise Unsupported(
            f"mode={self.settings.mode} cannot revoke a lock, which belongs to the holder's "
            "session: end that session with pg_terminate_backend(), or use mode=lease"
        )

    def mark_failed(self, grant: Grant) -> None:
        """The body under this lock did not end well: what its transaction did is not to be kept."""

    def why_gone(self, grant: Grant) -> Gone | None:
        """Why a release has found nothing, where this mode knows."""
        return None

    def connection(self, grant: Grant) -> object:
        raise Unsupported(
            f"mode={self.settings.mode} holds this lock without a transaction of its own: use "
            "mode=row, or your own connection and fencelock.sql.verify() before it commits"
        )

    def verification(self, grant: Grant) -> Verification:
        raise Unsupported(
            f"mode={self.settings.mode} keeps no row that a transaction could hold on to: use "
            "mode=lease, or mode=row and lease.connection"
        )
