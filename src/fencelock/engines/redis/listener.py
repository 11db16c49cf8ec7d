"""Hears pushes for the waiters of one client, and looks after the names they wait for.

One connection serves all waiters of a client, whatever their number: its inbox. Whoever hands a
lock on publishes the owner that it is handed to. A lock may also come free without a word, when a
lease ends or another program lets go of it: so there is one timer for each name that is waited for,
at the moment at which the present lease would end. The same look says that the waiters are alive.

Written once for both flavors. In asyncio a task listens. In a blocking program the thread that
waits listens by itself, which saves a thread and the way between the two; only while several
threads wait does a thread of ours listen for those that cannot.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable

from ...errors import EngineError, OutcomeUnknown
from ...world import Job, Signal, World, sleep
from .wire import Inbox

ALIVE_S = 10.0  # how often, at least, a name that is waited for is looked after
STAND_BY_S = 0.55  # a moment longer than a lock that was handed on waits to be claimed
GRACE_S = 0.005  # the server removes what has expired a moment later
AGAIN_S = 0.2  # between attempts to reach the server again
GLANCE_S = 0.5  # how long a thread listens before it sees that it need not any more
GRAIN_S = 0.001  # the server counts a wait in whole milliseconds
APART = 0.01  # of a wait: how far our clock and the server's may run apart, as over a lease
NEVER = float("inf")

Settle = Callable[[str], Awaitable[tuple[float, bool]]]


class _Name:
    """A name that is waited for, and when to look after it."""

    __slots__ = ("look_at", "owners")

    def __init__(self) -> None:
        self.look_at = 0.0
        self.owners: dict[str, None] = {}  # in the order in which they came


class _Waiter:
    """An owner that may be called."""

    __slots__ = ("called", "handed", "joined_at", "name", "signal")

    def __init__(self, joined_at: float) -> None:
        self.name: _Name | None = None
        self.joined_at = joined_at
        """When it first asked for a place in the queue."""
        self.signal: Signal | None = None
        """There once it waits."""
        self.called = False
        """It was called before it waits."""
        self.handed = ""
        """If it was told that it holds: the fence, and the milliseconds that it waited."""


class Listener:
    """The ears of one client."""

    def __init__(
        self, world: World, subscribe: Callable[[], Awaitable[Inbox]], settle: Settle
    ) -> None:
        self._world = world
        self._now = world.now
        self._subscribe = subscribe
        self._settle = settle
        self._mutex = world.mutex()
        self._waiters: dict[str, _Waiter] = {}
        self._names: dict[str, _Name] = {}
        self.inbox: Inbox | None = None
        """There while pushes reach us."""
        self._opening = False
        self._opened = world.signal()
        self._job: Job | None = None
        self._next = 0.0
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

    def expect(self, name: str, owner: str, now: float) -> None:
        """This owner is about to queue: remember it if it is called before it waits."""
        if owner in self._waiters:
            return
        waiter = self._waiters[owner] = _Waiter(now)  # first: if we are interrupted, it is undone
        with self._mutex:
            found = self._names.get(name)
            if found is None:
                found = self._names[name] = _Name()
            if not found.owners:
                found.look_at = now + ALIVE_S
            waiter.name = found
            found.owners[owner] = None

    def watch(self, name: str, owner: str, signal: Signal) -> None:
        """Set the signal when this owner should look again."""
        waiter = self._waiters.get(owner)
        if waiter is None:
            self.expect(name, owner, self._now())
            waiter = self._waiters[owner]
        waiter.signal = signal
        if waiter.called:
            waiter.called = False
            signal.set()

    def unwatch(self, owner: str) -> None:
        """This owner waits no more. Its name stays a while: it is often wanted again."""
        waiter = self._waiters.get(owner)
        if waiter is not None:
            if waiter.name is not None:
                waiter.name.owners.pop(owner, None)
            self._waiters.pop(owner, None)

    def leave(self, owner: str) -> None:
        """This owner takes an attempt back. If it waits, it may ask again and must hear of it.

        What it was told of a grant is over then, even where the word is still under way.
        """
        waiter = self._waiters.get(owner)
        if waiter is None or waiter.signal is None:
            self.unwatch(owner)
        else:
            waiter.joined_at = NEVER
            waiter.handed = ""

    def handed(self, owner: str, ttl: float) -> tuple[int, float] | None:
        """The fence that an owner was handed, and since when it holds at the latest; told once.

        Its wait began, for the server, after we had asked for it: so the moment at which we asked
        and the length of the wait, on the server's clock, are never later than the grant, but for
        what the two clocks run apart meanwhile. A wait that is said to be longer than ours was, or
        so long that little of the ttl would be left, tells nothing: the server is asked.
        """
        waiter = self._waiters.get(owner)
        if waiter is None or not waiter.handed:
            return None
        fence, _, waited_ms = waiter.handed.partition(" ")
        waiter.handed = ""
        waited = int(waited_ms) / 1000
        apart = waited * APART
        since = waiter.joined_at + waited - apart - GRAIN_S
        if apart > ttl / 10 or since > self._now():
            return None
        return int(fence), since

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

    def _plan(self) -> None:
        """Find the next moment to look, and forget the names that nobody waits for any more.

        Whoever sets an earlier moment meanwhile nudges; a name that comes is not due before it.
        """
        with self._mutex:
            self._next = self._now() + ALIVE_S
            for name, found in list(self._names.items()):
                if not found.owners:
                    del self._names[name]
                elif found.look_at < self._next:
                    self._next = found.look_at

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

    def _wake_all(self) -> None:
        self._wake(self._waiters)

    def _wake(self, owners: Iterable[str]) -> None:
        for owner in list(owners):
            waiter = self._waiters.get(owner)
            if waiter is not None and waiter.signal is not None:
                waiter.signal.set()
