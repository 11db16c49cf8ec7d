"""Poll the service for the waiters of one client: one poll for all of them.

A poll lists all requests that wait, and is answered as soon as one of them is granted. A waiter
that comes meanwhile needs a new poll: the service ends the older one of the same inbox as
``superseded``, and the new one takes over its requests. So two jobs take turns, and one of them is
idle nearly always.

A poll lists an owner only while, by the service's last reply to it, it is in the queue. A poll that
was in transit while the owner's own call was granted or withdrawn would request the lock again,
with the ttl of the request.

A poll that fails wakes all its waiters, which get the same error from their own calls. While polls
are answered, a waiter that they list sends a call of its own once in ``POLLED_LOOK_S``.

A poll lists at most ``BATCH_MAX`` waiters, those that have waited longest. The others are in no
poll: the service forgets them after ten seconds, so that they lose their positions, and they send a
new call once in ``LOOK_S``. A client logs a warning the first time that this happens.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

from ... import observe
from ...errors import FencelockError
from ...model import Grant, Request
from ...world import Job, Signal, World, sleep, snapshot
from .attempts import Attempts
from .messages import BATCH_MAX, LOOK_S, Bodies, id_of, read_lease
from .replicas import Replicas

POLLED_LOOK_S = 3600.0  # a poll wakes the waiters that it lists, also when it fails
POLL_S = 20.0  # how long a poll waits: soon after that a silent node is noticed
ANSWER_S = 5.0  # how long its reply may take after that
RETRY_S = 0.2  # after a poll that failed
JOBS = 2
CLOSE_S = 2.0


class Waiter:
    """One waiter, and the grant that a poll has brought it."""

    __slots__ = ("grant", "request", "signal")

    def __init__(self, request: Request, signal: Signal) -> None:
        self.request = request
        self.signal = signal
        self.grant: Grant | None = None
        """The grant from a poll, until it is fetched."""


class Listener:
    """Polls for the waiters of one client."""

    def __init__(
        self,
        world: World,
        replicas: Replicas,
        bodies: Bodies,
        attempts: Attempts,
        give_back: Callable[[Request], Awaitable[None]],
    ) -> None:
        self._world = world
        self._replicas = replicas
        self._bodies = bodies
        self._attempts = attempts
        self._give_back = give_back
        """Withdraws what was granted to an attempt that is over."""
        self.inbox = world.owner()
        self._waiters: dict[str, Waiter] = {}
        self._queued: set[str] = set()
        """Owners that are in the queue, by the last reply to a call of theirs."""
        self._mutex = world.mutex()
        self._changed = world.signal()
        self._stale = False
        """Whether there is a waiter that no poll lists."""
        self._polls = 0
        """How many polls were started."""
        self._idle = 0
        self._jobs: list[Job] = []
        self._closing = False
        self._warned = False
        """Whether the warning about too many waiters was logged."""

    def watch(self, request: Request, signal: Signal) -> None:
        """Register a waiter. Its signal is set when it was granted, or should look again."""
        self._waiters[request.owner] = Waiter(request, signal)
        if request.owner in self._queued:
            self._poll_anew()

    def unwatch(self, owner: str) -> None:
        """Forget a waiter."""
        self._waiters.pop(owner, None)
        self._queued.discard(owner)

    def pushed_grant(self, owner: str) -> Grant | None:
        """Return, once, the grant that a poll has brought to an owner."""
        waiter = self._waiters.get(owner)
        if waiter is None or waiter.grant is None:
            return None
        self._queued.discard(owner)
        grant, waiter.grant = waiter.grant, None
        return grant

    def exclude_from_polls(self, owner: str) -> None:
        """List an owner in no poll from now on, because it sends a call of its own."""
        self._queued.discard(owner)

    def queued(self, owner: str) -> float:
        """List an owner in polls from now on, because by its last reply it is in the queue.

        Return the seconds after which it should send a call of its own all the same.
        """
        self._queued.add(owner)
        if owner in self._waiters:
            self._poll_anew()
        return POLLED_LOOK_S if len(self._waiters) <= BATCH_MAX else LOOK_S

    def void(self, owner: str) -> None:
        """Drop the grant that a poll has brought to an owner that withdraws its attempt."""
        self._queued.discard(owner)
        self.pushed_grant(owner)

    def close_nowait(self) -> None:
        """Stop the jobs without waiting."""
        self._closing = True
        self._changed.set()
        self._replicas.close_polls()

    async def close(self) -> None:
        """Stop the jobs, and wait for that."""
        self.close_nowait()
        for job in self._jobs:
            self._changed.set()
            await job.join(self._world.now() + CLOSE_S)

    # Polling

    async def _listen(self) -> None:
        while not self._closing:
            waiters, number = self._next()
            if not waiters:
                self._idle += 1
                try:
                    await self._world.wait(self._changed, None)
                finally:
                    self._idle -= 1
                if not self._closing:
                    self._changed.clear()
                continue
            try:
                await self._poll_once(waiters, number)
            except BaseException:  # all tasks of the loop were cancelled: this one is started again
                self._poll_again()
                raise

    async def _poll_once(self, waiters: dict[str, Waiter], number: int) -> None:
        try:
            await self._poll(waiters, number)
        except FencelockError:
            self._wake(waiters)
            await sleep(self._world, RETRY_S)
            self._poll_again()

    def _next(self) -> tuple[dict[str, Waiter], int]:
        """Return the waiters of the next poll, none if all are in a poll, and its number."""
        with self._mutex:
            if not self._stale:
                return {}, 0
            self._stale = False
            self._polls += 1
            waiting = [(o, w) for o, w in snapshot(self._waiters) if self._is_waiting(o, w)]
            number, is_first = self._polls, len(waiting) > BATCH_MAX and not self._warned
            self._warned = self._warned or is_first
        if is_first:
            observe.warn(
                f"more than {BATCH_MAX:,} waiters of one client: a poll of the lock service names "
                "no more. Those who came last lose their positions in the queue and retry once in "
                f"{LOOK_S:g} s: connect another client for them"
            )
        return dict(waiting[:BATCH_MAX]), number

    def _is_waiting(self, owner: str, waiter: Waiter) -> bool:
        return waiter.grant is None and owner in self._queued

    async def _poll(self, waiters: dict[str, Waiter], number: int) -> None:
        """Poll once, and pass on the grants."""
        attempts, sent_at = self._attempts, self._world.now()
        numbers = {owner: attempts.number(owner) for owner in waiters}
        wants = [self._bodies.want(w.request, numbers[o]) for o, w in waiters.items()]
        body = {"inbox": self.inbox, "hold": POLL_S, "wants": wants}
        by_id = {id_of(owner): waiter for owner, waiter in waiters.items()}
        read = partial(_read_poll, by_id, sent_at, self._world.now)
        timeout = POLL_S + ANSWER_S
        granted, superseded = await self._replicas.call("wait", body, read, timeout, "polls")
        for waiter, grant in granted:
            await self._granted(waiter, grant, numbers[waiter.request.owner])
        if not superseded or number == self._polls:
            self._poll_again()

    async def _granted(self, waiter: Waiter, grant: Grant, number: int) -> None:
        """Pass a grant to its waiter; withdraw it if its attempt is over.

        The grant of an attempt that was withdrawn since, and followed by another, is dropped.

        An owner that is no longer registered here may hold the lock by now: then it stays held.
        """
        owner = waiter.request.owner
        if self._attempts.is_over(owner):
            await self._give_back(waiter.request)
        elif self._waiters.get(owner) is waiter and self._attempts.number(owner) == number:
            waiter.grant = grant
            waiter.signal.set()

    def _poll_again(self) -> None:
        """Start the next poll if there are waiters left."""
        if any(self._is_waiting(owner, waiter) for owner, waiter in snapshot(self._waiters)):
            self._stale = True
            self._changed.set()

    def _poll_anew(self) -> None:
        """Start a new poll for all waiters, which supersedes the one in progress."""
        self._stale = True
        with self._mutex:
            if not self._idle and len(self._jobs) < JOBS and not self._closing:
                self._jobs.append(self._world.keep(self._listen, "fencelock-listener"))
        self._changed.set()

    def _wake(self, waiters: dict[str, Waiter]) -> None:
        for waiter in waiters.values():
            waiter.signal.set()


def _read_poll(
    by_id: Mapping[str, Waiter], sent_at: float, now: Callable[[], float], answer: dict[str, Any]
) -> tuple[list[tuple[Waiter, Grant]], bool]:
    """Decode the reply to a poll: the grants, and whether a newer poll has superseded it."""
    granted: list[tuple[Waiter, Grant]] = []
    for lease in answer["granted"]:
        waiter = by_id.get(lease["id"])
        if waiter is not None:
            granted.append((waiter, read_lease(lease, waiter.request, sent_at, now())))
    return granted, answer["superseded"] is True
