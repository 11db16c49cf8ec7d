"""Numbers that are remembered for a name beyond the life of a process: a row of ``{t}_memos``.

A row has all items of its name with their numbers, and one end, on the server's clock. An upsert
raises a number or leaves it, and moves the end out or leaves it: so it may be repeated, and of two
at once none is lost. A row that has ended is not shown, and begins anew with the next write. The
``tidy`` of ``Shares`` removes such rows together with its own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from .rows import string
from .statements import Statements
from .wire import Wire


class Memos:
    """The numbers that the clients of one set of tables remember."""

    def __init__(self, wire: Wire, sql: Statements) -> None:
        self._wire = wire
        self._sql = sql

    async def remember(self, name: str, item: str, number: int, keep: float) -> None:
        await self._wire.execute(self._sql.remember, name, item, number, keep)

    async def recall(self, name: str) -> Mapping[str, int]:
        rows = await self._wire.execute(self._sql.recall, name)
        items: Mapping[str, int] = json.loads(string(rows[0][0])) if rows else {}
        return items

    async def forget(self, name: str) -> None:
        await self._wire.execute(self._sql.forget, name)
