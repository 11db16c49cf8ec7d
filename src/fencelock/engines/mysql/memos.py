"""Numbers that are remembered for a name beyond the life of a process: rows of ``{t}_memos``.

Each item is a row. An upsert raises its number or leaves it, and moves its end out or leaves it: so
it may be repeated, and of two at once none is lost. All items of a name last as long as the one
that lasts longest; when that has ended, the next write for the name begins anew.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

from .._sql.sections import composed
from .lease_sql import number, words
from .literals import NOW, known, micros, text
from .wire.codec import Reply
from .wire.pool import Pool


class Memos:
    """The memos of the clients of one set of tables, and the names that they have announced."""

    def __init__(self, pool: Pool, table: str, have_tables: Callable[[], Awaitable[None]]) -> None:
        self._pool = pool
        self._have_tables = have_tables
        self._sql = composed(Path(__file__).parent / "sql" / "memos.sql", t=table, now=NOW)

    async def _query(self, sql: str) -> list[Reply]:
        await self._have_tables()
        return await self._pool.query(sql)

    async def remember(self, name: str, item: str, number: int, keep: float) -> None:
        words = {"n": text(name), "item": text(item), "number": number, "keep": micros(keep)}
        await self._query(self._sql["remember"] % words)

    async def recall(self, name: str) -> Mapping[str, int]:
        (reply,) = await self._query(self._sql["recall"] % {"n": text(name)})
        return {words(item): number(value) for item, value in reply.rows}

    async def forget(self, name: str) -> None:
        await self._query(self._sql["forget"] % {"n": text(name)})

    async def announce(self, name: str) -> None:
        """Announce that a name has changed."""
        await self._query(self._sql["announce"] % {"n": known(name)})

    async def changes(self, names: Sequence[str]) -> dict[str, int]:
        """Return the names that were announced lately, each with a number that grows."""
        literals = ",".join(map(known, names))
        (reply,) = await self._query(self._sql["look"] % {"names": literals})
        return {words(name): number(count) for name, count in reply.rows}
