"""Hears pushes for the waiters of one client, and looks after the names they wait for.

One connection serves all waiters of a client, whatever their number: its inbox. Whoever hands a
lock on publishes the owner that it is handed to. A lock may also come free without a word, when a
lease ends or another program lets go of it: so there is one timer for each name that is waited for,
at the moment at which the present lease would end. The same look says that the waiters are alive.
Who waits, and for what, is in ``waiters.py``.

Written once for both flavors. In asyncio a task listens. In a blocking program the thread that
waits listens by itself, which saves a thread and the way between the two; only while several
threads wait does a thread of ours listen for those that cannot.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from ...errors import EngineError, OutcomeUnknown
from ...world import Job, Signal, World, sleep
from .waiters import ALIVE_S, NEVER, Waiters
from .wire import Inbox

STAND_BY_S = 0.55  # a moment longer than a lock that was handed on waits to be claimed
GRACE_S = 0.005  # the server removes what has expired a moment later
AGAIN_S = 0.2  # between attempts to reach the server again
GLANCE_S = 0.5  # how long a thread listens before it sees that it need not any more

Settle = Callable[[str], Awaitable[tuple[float, bool]]]


class Listener(Waiters):
    """The ears of one client."""

    def __init__(
        self, world: World, subscribe: Callable[[], Awaitable[Inbox]], settle: Settle
    ) -> None:
        super().__init__(world)
        self._subscribe = subscribe
        self._settle = settle
        self.inbox: Inbox | None = None
        """There while pushes reach us."""
        self._opening = False
        self._opened = world.signal()
        self._job: Job | None = None
        self._closing = False
        self._apart = world.flavor != "threads"
        """Somebody listens all the time, whoever waits."""
        self._taken = False
        """Somebody listens at this moment."""
        self._resting = 0
        """Threads that wait and leave listening to another."""
        self._change = world.signal()

    @property
    def hears(self) -> bool:
        """Whether pushes reach us at this moment."""
        return self.inbox is not None

    async def open(self) -> None:
        """Have an inbox. Whoever comes first makes it, the others wait for that one."""
        while self.inbox is None and not self._closing:
            with self._mutex:
                first, self._opening = not self._opening, True
            if not first:
                await self._world.wait(self._opened, self._now() + AGAIN_S)
                continue
            self._opened.clear()
            try:
                inbox = await self._subscribe()
                inbox.prompt(self._hear)
                self.inbox = inbox
            finally:
                self._opening = False
                self._opened.set()
        if self._apart:
            self._start()

    def _start(self) -> None:
        with self._mutex:
            if self._job is None and not self._closing:
                self._job = self._world.spawn(self._listen(), "fencelock-listener")

    async def wait(self, signal: Signal, deadline: float) -> None:
        """Wait for a signal, and listen meanwhile if nobody else does."""
        if self._apart:
            await self._world.wait(signal, deadline)
        elif self._take():
            try:
                while not signal.is_set() and not self._closing:
                    now = self._now()
                    if now >= deadline:
                        break
                    await self._listen_once(now, min(deadline, now + GLANCE_S))
            finally:
                self._leave()
        else:
            self._resting += 1
            self._start()
            self._change.set()
            try:
                await self._world.wait(signal, deadline)
            finally:
                self._resting -= 1

    def _take(self) -> bool:
        with self._mutex:
            taken, self._taken = self._taken, True
        return not taken

    def _leave(self) -> None:
        self._taken = False
        if self._resting:
            self._change.set()

    def look_at(self, name: str, look_in: float) -> None:
        """Look after a name so many seconds from now, unless it is done sooner."""
        when = self._now() + min(max(look_in, 0.0) + GRACE_S, ALIVE_S)
        with self._mutex:
            found = self._names.get(name)
            if found is None or when >= found.look_at:
                return
            found.look_at = when
            if when >= self._next:
                return
            self._next = when
        inbox = self.inbox
        if inbox is not None:
            inbox.nudge()

    def abandon(self) -> None:
        """End without waiting."""
        self._closing = True
        self._change.set()
        inbox, self.inbox = self.inbox, None
        if inbox is not None:
            inbox.nudge()
            inbox.close()

    async def close(self) -> None:
        """End."""
        self._closing = True
        self._change.set()
        inbox = self.inbox
        if inbox is not None:
            inbox.nudge()
        if self._job is not None:
            await self._job.join(self._now() + 2.0)
        self.abandon()

    async def _listen(self) -> None:
        """Listen all the time, or for as long as threads wait that do not listen themselves."""
        while not self._closing:
            if self._apart:
                await self._listen_once(self._now(), NEVER)
            elif self._resting and self._take():
                while self._resting and not self._closing:
                    now = self._now()
                    await self._listen_once(now, now + GLANCE_S)
                self._leave()
            else:
                await self._world.wait(self._change, None)
                self._change.clear()

    async def _listen_once(self, now: float, until: float) -> None:
        """Hear what comes, look at what is due, and mend the inbox if it broke."""
        inbox = self.inbox
        try:
            if inbox is None:
                await self.open()
                self._wake_all()  # what was published meanwhile is lost: all look again
                return
            soonest = self._next
            for message in await inbox.receive((soonest if soonest < until else until) - now):
                self._hear(message)
            if self._next <= self._now():
                try:
                    await self._look()
                finally:
                    self._plan()
        except (EngineError, OutcomeUnknown):
            if inbox is not None and inbox.broken:
                self.inbox = None
                inbox.close()
            await sleep(self._world, AGAIN_S)

    def _hear(self, said: bytes) -> None:
        message = said.decode("utf-8", "replace")
        owner, _, grant = message.partition(" ")
        waiter = self._waiters.get(owner)
        if waiter is not None:
            waiter.handed = grant
            waiter.called = True  # first: it may begin to wait at this very moment
            if waiter.signal is not None:
                waiter.called = False
                waiter.signal.set()
        elif message.startswith("?"):
            self.look_at(message[1:], STAND_BY_S)

    async def _look(self) -> None:
        now = self._now()
        with self._mutex:
            due = [(name, found) for name, found in self._names.items() if found.look_at <= now]
        for name, found in due:
            if not found.owners:
                continue
            found.look_at = now + ALIVE_S
            try:
                look_in, known = await self._settle(name)
            except (EngineError, OutcomeUnknown):
                self.look_at(name, AGAIN_S)  # soon: the lock may be free when the server is back
                raise
            self.look_at(name, look_in)
            if not known:  # the queue was lost: all of ours join it again
                self._wake(found.owners)
