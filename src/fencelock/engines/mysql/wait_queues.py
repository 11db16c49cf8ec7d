"""Who of one client waits for which lock of the server, and the sessions that wait for them.

For each lock one waits in the server's queue, however many wait here. The first in line gets what
that one was given.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from ...errors import FencelockError, OutcomeUnknown
from ...model import Request
from ...world import Job, Signal, World, sleep
from .wire.pool import Pool
from .wire.session_pool import badge

STUMBLE_S = 0.1
BREATH_S = 0.001


class Line:
    """Who waits here for one lock, first come first."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.requests: dict[str, Request] = {}
        self.job: Job | None = None
        self.session = 0
        """The session that waits in the server's queue, while one does."""
        self.kills = 0

    def first(self) -> Request | None:
        waiting = list(self.requests.values())  # another thread may leave just now
        return waiting[0] if waiting else None

    async def quiet(self) -> None:
        """Our session waits no more: let nobody be about to interrupt it."""
        self.session = 0
        while self.kills:
            await sleep(self._world, BREATH_S)


class Lines:
    """The lines of one client."""

    def __init__(
        self, world: World, pool: Pool, fetch: Callable[[str, Line], Awaitable[bool]]
    ) -> None:
        self._world = world
        self._pool = pool
        self._fetch = fetch
        self._lines: dict[str, Line] = {}
        self._signals: dict[str, Signal] = {}
        self._mutex = world.mutex()
        self._closing = False

    def __len__(self) -> int:
        """How many sessions wait."""
        return sum(line.job is not None for line in list(self._lines.values()))

    def watch(self, lock: str, request: Request, signal: Signal) -> None:
        self._signals[request.owner] = signal

    def unwatch(self, owner: str) -> None:
        self._signals.pop(owner, None)

    def has(self, lock: str) -> bool:
        """Whether anybody waits here for a lock."""
        return lock in self._lines

    def stand(self, lock: str, request: Request) -> int:
        """Stand in line, or stay there; return how many are ahead."""
        with self._mutex:
            line = self._lines.setdefault(lock, Line(self._world))
            line.requests.setdefault(request.owner, request)
            return list(line.requests).index(request.owner)

    def is_first(self, lock: str, request: Request) -> bool:
        """Whether it is this one's turn to ask the server: nobody else does so already."""
        place = self.stand(lock, request)
        return place == 0 and self._lines[lock].job is None

    def send(self, lock: str, room: bool) -> bool:
        """Have a session wait for a line, if there is room for one; say whether one does."""
        with self._mutex:
            line = self._lines.get(lock)
            if line is None or self._closing:
                return False
            if line.job is None and room:
                line.job = self._world.spawn(self._wait(lock, line), "fencelock-waiter")
            return line.job is not None

    async def _wait(self, lock: str, line: Line) -> None:
        try:
            while line.requests and not self._closing:
                try:
                    if not await self._fetch(lock, line):
                        break
                except FencelockError:  # interrupted; or those who wait meet the same themselves
                    if line.requests:
                        await sleep(self._world, STUMBLE_S)
                        self.call_first(lock)
        finally:
            with self._mutex:
                line.job = None
                if not line.requests and self._lines.get(lock) is line:
                    del self._lines[lock]
            self.call_first(lock)  # who looked just now was told that a session waits

    def leave(self, lock: str, owner: str) -> None:
        """Out of the line."""
        with self._mutex:
            line = self._lines.get(lock)
            if line is not None:
                line.requests.pop(owner, None)
                if not line.requests and line.job is None:
                    del self._lines[lock]

    async def withdraw(self, lock: str, owner: str) -> None:
        """Out of the line; the last one also calls back the session that waits for it."""
        line = self._lines.get(lock)
        if line is None:
            return
        line.requests.pop(owner, None)
        while not line.requests and (job := line.job) is not None:
            if line.session:
                line.kills += 1
                try:
                    if line.session:
                        await self._pool.ask(f"KILL QUERY IS_USED_LOCK({badge(line.session)})")
                except FencelockError:
                    pass  # it has ended by itself
                finally:
                    line.kills -= 1
            if await job.join(self._world.now() + STUMBLE_S):
                break
            if self._world.limit() <= self._world.now():
                raise OutcomeUnknown("a session still waits in the server's queue: try again")
        self.leave(lock, owner)
        if line.job is None:  # no session waits for them: the next has to ask by itself
            self.call_first(lock)

    def call(self, owner: str) -> None:
        """Have a waiter look."""
        signal = self._signals.get(owner)
        if signal is not None:
            signal.set()

    def call_first(self, lock: str) -> bool:
        """Have the first in line look; False when there is none."""
        line = self._lines.get(lock)
        request = line.first() if line is not None else None
        if request is not None:
            self.call(request.owner)
        return request is not None

    def close_nowait(self) -> None:
        self._closing = True

    async def close(self, deadline: float) -> None:
        """Call all sessions back."""
        self._closing = True
        for lock, line in list(self._lines.items()):
            for owner in list(line.requests):
                if self._world.now() < deadline:
                    await self.withdraw(lock, owner)
