"""The queues of one client for the server's locks, and the sessions that wait for them.

For each lock one session waits in the server's queue, however many callers wait here. The first
caller in the queue here gets the lock that the session was granted.
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
    """The callers that wait for one lock, in order of arrival, and the session that does so too."""

    def __init__(self, world: World, pool: Pool) -> None:
        self._world = world
        self._pool = pool
        self.requests: dict[str, Request] = {}
        self.job: Job | None = None
        """The job in which a session waits in the server's queue."""
        self.identity_lock = ""
        """The identity lock of that session, as SQL, while it waits."""
        self._kills = 0

    def first(self) -> Request | None:
        waiting = list(self.requests.values())  # a copy: another thread may leave just now
        return waiting[0] if waiting else None

    async def interrupt(self, job: Job) -> bool:
        """End the session's wait, if it has begun; return whether the job has ended."""
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
        """End the session's wait for good: return once no ``KILL QUERY`` for it is under way."""
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
        """Return how many sessions wait."""
        return sum(queue.job is not None for queue in list(self._queues.values()))

    def watch(self, lock: str, request: Request, signal: Signal) -> None:
        self._signals[request.owner] = signal

    def unwatch(self, owner: str) -> None:
        self._signals.pop(owner, None)

    def has(self, lock: str) -> bool:
        """Return whether a lock has a queue here."""
        return lock in self._queues

    def join(self, lock: str, request: Request) -> int:
        """Join a queue, or stay in it; return how many are ahead."""
        with self._mutex:
            queue = self._queues.setdefault(lock, WaitQueue(self._world, self._pool))
            queue.requests.setdefault(request.owner, request)
            return list(queue.requests).index(request.owner)

    def is_first(self, lock: str, request: Request) -> bool:
        """Return whether this caller is to send a request: it is first, and no session waits."""
        ahead = self.join(lock, request)
        return ahead == 0 and self._queues[lock].job is None

    def send_session(self, lock: str, room: bool) -> bool:
        """Have a session wait for a queue, if there is room for one; return whether one waits."""
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
                except FencelockError:  # interrupted; or the waiters meet the same error themselves
                    if queue.requests:
                        await sleep(self._world, RETRY_S)
                        self.wake_first(lock)
        finally:
            with self._mutex:
                queue.job = None
                if not queue.requests and self._queues.get(lock) is queue:
                    del self._queues[lock]
            self.wake_first(lock)  # it may have been told just now that a session waits

    def leave(self, lock: str, owner: str) -> None:
        """Leave a queue."""
        with self._mutex:
            queue = self._queues.get(lock)
            if queue is not None:
                queue.requests.pop(owner, None)
                if not queue.requests and queue.job is None:
                    del self._queues[lock]

    async def withdraw(self, lock: str, owner: str) -> None:
        """Leave a queue; the last caller also ends the wait of its session."""
        queue = self._queues.get(lock)
        if queue is None:
            return
        queue.requests.pop(owner, None)
        while not queue.requests and (job := queue.job) is not None:
            if await queue.interrupt(job):
                break
        self.leave(lock, owner)
        if queue.job is None:  # no session waits for them: the next caller has to send a request
            self.wake_first(lock)

    def wake(self, owner: str) -> None:
        """Have a waiter retry."""
        signal = self._signals.get(owner)
        if signal is not None:
            signal.set()

    def wake_first(self, lock: str) -> bool:
        """Have the first waiter of a queue retry; False when there is none."""
        queue = self._queues.get(lock)
        request = queue.first() if queue is not None else None
        if request is not None:
            self.wake(request.owner)
        return request is not None

    def close_nowait(self) -> None:
        self._closing = True

    async def close(self, deadline: float) -> None:
        """Empty all queues, which ends the waits of their sessions."""
        self._closing = True
        for lock, queue in snapshot(self._queues):
            for owner in list(queue.requests):
                if self._world.now() < deadline:
                    await self.withdraw(lock, owner)
