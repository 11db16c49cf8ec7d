"""Those who wait for the same session share a packet: one asks for all that have come meanwhile.

Nobody waits for company. Whoever finds a session that nobody uses asks alone; when all are in use,
the first to wait leads a round, others join it until it has a session, and what they want goes to
the server in one packet. The leader's work runs to its end even if its caller is cancelled, and
tells all others, whatever became of it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from ...errors import FencelockError, OutcomeUnknown
from ...world import World

SILENT_S = 15.0  # how long the leader of a round may take: an exception may have ended it

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class Round(Generic[T]):
    """What some callers want, all in one packet."""

    def __init__(self, world: World) -> None:
        self.wishes: list[T] = []
        self.done = world.signal()
        self.error: FencelockError | None = None

    def check(self) -> None:
        """Raise what it failed with: for each caller an error of its own."""
        if self.error is None:
            return
        if len(self.wishes) == 1:
            raise self.error
        raise type(self.error)(
            f"{self.error} (this concerns all {len(self.wishes)} locks that this client named in "
            "one packet)"
        ) from self.error


class Rounds(Generic[K, T]):
    """The rounds that can still be joined, by what those in one must have in common."""

    def __init__(
        self, world: World, run: Callable[[K, Round[T]], Awaitable[None]], most: int
    ) -> None:
        self._world = world
        self._run = run
        """Gets a session, closes the round, and does what all in it want."""
        self._most = most
        self._open: dict[K, Round[T]] = {}
        self._mutex = world.mutex()

    def join(self, key: K, wish: T) -> tuple[Round[T], bool]:
        """Be in a round; True when it is a new one, to be led by the caller."""
        with self._mutex:
            found = self._open.get(key)
            if found is not None and len(found.wishes) < self._most:
                found.wishes.append(wish)
                return found, False
            new: Round[T] = Round(self._world)
            new.wishes.append(wish)
            self._open[key] = new
            return new, True

    async def end(self, key: K, shared: Round[T], leads: bool) -> None:
        """Have it run, or wait until the leader has; raise what it failed with."""
        if not leads or self._world.cancels:
            if leads:  # to its end even if the caller is cancelled
                self._world.spawn(self._lead(key, shared), "fencelock-round")
            if not await self._world.wait(shared.done, self._world.now() + SILENT_S):
                raise OutcomeUnknown("whoever asked for several at once has not been answered")
        else:
            await self._lead(key, shared)
        shared.check()

    def close(self, key: K, shared: Round[T]) -> list[T]:
        """Let nobody join any more: all who are in it."""
        with self._mutex:
            if self._open.get(key) is shared:
                del self._open[key]
        return shared.wishes

    async def _lead(self, key: K, shared: Round[T]) -> None:
        try:
            await self._run(key, shared)
        except FencelockError as error:
            shared.error = error
        except BaseException:  # Ctrl-C, in the leader's thread: the others must not wait for ever
            shared.error = OutcomeUnknown("whoever asked for several at once was interrupted")
            raise
        finally:
            self.close(key, shared)
            shared.done.set()
