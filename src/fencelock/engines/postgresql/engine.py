"""The base of the engines of the three modes: the options, the wire, and the schema.

* ``mode=lease``, the default (``lease.py``): a lock is a row that ends, on the server's clock.
* ``mode=advisory`` (``advisory.py``): an advisory lock of a session.
* ``mode=row`` (``row.py``): a row locked by a transaction that the caller may join. The same engine
  serves advisory locks with ``bound=transaction``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import ClassVar

from ...engine import Address, Engine, Verification
from ...errors import Denied, Misconfigured, Unavailable, Unsupported
from ...model import Finding, Grant
from ...world import World
from .rows import string
from .settings import OPTIONS, Settings, read_settings
from .statements import ADVISORY, LOCK_CLASS, Statement, qualified
from .wire import Wire

_MISSING = Statement(
    "", "SELECT name FROM unnest($1::text[]) AS name WHERE to_regproc(name) IS NULL"
)
MAKES_MAX = 3  # how often the creation of the tables is tried before it fails


class PostgresqlEngine(Engine):
    """``postgresql://user@host:port/database?mode=lease|advisory|row``."""

    schemes = ("postgresql",)
    options: ClassVar = OPTIONS
    drivers = ("psycopg",)

    def __init__(self, world: World, address: Address) -> None:
        super().__init__(world, address)
        self._settings = read_settings(address)
        self._wire = _wire(world, self._settings)

    async def open(self) -> None:
        """Connect to the database; close what was opened if it is of no use."""
        try:
            await self._open()
        except BaseException:
            await self._wire.close()
            raise

    async def _open(self) -> None:
        """Connect to the database, and create the tables and functions that are missing."""
        from .tables import (
            fence_counter,
            leave_queue,
            several,
            shares,
            store,
        )  # text that few clients need

        await self._wire.open()
        table, schema, mode = self._settings.table, self._settings.schema, self._settings.mode
        names = qualified(table, schema)
        parts = {f"{names}_lift": partial(store, table, schema)}
        if mode == "lease":
            parts[f"{names}_tidy_shares"] = partial(shares, table, schema)
            parts[f"{names}_take_together"] = partial(several, table, schema)
            parts[f"{names}_leave_queue"] = partial(leave_queue, table, schema)
        await self._make(names, parts)
        if mode == "advisory":
            await self._make(ADVISORY, {f"{ADVISORY}_lift": partial(fence_counter, ADVISORY)})

    async def _make(self, names: str, scripts: Mapping[str, Callable[[], str]]) -> None:
        """Run each script whose last function is missing in the database.

        A role that may not run them goes on if the first one was run before: locks that worked
        before the other scripts were added go on working.
        """
        first, *_ = scripts
        lock = f"SELECT pg_advisory_xact_lock({LOCK_CLASS}, hashtext('{names}'));"
        for left in reversed(range(MAKES_MAX)):
            rows = await self._wire.execute(_MISSING, list(scripts))
            missing = [string(row[0]) for row in rows]
            if not missing:
                return
            try:
                await self._wire.run_script(lock + "\n".join(scripts[one]() for one in missing))
            except Denied:
                if first in missing:
                    raise
                return
            except Unavailable:  # another client uses the new tables already: a deadlock with it
                if not left:
                    raise

    async def close(self) -> None:
        await self._wire.close()

    def close_nowait(self) -> None:
        self._wire.close_nowait()

    async def revoke(self, name: str, reason: str) -> bool:
        raise Unsupported(
            f"mode={self._settings.mode} cannot revoke a lock, which belongs to the holder's "
            "session: end that session with pg_terminate_backend(), or use mode=lease"
        )

    def connection(self, grant: Grant) -> object:
        raise Unsupported(
            f"mode={self._settings.mode} holds this lock without a transaction of its own: use "
            "mode=row, or your own connection and fencelock.sql.verify() before it commits"
        )

    def verification(self, grant: Grant) -> Verification:
        raise Unsupported(
            f"mode={self._settings.mode} keeps no row that a transaction could hold on to: use "
            "mode=lease, or mode=row and lease.connection"
        )

    async def diagnose(self) -> list[Finding]:
        from .doctor import FACTS, diagnose

        facts = {string(name): string(fact) for name, fact in await self._wire.execute(FACTS)}
        return diagnose(facts, self._settings, self._wire.direct, self.world.wall_us() / 1e6)


def _wire(world: World, settings: Settings) -> Wire:
    if world.flavor == "threads":
        from .wire.threads import ThreadsWire

        return ThreadsWire(world, settings)
    if world.flavor == "asyncio":
        from .wire.aio import AioWire

        return AioWire(settings)
    raise Misconfigured("postgresql needs a server, which the simulator does not have")
