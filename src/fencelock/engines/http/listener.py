"""Wait for the waiters of one client: one poll of the service for all of them.

A poll names all that are waited for, and is answered as soon as one of them is granted. Who begins
to wait meanwhile needs a new poll: the service ends the older one of the same inbox, which is
``superseded``, and hands over what that waited for. So two jobs take turns, and one of them is idle
nearly always.

A poll names an owner only while the service's last word about it is that it stands in the queue.
One that was on its way while the owner's own call was granted or withdrawn would ask for the lock
again, with the ttl of the request.

A poll that fails lets all waiters look by themselves: they meet the same in their own calls. While
polls are answered, whoever they name looks by itself once in ``POLLED_LOOK_S``.

A poll names at most ``BATCH_MAX``, those that have waited longest. Nobody polls for the others: the
service forgets them after ten seconds, so that they lose their places, and they ask anew once in
``LOOK_S``. The first time that this happens a client says so in the log.
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

POLLED_LOOK_S = 3600.0  # a poll looks for all whom it names, and wakes them when it fails
POLL_S = 20.0  # how long a poll waits: a node that fell silent is noticed soon after
ANSWER_S = 5.0  # how long its answer may take after that
RETRY_S = 0.2  # after a poll that failed
JOBS = 2
CLOSE_S = 2.0


class Waiter:
    """One who waits."""

    __slots__ = ("grant", "request", "signal")

    def __init__(self, request: Request, signal: Signal) -> None:
        self.request = request
        self.signal = signal
        self.grant: Grant | None = None
        """What a poll has brought."""


class Listener:
    """The poll of one client."""

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
        """Takes back what was granted to an attempt that is over."""
        self.inbox = world.owner()
        self._waiters: dict[str, Waiter] = {}
        self._queued: set[str] = set()
        """Owners that stand in the queue, by the last answer to a call of theirs."""
        self._mutex = world.mutex()
        self._changed = world.signal()
        self._stale = False
        """Whether somebody waits that no poll names."""
        self._polls = 0
        """How many polls were begun."""
        self._idle = 0
        self._jobs: list[Job] = []
        self._closing = False
        self._warned = False
        """Whether the log has been told that there are too many waiters."""

    def watch(self, request: Request, signal: Signal) -> None:
        """Set the signal when this request was granted, or should look again."""
        self._waiters[request.owner] = Waiter(request, signal)
        if request.owner in self._queued:
            self._poll_anew()

    def unwatch(self, owner: str) -> None:
        """Forget an owner that waits no more."""
        self._waiters.pop(owner, None)
        self._queued.discard(owner)

    def pushed_grant(self, owner: str) -> Grant | None:
        """Return, once, what a poll has brought to an owner."""
        waiter = self._waiters.get(owner)
        if waiter is None or waiter.grant is None:
            return None
        self._queued.discard(owner)
        grant, waiter.grant = waiter.grant, None
        return grant

    def asks(self, owner: str) -> None:
        """Name an owner in no poll from now on, because a call of its own is sent."""
        self._queued.discard(owner)

    def queued(self, owner: str) -> float:
        """Name an owner in polls from now on, because it was told that it stands in the queue.

        Returns the seconds after which it should look by itself all the same.
        """
        self._queued.add(owner)
        if owner in self._waiters:
            self._poll_anew()
        return POLLED_LOOK_S if len(self._waiters) <= BATCH_MAX else LOOK_S

    def void(self, owner: str) -> None:
        """Forget what a poll has brought to an owner that takes its attempt back."""
        self._queued.discard(owner)
        self.pushed_grant(owner)

    def close_nowait(self) -> None:
        """End without waiting."""
        self._closing = True
        self._changed.set()
        self._replicas.close_polls()

    async def close(self) -> None:
        """End."""
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
            except BaseException:  # all tasks of the loop were cancelled: this one begins anew
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
        """Who is to be polled for, if anybody is whom no poll names; and the number of the poll."""
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
                "no more. Those who came last lose their places in the queue and ask once in "
                f"{LOOK_S:g} s: connect another client for them"
            )
        return dict(waiting[:BATCH_MAX]), number

    def _is_waiting(self, owner: str, waiter: Waiter) -> bool:
        return waiter.grant is None and owner in self._queued

    async def _poll(self, waiters: dict[str, Waiter], number: int) -> None:
        """Poll once, and hand over what it brings."""
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
        """Hand a lease to its waiter; one that came too late is given back.

        What an attempt got that was taken back since, and is followed by another, is not told.

        An owner that is not known here any more may hold the lock by now: then it stays held.
        """
        owner = waiter.request.owner
        if self._attempts.is_over(owner):
            await self._give_back(waiter.request)
        elif self._waiters.get(owner) is waiter and self._attempts.number(owner) == number:
            waiter.grant = grant
            waiter.signal.set()

    def _poll_again(self) -> None:
        """Have those polled for that still wait."""
        if any(self._is_waiting(owner, waiter) for owner, waiter in snapshot(self._waiters)):
            self._stale = True
            self._changed.set()

    def _poll_anew(self) -> None:
        """Have those polled for that wait, beside the poll that is under way."""
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
    """What a poll brings, and whether a newer one has taken over."""
    granted: list[tuple[Waiter, Grant]] = []
    for lease in answer["granted"]:
        waiter = by_id.get(lease["id"])
        if waiter is not None:
            granted.append((waiter, read_lease(lease, waiter.request, sent_at, now())))
    return granted, answer["superseded"] is True
