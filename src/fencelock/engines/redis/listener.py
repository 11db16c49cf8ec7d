"""Receive pushes for the waiters of one client, and send heartbeats for the locks they wait for.

One subscription serves all waiters of a client, whatever their number: its inbox. The script that
hands a lock on publishes the owner that it is handed to. A lock may also come free without a push,
when a lease ends or another program releases it: so there is one timer for each lock that is waited
for, at the moment at which the present lease would end. Its heartbeat hands on a lock that is free,
and says that the waiters are alive.

A lock that is handed to an owner that has given up is given back at once.

Written once for both flavors. In asyncio a task listens. In a blocking program the thread that
waits listens by itself, which saves a thread and the hop between the two; only while several
threads wait, or one could not leave the queue, does a thread of ours listen for those that cannot.
The thread that waits may be interrupted anywhere: each role that it takes is marked with a token of
its own and given up in ``finally``.
"""

from __future__ import annotations

from ...errors import EngineError, OutcomeUnknown, Unavailable
from ...world import Job, Signal, World, sleep, snapshot
from ..waiters import HEARTBEAT_S, NEVER, Waiters
from .inbox_probe import InboxProbe
from .keys import beside, part_of
from .script_runner import ScriptRunner
from .scripts import script
from .wire.connection import ScriptCall, Subscription

STAND_BY_S = 0.55  # a moment longer than a lock that was handed on waits to be claimed
GRACE_S = 0.005  # the server removes what has expired a moment later
RETRY_S = 0.2  # between attempts to reach the server again
GLANCE_S = 0.5  # how long a thread listens before it checks whether it still has to
LOOK_S = 60.0  # the heartbeats look for all waiters; this is the net under them
HEARTBEAT_MS = HEARTBEAT_S * 1000  # the next heartbeat of a lock is never later
WITHDRAWN_MAX = 5000  # owners that gave up and are kept in case a late push names them


class _Awaited:
    """A lock that is waited for, and when its next heartbeat is due."""

    __slots__ = ("due_at", "owners")

    def __init__(self) -> None:
        self.due_at = 0.0
        self.owners: dict[str, None] = {}  # in the order in which they registered


class Listener:
    """The subscription of one client, and the timers of the locks that it waits for."""

    def __init__(
        self, world: World, runner: ScriptRunner, request_timeout: float, one_server: str
    ) -> None:
        self._world = world
        self._now = world.now
        self._mutex = world.mutex()
        self._runner = runner
        self._request_timeout = request_timeout
        self._one_server = one_server
        self.inbox = world.owner()[:16]
        """The id of this client's channel."""
        self.waiters = Waiters(world.now)
        self._awaited: dict[str, _Awaited] = {}
        """The locks that are waited for, by key."""
        self._next = 0.0
        """When the first of their heartbeats is due."""
        self.withdrawn: dict[str, str] = {}
        """Owners that took their attempts back, with the key of each: the oldest first."""
        self._late: dict[str, tuple[str, str]] = {}
        """Owners that were handed a lock after they had left: its key, and the fence."""
        self.subscription: Subscription | None = None
        """The connection that receives pushes; None without one."""
        self._probe = InboxProbe(world.now, request_timeout)
        self._opening: object = None
        """The token of the caller that subscribes."""
        self._opened = world.signal()
        self._job: Job | None = None
        self._closing = False
        self._has_task = world.flavor != "threads"
        """Whether a task listens all the time, which is so in asyncio."""
        self._listening: object = None
        """The token of the thread that listens at this moment."""
        self._relying: dict[object, None] = {}
        """Tokens of threads that wait while another listens, and owners that could not leave the
        queue."""
        self._change = world.signal()

    # Who waits

    def join(self, key: str, owner: str, now: float) -> None:
        """Register an owner that is about to queue: it may be notified before it waits."""
        if owner in self.waiters.by_owner:
            return
        self.waiters.join(owner, now)  # first: if this is interrupted, the undo finds it
        with self._mutex:
            awaited = self._awaited.get(key)
            if awaited is None:
                awaited = self._awaited[key] = _Awaited()
            if not awaited.owners:
                awaited.due_at = now + HEARTBEAT_S
            awaited.owners[owner] = None

    def watch(self, key: str, owner: str, signal: Signal) -> None:
        """Set the signal when this owner should look again."""
        if owner not in self.waiters.by_owner:
            self.join(key, owner, self._now())
        self.waiters.watch(owner, signal)
        if self._probe.hurry() and self._has_task and self.subscription is not None:
            self.subscription.interrupt()

    def unwatch(self, key: str, owner: str) -> None:
        """Forget an owner that waits no more. The key stays a while: it is often needed again."""
        awaited = self._awaited.get(key)
        if awaited is not None:
            awaited.owners.pop(owner, None)
        self.waiters.unwatch(owner)

    def withdraw(self, key: str, owner: str) -> None:
        """Register an owner that takes an attempt back: a push that hands it the lock is too late.

        Such a push follows a reply that was lost, or a request that was served late.
        """
        self.retract(key, owner)
        with self._mutex:
            if len(self.withdrawn) >= WITHDRAWN_MAX:
                del self.withdrawn[next(iter(self.withdrawn))]
            self.withdrawn[owner] = key

    def retract(self, key: str, owner: str) -> None:
        """Void what this owner was pushed, even where the push is still under way.

        If it waits, it may try again and must be notified of it.
        """
        waiter = self.waiters.by_owner.get(owner)
        if waiter is None or waiter.signal is None:
            self.unwatch(key, owner)
        else:
            self.waiters.retract(owner)

    def listen_for(self, owner: str) -> None:
        """Listen for an owner that may still be in the queue, until it has left."""
        self._relying[owner] = None
        self._call_thread()

    def has_left(self, owner: str) -> None:
        """Forget an owner that is in no queue and holds nothing."""
        self._relying.pop(owner, None)
        self._late.pop(owner, None)

    def reenter(self, owner: str) -> None:
        """Let an owner that took an attempt back try again: a lock that it gets now is its own."""
        self.withdrawn.pop(owner, None)
        self.has_left(owner)

    async def leave_queue(self, key: str, owner: str) -> None:
        """Take an owner out of a queue, unless it waits or holds through another client.

        A waiter for a share needs nothing: it is passed over when it does not claim its share.
        """
        self.retract(key, owner)
        if not part_of(key):
            words = (owner, self.inbox, self._one_server)
            call = ScriptCall(script("leave_queue"), beside(key).declared, words)
            await self._runner.run(call, self._request_timeout)

    # Subscribing, and waiting

    async def open(self) -> None:
        """Subscribe. The first caller does it, the others wait for that one."""
        while self.subscription is None and not self._closing:
            token = object()
            try:
                with self._mutex:
                    self._opening = self._opening or token
                if self._opening is not token:
                    if self._now() >= self._world.limit():
                        raise Unavailable("the inbox was not opened in time")
                    await self._world.wait(self._opened, self._now() + RETRY_S)
                    continue
                self._opened.clear()
                subscription = await self._subscribe()
                subscription.on_message(self._received)
                self._probe.begin()
                self.subscription = subscription
                self.waiters.wake_all()  # what was published meanwhile is lost: all look again
            finally:
                if self._opening is token:
                    self._opening = None
                    self._opened.set()
        if self._has_task:
            self._start()

    async def _subscribe(self) -> Subscription:
        node = await self._runner.topology.find("")
        try:
            return await self._runner.pool.subscribe(node, f"fencelock:inbox:{self.inbox}")
        except Unavailable:
            self._runner.topology.forget(node)
            raise

    async def wait(self, signal: Signal, deadline: float) -> None:
        """Wait for a signal, and listen meanwhile if no other thread does."""
        if self._has_task:
            await self._world.wait(signal, deadline)
            return
        token = object()
        try:
            with self._mutex:
                self._listening = self._listening or token
            if self._listening is token:
                while not signal.is_set() and not self._closing:
                    now = self._now()
                    if now >= deadline:
                        break
                    await self._listen_once(now, min(deadline, now + GLANCE_S))
            else:
                self._relying[token] = None
                self._start()
                self._change.set()
                await self._world.wait(signal, deadline)
        finally:
            if self._listening is token:  # before any call, in which a signal handler may raise
                self._listening = None
            if self._relying:
                try:
                    self._let_go(token)
                except BaseException:  # interrupted at this very moment
                    self._let_go(token)
                    raise

    def _take_over(self, token: object) -> bool:
        with self._mutex:
            self._listening = self._listening or token
        return self._listening is token

    def _let_go(self, token: object) -> None:
        self._relying.pop(token, None)
        if self._listening is token:
            self._listening = None
        if self._relying:
            self._change.set()

    def _call_thread(self) -> None:
        try:
            self._start()
        except RuntimeError:
            return  # no thread can be started, or the loop is closed: the ttl is the net
        self._change.set()

    def _start(self) -> None:
        with self._mutex:
            if self._job is None and not self._closing:
                self._job = self._world.keep(self._listen, "fencelock-listener")

    def close_nowait(self) -> None:
        """End without waiting."""
        self._closing = True
        self._change.set()
        subscription, self.subscription = self.subscription, None
        if subscription is not None:
            subscription.interrupt()
            subscription.close()

    async def close(self) -> None:
        """End."""
        self._closing = True
        self._change.set()
        if self.subscription is not None:
            self.subscription.interrupt()
        if self._job is not None:
            await self._job.join(self._now() + 2.0)
        self.close_nowait()

    # Listening

    async def _listen(self) -> None:
        """Listen all the time, or while threads wait that do not listen themselves."""
        token = object()
        while not self._closing:
            if self._late:
                await self._give_back_late()
            if self._has_task:
                now = self._now()
                await self._listen_once(now, now if self._late else NEVER)
            elif self._relying and self._take_over(token):
                await self._listen_for_others(token)
            elif not self._late:
                await self._world.wait(self._change, None)
                self._change.clear()

    async def _listen_for_others(self, token: object) -> None:
        try:
            while not self._closing:
                now = self._now()
                await self._listen_once(now, now + GLANCE_S)
                if self._late or not self._relying:
                    break
        finally:
            self._let_go(token)

    async def _listen_once(self, now: float, until: float) -> None:
        """Receive messages, send the heartbeats that are due, and drop a broken subscription."""
        subscription = self.subscription
        try:
            if subscription is None:
                await self.open()
                return
            soonest = self._next
            if self.waiters.by_owner:
                soonest = min(soonest, self._probe.ping_if_due(subscription, now))
            for message in await subscription.receive(
                (soonest if soonest < until else until) - now
            ):
                self._received(message)
            if subscription.unanswered and await self._probe.leads_nowhere(self._ask_server):
                subscription.broken = "it did not answer"
                self.waiters.wake_all()  # at once: it may take a while to subscribe
                raise Unavailable("the inbox did not answer")
            if self._next <= self._now():
                try:
                    await self._send_heartbeats()
                finally:
                    self._plan()
        except (EngineError, OutcomeUnknown):
            self._drop_broken(subscription)
            await sleep(self._world, RETRY_S)
        except BaseException:  # interrupted: messages may be read and lost, so all look again
            self._drop_broken(subscription)
            self.waiters.wake_all()
            raise

    async def _ask_server(self) -> None:
        await self._runner.command("PING")

    def _drop_broken(self, subscription: Subscription | None) -> None:
        if subscription is not None and subscription.broken:
            self.subscription = None
            subscription.close()

    def _received(self, data: bytes) -> None:
        """Wake the waiters that a push is for.

        It is ``<owner> <fence> <ms waited>``, ``<owner>``, ``?<key>``, or ``!<key>`` of observers.
        """
        message = data.decode("utf-8", "replace")
        owner, _, grant = message.partition(" ")
        if owner in self.waiters.by_owner and self.waiters.notify(owner, _grant(grant)):
            return
        if message.startswith("?"):
            self.look_at(message[1:], STAND_BY_S)
        elif message.startswith("!"):
            if (awaited := self._awaited.get(message[1:])) is not None:
                self.waiters.wake_all(awaited.owners)
        elif (key := self.withdrawn.get(owner)) is not None:
            self._late[owner] = (key, grant.partition(" ")[0])
            self._call_thread()
            if self._has_task and self.subscription is not None:
                self.subscription.interrupt()

    async def _give_back_late(self) -> None:
        """Give back the locks that were handed over too late, until the server does not answer."""
        for owner, (key, fence) in snapshot(self._late):
            call = ScriptCall(
                script("give_back"), beside(key).declared, (owner, fence, self._one_server)
            )
            if part_of(key):
                words = (owner, self._one_server, "notified")
                call = ScriptCall(script("share_release"), (key,), words)
            try:
                await self._runner.run(call, self._request_timeout)
            except (Unavailable, OutcomeUnknown):
                if not self._closing:
                    await sleep(self._world, RETRY_S)
                return
            except EngineError:
                pass  # the server refuses it, and would again
            self._late.pop(owner, None)

    # Heartbeats

    def look_at(self, key: str, seconds: float) -> None:
        """Send the next heartbeat of a lock in so many seconds, unless one is due sooner."""
        when = self._now() + min(max(seconds, 0.0) + GRACE_S, HEARTBEAT_S)
        with self._mutex:
            awaited = self._awaited.get(key)
            if awaited is None or when >= awaited.due_at:
                return
            awaited.due_at = when
            if when >= self._next:
                return
            self._next = when
        if (subscription := self.subscription) is not None:
            subscription.interrupt()

    def _plan(self) -> None:
        """Find the next heartbeat, and forget the locks that nobody waits for any more.

        A call that sets an earlier moment meanwhile interrupts the wait; a lock that is added has
        no earlier one.
        """
        with self._mutex:
            self._next = self._now() + HEARTBEAT_S
            for key, awaited in snapshot(self._awaited):
                if not awaited.owners:
                    del self._awaited[key]
                elif awaited.due_at < self._next:
                    self._next = awaited.due_at

    async def _send_heartbeats(self) -> None:
        now = self._now()
        with self._mutex:
            due = [
                (key, awaited) for key, awaited in self._awaited.items() if awaited.due_at <= now
            ]
        for key, awaited in due:
            if not awaited.owners:
                continue
            awaited.due_at = now + HEARTBEAT_S
            try:
                look_in, known = await self.heartbeat(key)
            except (EngineError, OutcomeUnknown):
                self.look_at(key, RETRY_S)  # soon: the lock may be free when the server is back
                raise
            self.look_at(key, look_in)
            if not known:  # the server lost the queue: all our waiters join it again
                self.waiters.wake_all(awaited.owners)

    async def heartbeat(self, key: str) -> tuple[float, bool]:
        """Tell the server that our waiters are alive; return the seconds until the next heartbeat,
        and whether the server knew of them."""
        words, part = (self.inbox, self._one_server), part_of(key)
        call = ScriptCall(script("heartbeat"), beside(key).declared, words)
        if part:
            name = "observe" if part == "observers" else "share_heartbeat"
            call = ScriptCall(script(name), (key,), words)
        look_ms, known = await self._runner.run(call, self._request_timeout)
        return look_ms / 1000, known == 1


def _grant(text: str) -> tuple[int, float] | None:
    """Read the fence and the wait from a push; None if the owner has to claim the lock."""
    fence, _, waited_ms = text.partition(" ")
    try:
        return int(fence), max(0, int(waited_ms)) / 1000  # it waited, even if the clock ran back
    except ValueError:
        return None
