"""Remove the rows that nobody uses, in the background.

A transaction of a user may keep the row of a hold locked for as long as it likes (``verify``). So
no call of this client waits for a clean-up, and a clean-up waits for no such row: it leaves rows
that are locked to a later one. A request that waited for one would stop others, too: whoever comes
after it waits behind it.

Each run has a connection of its own, which it closes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import Literal

from ...errors import FencelockError, Unavailable
from ...world import Job, World
from .._sql.sections import composed
from . import lease_sql
from .lease_sql import FORGET_US, number, words
from .literals import NOW, text
from .settings import Settings
from .wire.codec import Row
from .wire.connection import Wire
from .wire.pool import Pool

EVERY_S = 30.0
MOST = 1000
SETTLE_MOST = 100
BATCH = 100
FENCE_TRIES = 12
FENCE_PAUSE_S = 0.3  # so that all tries take longer than a request waits for a row
LOCKED_MAX = 3
CLOSE_S = 2.0

_REMOVALS = {
    "locks": ("remove_lock", "remove_renewal", "remove_reason"),
    "shares": ("remove_name", "remove_renewal", "remove_memos", "remove_change"),
}
"""The packets that remove one row, in the order of the replies that have the keys."""


class Cleanup:
    """The clean-ups that one client makes of the tables of locks, or of those of shares."""

    def __init__(
        self,
        world: World,
        settings: Settings,
        wire: Wire,
        kind: Literal["locks", "shares"],
        settle: Callable[[str, Pool], Awaitable[object]],
    ) -> None:
        self._world = world
        self._settings = settings
        self._wire = wire
        self._kind = kind
        self._settle = settle
        """Settles the queue of a name, or of a key of shares."""
        self.due_at = world.now() + EVERY_S
        self._skips = False
        self._closing = world.signal()
        self._job: Job | None = None
        self.begin(False)

    def begin(self, skips_locked: bool) -> None:
        """Set up the statements for a server; ``skips_locked`` says that it has SKIP LOCKED.

        One without it waits for a row for a second, the least that it can.
        """
        self._skips = skips_locked
        self._sql = composed(
            Path(__file__).parent / "sql" / "cleanup.sql",
            t=self._settings.table,
            now=NOW,
            forget=FORGET_US,
            unused=lease_sql.UNUSED_US,
            most=MOST,
            settle_most=SETTLE_MOST,
            skip="SKIP LOCKED" if skips_locked else "",
        )

    def start_if_due(self, now: float) -> None:
        """Start a clean-up, at most every ``EVERY_S``."""
        if now < self.due_at or self._closing.is_set():
            return
        self.due_at = now + EVERY_S * (1 + self._world.random())
        try:
            self._job = self._world.spawn(self._run(), "fencelock-cleanup")
        except RuntimeError:
            pass  # no thread can be started, or the loop is closed: a later one does it

    async def _run(self) -> None:
        pool = Pool(self._world, self._settings, self._wire, 1)
        try:
            await self._clean_up(pool)
        except FencelockError:
            pass  # another client, or the next clean-up, does it
        finally:
            pool.close()

    async def _clean_up(self, pool: Pool) -> None:
        await pool.query("SET SESSION innodb_lock_wait_timeout=1")
        *unused, fences, queues = await pool.query(self._sql[f"unused_{self._kind}"])
        removals: list[str] = []
        for packet, reply in zip(_REMOVALS[self._kind], unused, strict=True):
            removals += [self._sql[packet] % {"n": text(key)} for key in _keys(reply.rows)]
        await self._remove(pool, removals)
        for key in _keys(queues.rows):
            if not await self._is_locked(pool, key):
                await self._settle(key, pool)
        await self._raise_fence(pool, number(fences.rows[0][0]))

    async def _remove(self, pool: Pool, removals: Sequence[str]) -> None:
        """Remove rows, many in one transaction where that cannot wait for one of them."""
        size, locked = BATCH if self._skips else 1, 0
        for start in range(0, len(removals), size):
            if self._closing.is_set():
                return
            batch = ";".join(removals[start : start + size])
            try:
                await pool.query(f"START TRANSACTION;{batch};COMMIT")
            except Unavailable:
                locked += 1
                if self._skips or locked > LOCKED_MAX:
                    raise

    async def _is_locked(self, pool: Pool, key: str) -> bool:
        """Return whether a transaction has locked the row of a name, as far as it can be told."""
        if self._kind == "shares":
            return False  # a user locks the row of a share, which no settling waits for
        try:
            there, lockable = await pool.query(self._sql["is_locked"] % {"n": text(key)})
        except Unavailable:
            return True
        return len(there.rows) != len(lockable.rows)

    async def _raise_fence(self, pool: Pool, fence: int) -> None:
        """Raise the highest fence of rows that were removed, for those that the next run removes.

        A statement that takes a lock has locked its row for reading, in rare cases until it was
        granted the row of the lock: to wait behind that one would stop all others that do so.
        """
        for _ in range(FENCE_TRIES if fence else 0):
            *_, reply = await pool.query(self._sql["raise_fence"] % {"fence": fence})
            if number(reply.rows[0][0]) >= fence:
                return
            if await self._world.wait(self._closing, self._world.now() + FENCE_PAUSE_S):
                return

    def close_nowait(self) -> None:
        self._closing.set()

    async def close(self) -> None:
        self.close_nowait()
        if self._job is not None:
            await self._job.join(self._world.now() + CLOSE_S)


def _keys(rows: Iterable[Row]) -> list[str]:
    return [words(key) for (key,) in rows]
