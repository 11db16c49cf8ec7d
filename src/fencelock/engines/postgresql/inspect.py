"""List who holds and who waits, and revoke: locks and shares alike."""

from __future__ import annotations

from collections.abc import Sequence

from ...errors import Unavailable
from ...model import Holding, State
from .rows import Rows, flag, holding, limit_of, waiting
from .statements import Statements
from .wire import Wire


class Inspector:
    """The queries about names, and revocation, for locks and shares alike."""

    def __init__(self, wire: Wire, kinds: Sequence[Statements]) -> None:
        self._wire = wire
        self.kinds = kinds
        """The statements of locks, and those of shares if their tables can be used."""

    async def state(self, name: str) -> State:
        """Return who holds a name, and who waits for it."""
        holders = await self.of_all_kinds("holders", name)
        waiters = await self.of_all_kinds("waiters", name)
        limit = limit_of([*holders, *waiters])
        return State(name, tuple(map(holding, holders)), tuple(map(waiting, waiters)), limit)

    async def scan(self, prefix: str) -> list[Holding]:
        """Return all holders of names that begin with the prefix, sorted by name."""
        rows = await self.of_all_kinds("scan", prefix)
        return sorted(map(holding, rows), key=lambda one: one.name)

    async def revoke(self, name: str, reason: str) -> bool:
        """Revoke a name from all its holders; False when it had none."""
        try:
            rows = await self.of_all_kinds("revoke", name, reason)
        except Unavailable as error:
            raise Unavailable(f"{name!r} was not revoked: {error}") from error
        return any(flag(revoked) for (revoked,) in rows)

    async def tidy(self) -> None:
        """Remove unused rows; a failure is ignored, since no caller waits for this."""
        try:
            for sql in self.kinds:
                await self._wire.execute_soon(sql.tidy)
        except Exception:  # rows stay a little longer; the next request meets the same error
            pass

    async def of_all_kinds(self, statement: str, *values: object) -> Rows:
        """Run a statement that locks and shares both have; return the rows of both."""
        answers = [await self._wire.execute(getattr(sql, statement), *values) for sql in self.kinds]
        return [row for rows in answers for row in rows]
