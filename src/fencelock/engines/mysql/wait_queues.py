"""Who of one client waits for which lock of the server, and the sessions that wait for them.

For each lock one waits in the server's queue, however many wait here. The first of the queue here
gets what that one was given.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from ...errors import FencelockError, OutcomeUnknown
from ...model import Request
from ...world import Job, Signal, World, sleep, snapshot
from .wire.pool import Pool

RETRY_S = 0.1
STEP_S = 0.1
PAUSE_S = 0.001


class WaitQueue:
    """Who waits here for one lock, first come first, and the session that waits for them."""

    def __init__(self, world: World, pool: Pool) -> None:
        self._world = world
        self._pool = pool
        self.requests: dict[str, Request] = {}
        self.job: Job | None = None
        """Of the session that waits in the server's queue."""
        self.identity_lock = ""
        """By what that session is known, as SQL, while it waits."""
        self._kills = 0

    def first(self) -> Request | None:
        waiting = list(self.requests.values())  # another thread may leave just now
        return waiting[0] if waiting else None

    async def interrupt(self, job: Job) -> bool:
        """End the wait, if the session is at it; say whether the job has ended."""
        if self.identity_lock:
            self._kills += 1
            try:
                if self.identity_lock:
                    await self._pool.query(f"KILL QUERY IS_USED_LOCK({self.identity_lock})")
            except FencelockError:
                pass  # it has ended by itself
            finally:
                self._kills -= 1
        if await job.join(self._world.now() + STEP_S):
            return True
        if self._world.limit() <= self._world.now():
            raise OutcomeUnknown("a session still waits in the server's queue: try again")
        return False

    async def end_kills(self) -> None:
        """The session waits no more: let nobody be about to interrupt it."""
        self.identity_lock = ""
        while self._kills:
            await sleep(self._world, PAUSE_S)


class WaitQueues:
    """The queues of one client, by lock."""

    def __init__(
        self,
        world: World,
        pool: Pool,
        fetch: Callable[[str, WaitQueue], Awaitable[bool]],
    ) -> None:
        self._world = world
        self._pool = pool
        self._fetch = fetch
        self._queues: dict[str, WaitQueue] = {}
        self._signals: dict[str, Signal] = {}
        self._mutex = world.mutex()
        self._closing = False

    def __len__(self) -> int:
        """How many sessions wait."""
        return sum(queue.job is not None for queue in list(self._queues.values()))

    def watch(self, lock: str, request: Request, signal: Signal) -> None:
        self._signals[request.owner] = signal

    def unwatch(self, owner: str) -> None:
        self._signals.pop(owner, None)

    def has(self, lock: str) -> bool:
        """Whether anybody waits here for a lock."""
        return lock in self._queues

    def join(self, lock: str, request: Request) -> int:
        """Join a queue, or stay there; return how many are ahead."""
        with self._mutex:
            queue = self._queues.setdefault(lock, WaitQueue(self._world, self._pool))
            queue.requests.setdefault(request.owner, request)
            return list(queue.requests).index(request.owner)

    def is_first(self, lock: str, request: Request) -> bool:
        """Whether it is this one's turn to send a request: nobody else does so already."""
        ahead = self.join(lock, request)
        return ahead == 0 and self._queues[lock].job is None

    def send_session(self, lock: str, room: bool) -> bool:
        """Have a session wait for a queue, if there is room for one; say whether one does."""
        with self._mutex:
            queue = self._queues.get(lock)
            if queue is None or self._closing:
                return False
            if queue.job is None and room:
                queue.job = self._world.spawn(self._wait(lock, queue), "fencelock-waiter")
            return queue.job is not None

    async def _wait(self, lock: str, queue: WaitQueue) -> None:
        try:
            while queue.requests and not self._closing:
                try:
                    if not await self._fetch(lock, queue):
                        break
                except FencelockError:  # interrupted; or those who wait meet the same themselves
                    if queue.requests:
                        await sleep(self._world, RETRY_S)
                        self.wake_first(lock)
        finally:
            with self._mutex:
                queue.job = None
                if not queue.requests and self._queues.get(lock) is queue:
                    del self._queues[lock]
            self.wake_first(lock)  # who looked just now was told that a session waits

    def leave(self, lock: str, owner: str) -> None:
        """Leave a queue."""
        with self._mutex:
            queue = self._queues.get(lock)
            if queue is not None:
                queue.requests.pop(owner, None)
                if not queue.requests and queue.job is None:
                    del self._queues[lock]

    async def withdraw(self, lock: str, owner: str) -> None:
        """Leave a queue; the last one also calls back the session that waits for it."""
        queue = self._queues.get(lock)
        if queue is None:
            return
        queue.requests.pop(owner, None)
        while not queue.requests and (job := queue.job) is not None:
            if await queue.interrupt(job):
                break
        self.leave(lock, owner)
        if queue.job is None:  # no session waits for them: the next has to request by itself
            self.wake_first(lock)

    def wake(self, owner: str) -> None:
        """Have a waiter look."""
        signal = self._signals.get(owner)
        if signal is not None:
            signal.set()

    def wake_first(self, lock: str) -> bool:
        """Have the first of a queue look; False when there is none."""
        queue = self._queues.get(lock)
        request = queue.first() if queue is not None else None
        if request is not None:
            self.wake(request.owner)
        return request is not None

    def close_nowait(self) -> None:
        self._closing = True

    async def close(self, deadline: float) -> None:
        """Call all sessions back."""
        self._closing = True
        for lock, queue in snapshot(self._queues):
            for owner in list(queue.requests):
                if self._world.now() < deadline:
                    await self.withdraw(lock, owner)
