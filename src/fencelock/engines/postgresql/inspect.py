"""List who holds and who waits, and revoke: locks and shares alike."""

from __future__ import annotations

from collections.abc import Sequence

from ...errors import Unavailable
from ...model import Holding, State
from .rows import Rows, flag, holding, limit_of, waiting
from .statements import Statements
from .wire import Wire


class Inspector:
    """What is asked about names, of whichever kind."""

    def __init__(self, wire: Wire, kinds: Sequence[Statements]) -> None:
        self._wire = wire
        self.kinds = kinds
        """The statements of all that can be used: with those of shares, if their tables can."""

    async def state(self, name: str) -> State:
        """Who holds a name, and who waits."""
        holders = await self.of_all_kinds("holders", name)
        waiters = await self.of_all_kinds("waiters", name)
        limit = limit_of([*holders, *waiters])
        return State(name, tuple(map(holding, holders)), tuple(map(waiting, waiters)), limit)

    async def scan(self, prefix: str) -> list[Holding]:
        """All holders of names that begin with the prefix, by name."""
        rows = await self.of_all_kinds("scan", prefix)
        return sorted(map(holding, rows), key=lambda one: one.name)

    async def revoke(self, name: str, reason: str) -> bool:
        """Take a name from all who hold it; False when nobody did."""
        try:
            rows = await self.of_all_kinds("revoke", name, reason)
        except Unavailable as error:
            raise Unavailable(f"{name!r} was not revoked: {error}") from error
        return any(flag(revoked) for (revoked,) in rows)

    async def tidy(self) -> None:
        """Remove what nobody uses, where nobody would be told that it failed."""
        try:
            for sql in self.kinds:
                await self._wire.execute_soon(sql.tidy)
        except Exception:  # rows stay a little longer; whoever asks next meets the same trouble
            pass

    async def of_all_kinds(self, statement: str, *values: object) -> Rows:
        """The rows of a statement that locks and shares both have."""
        answers = [await self._wire.execute(getattr(sql, statement), *values) for sql in self.kinds]
        return [row for rows in answers for row in rows]
