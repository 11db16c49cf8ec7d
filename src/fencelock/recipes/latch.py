"""Let all waiters go on once a latch was counted down a number of times.

Every count is an item of its own among what the engine remembers, named by an id. So a count whose
reply was lost is written again under the same id, and counts once. The number of counts that the
latch waits for is an item too: a client that has another number gets an error.
"""

from __future__ import annotations

from collections.abc import Mapping

from .._client.facade import Cores
from .._client.validation import check_name, check_seconds, check_timeout
from ..errors import AcquireTimeout, Unavailable, UsageError
from ..world import GRACE_S, NO_LIMIT
from .board import Board, Observer, check_count, demand_memory

COUNT_MAX = 10_000  # items that every look reads
KEEP_MIN_S, KEEP_MAX_S = 1.0, 366 * 86_400.0
COUNT, COUNTED = "count", "by:"


class CountDown:
    """The counts of one name."""

    def __init__(self, cores: Cores, name: str, count: object, keep: object) -> None:
        self._name = check_name(name)
        self._count = check_count(count, "count", COUNT_MAX)
        self._keep = check_seconds(keep, "keep", KEEP_MIN_S, KEEP_MAX_S)
        self._board = Board(cores, f"latch:{name}")
        demand_memory(cores, "a latch")

    async def count_down(self, by: str | None) -> int:
        """Count down once, and return how many counts are missing. An open latch stays open."""
        if by is not None and not isinstance(by, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UsageError(f"by must be a str, which counts once, not {by!r:.80}")
        item = check_name(COUNTED + (self._board.core.world.owner() if by is None else by))
        left = await self.remaining()
        if left:
            await self._board.remember(COUNT, self._count, self._keep)
            await self._board.remember(item, 1, self._keep)
            left = await self.remaining()
            if not left:
                await self._board.announce()
        return left

    async def remaining(self, limit: float = NO_LIMIT) -> int:
        """Return how many counts are missing."""
        items = await self._board.recall(limit)
        self._check(items)
        counted = sum(item.startswith(COUNTED) for item in items)
        return max(0, self._count - counted)

    async def wait(self, timeout: float | None) -> None:
        """Wait until the latch is open."""
        world = self._board.core.world
        timeout = check_timeout(timeout)
        deadline = NO_LIMIT if timeout is None else world.now() + timeout
        observer, left, limit = Observer(self._board), self._count, deadline + GRACE_S
        try:
            await observer.begin(limit)
            while True:
                try:
                    left = await self.remaining(limit)
                    if not left:
                        return
                    observer.is_reached()
                except Unavailable as error:
                    observer.bear(error)
                if world.now() >= deadline:
                    raise self._shut(left, timeout)
                await observer.wait(deadline)
        finally:
            await observer.end(limit)

    async def reset(self) -> None:
        """Forget all counts: the latch is closed again."""
        await self._board.forget()
        await self._board.announce()

    def _check(self, items: Mapping[str, int]) -> None:
        theirs = items.get(COUNT, self._count)
        if theirs != self._count:
            raise UsageError(
                f"the latch {self._name!r} is in use with count={theirs}, and count={self._count} "
                "was asked for: give all its users the same count, or reset() it"
            )

    def _shut(self, left: int, timeout: float | None) -> AcquireTimeout:
        return AcquireTimeout(
            f"{left} of {self._count} counts of the latch {self._name!r} were missing after "
            f"{timeout or 0:.3g} s",
            name=self._name,
            timeout=timeout,
        )
