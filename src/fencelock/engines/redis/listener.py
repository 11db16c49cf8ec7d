"""Hears pushes for the waiters of one client, and looks after the names they wait for.

One connection serves all waiters of a client, whatever their number: its inbox. Whoever hands a
lock on publishes the owner that it is handed to. A lock may also come free without a word, when a
lease ends or another program lets go of it: so there is one timer for each name that is waited for,
at the moment at which the present lease would end. The same look says that the waiters are alive.
Who waits, and for what, is in ``waiters.py``.

A lock that is handed to an owner that has given up is given back at once.

Written once for both flavors. In asyncio a task listens. In a blocking program the thread that
waits listens by itself, which saves a thread and the way between the two; only while several
threads wait, or one could not leave the queue, does a thread of ours do it for those that cannot.
The thread that waits may be interrupted anywhere: whatever it has taken on is marked with a token
of its own and ended in ``finally``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from ...errors import EngineError, OutcomeUnknown, Unavailable
from ...world import Job, Signal, World, sleep
from .waiters import ALIVE_S, NEVER, Waiters
from .wire import Inbox

STAND_BY_S = 0.55  # a moment longer than a lock that was handed on waits to be claimed
GRACE_S = 0.005  # the server removes what has expired a moment later
AGAIN_S = 0.2  # between attempts to reach the server again
GLANCE_S = 0.5  # how long a thread listens before it sees that it need not any more

Settle = Callable[[str], Awaitable[tuple[float, bool]]]
GiveBack = Callable[[str, str, str], Awaitable[None]]


class Listener(Waiters):
    """The ears of one client."""

    def __init__(
        self,
        world: World,
        subscribe: Callable[[], Awaitable[Inbox]],
        settle: Settle,
        give_back: GiveBack,
    ) -> None:
        super().__init__(world)
        self._subscribe = subscribe
        self._settle = settle
        self._give_back = give_back
        self.inbox: Inbox | None = None
        """There while pushes reach us."""
        self._opening: object = None
        """The token of whoever makes the inbox."""
        self._opened = world.signal()
        self._job: Job | None = None
        self._closing = False
        self._apart = world.flavor != "threads"
        """Somebody listens all the time, whoever waits."""
        self._listening: object = None
        """The token of whoever listens at this moment."""
        self._resting: dict[object, None] = {}
        """Threads that wait and leave listening to another, and owners that could not leave."""
        self._owed: dict[str, tuple[str, str]] = {}
        """Owners that were handed a lock after they had left: its key, and the fence."""
        self._change = world.signal()

    @property
    def hears(self) -> bool:
        """Whether pushes reach us at this moment."""
        return self.inbox is not None

    async def open(self) -> None:
        """Have an inbox. Whoever comes first makes it, the others wait for that one."""
        while self.inbox is None and not self._closing:
            token = object()
            try:
                with self._mutex:
                    self._opening = self._opening or token
                if self._opening is not token:
                    if self._now() >= self._world.limit():
                        raise Unavailable("the inbox was not opened in time")
                    await self._world.wait(self._opened, self._now() + AGAIN_S)
                    continue
                self._opened.clear()
                inbox = await self._subscribe()
                inbox.prompt(self._hear)
                self.inbox = inbox
                self._wake_all()  # what was published meanwhile is lost: all look again
            finally:
                if self._opening is token:
                    self._opening = None
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
            return
        token = object()
        try:
            if self._take(token):
                while not signal.is_set() and not self._closing:
                    now = self._now()
                    if now >= deadline:
                        break
                    await self._listen_once(now, min(deadline, now + GLANCE_S))
            else:
                self._resting[token] = None
                self._start()
                self._change.set()
                await self._world.wait(signal, deadline)
        finally:
            try:
                self._leave(token)
            except BaseException:  # interrupted at this very moment: nobody else could listen
                self._leave(token)
                raise

    def _take(self, token: object) -> bool:
        with self._mutex:
            self._listening = self._listening or token
        return self._listening is token

    def _leave(self, token: object) -> None:
        self._resting.pop(token, None)
        if self._listening is token:
            self._listening = None
        if self._resting:
            self._change.set()

    def stay(self, owner: str) -> None:
        """This owner may stand in the queue still: listen until it has left."""
        self._resting[owner] = None
        self._call_thread()

    def gone(self, owner: str) -> None:
        """This owner stands in no queue and holds nothing."""
        self._resting.pop(owner, None)
        self._owed.pop(owner, None)

    def enter(self, owner: str) -> None:
        """This owner took an attempt back and tries again: what it gets now is its own."""
        self.left.pop(owner, None)
        self.gone(owner)

    def _call_thread(self) -> None:
        try:
            self._start()
        except RuntimeError:
            return  # no thread to be had, or the loop is closed: the ttl is the net
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

    def close_nowait(self) -> None:
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
        self.close_nowait()

    async def _listen(self) -> None:
        """Listen all the time, or for as long as threads wait that do not listen themselves."""
        token = object()
        while not self._closing:
            if self._owed:
                await self._pay()
            if self._apart:
                now = self._now()
                await self._listen_once(now, now if self._owed else NEVER)
            elif self._resting and self._take(token):
                await self._listen_for_others(token)
            elif not self._owed:
                await self._world.wait(self._change, None)
                self._change.clear()

    async def _listen_for_others(self, token: object) -> None:
        try:
            while not self._closing:
                now = self._now()
                await self._listen_once(now, now + GLANCE_S)
                if self._owed or not self._resting:
                    break
        finally:
            self._leave(token)

    async def _pay(self) -> None:
        """Give back what came too late, until the server does not answer."""
        for owner, (name, fence) in list(self._owed.items()):
            try:
                await self._give_back(name, owner, fence)
            except (Unavailable, OutcomeUnknown):
                if not self._closing:
                    await sleep(self._world, AGAIN_S)
                return
            except EngineError:
                pass  # the server refuses it, now and later
            self._owed.pop(owner, None)

    async def _listen_once(self, now: float, until: float) -> None:
        """Hear what comes, look at what is due, and mend the inbox if it broke."""
        inbox = self.inbox
        try:
            if inbox is None:
                await self.open()
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
            self._mend(inbox)
            await sleep(self._world, AGAIN_S)
        except BaseException:  # interrupted: what was read and not told is lost, so all look again
            self._mend(inbox)
            self._wake_all()
            raise

    def _mend(self, inbox: Inbox | None) -> None:
        """Let go of an inbox that is broken."""
        if inbox is not None and inbox.broken:
            self.inbox = None
            inbox.close()

    def _hear(self, said: bytes) -> None:
        message = said.decode("utf-8", "replace")
        owner, _, grant = message.partition(" ")
        waiter = self.waiters.get(owner)
        if waiter is not None:
            waiter.handed = grant
            waiter.called = True  # first: it may begin to wait at this very moment
            if waiter.signal is not None:
                waiter.called = False
                waiter.signal.set()
        elif message.startswith("?"):
            self.look_at(message[1:], STAND_BY_S)
        elif (name := self.left.get(owner)) is not None:
            self._owed[owner] = (name, grant.partition(" ")[0])
            self._call_thread()
            if self._apart and self.inbox is not None:
                self.inbox.nudge()

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
