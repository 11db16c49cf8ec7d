"""Wakes the waiters of one client: one connection for all of them, blocked in one statement.

MySQL has no notifications. So a client that waits keeps one session that sleeps inside the server,
and owns a *bell*: a lock by ``GET_LOCK`` whose name stands beside its waiters in the queue. Whoever
hands a lock on ends that sleep, with ``KILL QUERY`` for the session that has the bell. An account
may always do that to its own sessions, and it can hit nobody else: who has the bell is asked in the
same statement.

Each sleep begins by looking, in the same statement, for waiters of ours that were called, or whose
lock is free or run out. So a bell that is rung too early is not missed; and where it cannot be rung
(another account, another node of a cluster, a caller that died) the next look is never far.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from ...errors import FencelockError
from ...world import Job, Signal, World, sleep
from .errors import INTERRUPTED
from .handing import BELL, Handing
from .settings import Settings
from .wire.codec import ServerError
from .wire.connection import Link
from .wire.pool import Dial

NAP_S = 0.25  # how long a death, or a bell that could not be rung, can go unnoticed
ALIVE_S = 10.0  # how often the waiters are said to be alive
CLOSE_S = 2.0
SPIN_S = 0.002  # a breath while those who were called do what they have to


class Listener:
    """The ears of one client."""

    def __init__(
        self,
        world: World,
        settings: Settings,
        dial: Dial,
        sql: Handing,
        renounce: Callable[[str], Awaitable[None]],
    ) -> None:
        self._world = world
        self._settings = settings
        self._dial = dial
        self._sql = sql
        self._renounce = renounce
        """Gives back what was handed to an owner that has left."""
        self.inbox = world.owner()[:16]
        self._mutex = world.mutex()
        self._signals: dict[str, Signal] = {}
        self._called: set[str] = set()
        self._new: set[str] = set()
        self._waited_for = world.signal()
        self._job: Job | None = None
        self._link: Link | None = None
        self._alive_at = world.now() + ALIVE_S
        self._all_look = False
        """Whether a waiter of ours was rung in vain: then it was for one that has left, maybe."""
        self._closing = False

    def watch(self, owner: str, signal: Signal) -> None:
        """Set the signal when this owner should look again."""
        self._signals[owner] = signal
        self._new.add(owner)
        with self._mutex:
            if self._job is None:
                self._job = self._world.spawn(self._listen(), "fencelock-listener")
        self._waited_for.set()

    def unwatch(self, owner: str) -> None:
        """This owner waits no more."""
        self._signals.pop(owner, None)
        self._called.discard(owner)
        self._new.discard(owner)

    def call(self, owner: bytes | None) -> bool:
        """Wake a waiter that was handed the lock, if it is ours; say whether there was one."""
        if owner is not None:
            self._wake(owner.decode())
        return owner is not None

    @property
    def has_waiters(self) -> bool:
        """Whether anybody of this client waits."""
        return bool(self._signals)

    def rouse(self, in_vain: bool) -> None:
        """A waiter has to wait on; if it was woken in vain, others of ours may be too late, too."""
        if in_vain:
            self._all_look, self._alive_at = True, 0.0
        self._waited_for.set()

    def was_called(self, owner: str) -> bool:
        """Whether this owner was woken since it last asked."""
        if owner in self._called:
            self._called.discard(owner)
            return True
        return False

    def is_new(self, owner: str) -> bool:
        """Whether this owner watches and has not asked since."""
        if owner in self._new:
            self._new.discard(owner)
            return True
        return False

    def close_nowait(self) -> None:
        """End without waiting."""
        self._closing = True
        self._waited_for.set()

    async def close(self) -> None:
        """End: the session is closed, and its sleep ends by itself within a nap."""
        self.close_nowait()
        if self._job is not None:
            await self._job.join(self._world.now() + CLOSE_S)

    async def _listen(self) -> None:
        while not self._closing:
            if not self._someone_sleeps():
                self._waited_for.clear()
                if not self._someone_sleeps() and not self._closing:
                    await self._world.wait(self._waited_for, None)
                continue
            try:
                await self._hear()
            except (FencelockError, ServerError):  # the waiters meet the same in their own calls
                await sleep(self._world, NAP_S)
                self._wake_all()
        if self._link is not None:
            self._link.close()

    async def _hear(self) -> None:
        """Wake whom the server names, until there is nobody left to wake."""
        link = await self._ready()
        while self._someone_sleeps() and not self._closing:
            if self._world.now() >= self._alive_at:
                await self._say_alive(link)
            try:
                (reply,) = await link.ask(self._nap(), self._settings.request_timeout + NAP_S)
                ((calls, rung),) = reply.rows
            except ServerError as error:
                if error.code not in INTERRUPTED:
                    raise
                calls, rung = None, b"1"
            if calls is not None:
                await self._wake_those(calls.decode().split(","))
            elif rung == b"1" and len(self._signals) == 1:
                self._wake(next(iter(self._signals), ""))  # for whom else would it be

    def _nap(self) -> str:
        """Look and sleep, for all who wait: mostly it is one."""
        owners, self._all_look, all_look = list(self._signals), False, self._all_look
        if len(owners) == 1 and not all_look:
            return self._sql.listen_for(owners[0], NAP_S)
        return self._sql.listen(self.inbox, NAP_S)

    async def _ready(self) -> Link:
        """The session that has the bell."""
        if self._link is None or self._link.has_ended():
            self._link = await self._dial()
            hang = f"SET SESSION group_concat_max_len=1000000;DO GET_LOCK('{BELL}{self.inbox}',0)"
            await self._link.ask(hang, self._settings.request_timeout)
            self._alive_at = 0.0  # while nobody had the bell, our waiters may have been passed over
        return self._link

    async def _say_alive(self, link: Link) -> None:
        """Refresh our places in the queues; if one was lost, all look again."""
        self._alive_at = self._world.now() + ALIVE_S
        owners = list(self._signals)
        (reply,) = await link.ask(
            self._sql.alive(self.inbox, owners), self._settings.request_timeout
        )
        if reply.affected < len(owners):
            self._wake_all()

    async def _wake_those(self, owners: list[str]) -> None:
        again = [owner for owner in owners if owner in self._called]
        strays = [owner for owner in owners if not self._wake(owner)]
        for owner in strays:
            self._all_look = True  # the next may have left, too
            await self._renounce(owner)
        if len(again) + len(strays) == len(owners):
            await sleep(self._world, SPIN_S)

    def _someone_sleeps(self) -> bool:
        """Whether anybody waits that was not called already, and is on its way."""
        return any(owner not in self._called for owner in list(self._signals))

    def _wake_all(self) -> None:
        for owner in list(self._signals):
            self._wake(owner)

    def _wake(self, owner: str) -> bool:
        signal = self._signals.get(owner)
        if signal is not None:
            self._called.add(owner)
            signal.set()
        return signal is not None
