"""``mode=advisory``: ``GET_LOCK`` on a session, shared with everybody who uses it.

The server keeps a lock for a session, and gives it a second time to the same session. So who of
this client holds a name, and who waits for it, is decided here first; one of them asks the server.
The server's own queue does the waiting: a waiter blocks there for a moment by itself, since most
turns are short, and after that a session waits in the background for all who want the name
(``lines.py``). What is held is in ``holds.py``, and how it is got from either server in
``getlock.py``.

The fence comes with the lock in the same packet, from a sequence (MariaDB) or a counter in the
server's memory (MySQL), which each new session lifts above the clock and above a lasting mark. The
end of a lease is seen to on both sides: here by a sentinel that gives back what has run out, and by
the server, which ends a session that is silent for longer than its locks may last.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Sequence

from ...errors import Unsupported
from ...model import Busy, Gone, Grant, Holding, Request, State, Traits, granted
from ...world import Signal, World, sleep
from .get_lock import GetLock
from .held_locks import Holds
from .holder_table import Holders
from .lock_requests import Asks
from .mode import Mode
from .names import lock_name
from .server import Server
from .settings import Settings
from .wait_queues import Line, Lines
from .wire.connection import Link, Wire
from .wire.pool import Pool
from .wire.session_pool import Hold, Session, Sessions, idle_limit

MOMENT_S = 0.03  # how long a waiter blocks by itself
BLOCK_S = 5  # how long one statement waits in the server's queue
FREE_S = 0.0005  # who gets a lock so soon has not waited for anybody
LOOK_S = 5.0
POLL_S = 0.05  # where more names are waited for than sessions may wait
CLAIM_S = 0.5  # how long a lock waits for the waiter that it was got for
CLOSE_S = 2.0
CONTENDED_MAX = 1000


class AdvisoryMode(Mode):
    """Locks of sessions."""

    promises = Traits(
        safety="correctness",
        scope="network",
        fence=True,
        fifo=False,
        push=True,
        durable=False,
        revoke=False,
        scan=False,
    )

    def __init__(self, world: World, settings: Settings, wire: Wire) -> None:
        super().__init__(world, settings, wire)

        def dial() -> Awaitable[Link]:
            return wire.dial(world, settings)

        self._pool = Pool(world, dial, settings, 1)
        self._holders = Holders(world, self._pool, settings.table)
        self._sessions = Sessions(world, settings, wire, self._ended)
        self._lines = Lines(world, self._pool, self._fetch)
        self._holds = Holds(world, settings, self._sessions, self._holders, self._lines.call_first)
        self._asks = Asks(world, self._sessions, self._holds)
        self._contended: set[str] = set()
        self._closing = False

    def traits(self, server: Server) -> Traits:
        if not server.is_cluster:
            return self.promises
        return self.promises._replace(
            safety="efficiency",
            advice="use mode=lease: each node of this cluster has GET_LOCK locks of its own",
        )

    async def open(self, server: Server) -> None:
        words = GetLock(server, self.settings.table)
        self._asks.get_lock, self._sessions.greeting = words, words.greeting

    # Taking

    async def acquire(self, request: Request) -> Grant | Busy:
        lock = lock_name(request.name)
        if request.queue:  # before looking: who gives the lock back calls whom it finds in line
            self._lines.stand(lock, request)
        hold = self._holds.get(lock)
        if hold is not None:
            if hold.owner == request.owner:
                if (grant := await self._claim(hold, request)) is not None:
                    return grant
            elif not hold.session.link.is_over and hold.until > self.world.now():
                return self._busy(request, lock, hold.meta)
            else:
                await self._holds.free(hold)
        if request.queue:
            return await self._wait_in_line(request, lock)
        wait = MOMENT_S if request.waits and lock in self._contended else 0.0
        if wait and self._lines.has(lock):
            return Busy(LOOK_S)  # it asks again at once, to stand in line
        grant = await self._asks.take(request, lock, wait)
        if grant is None:
            return self._refuse(request, lock)
        if wait:
            self._judge(lock, grant)
        return grant

    async def _wait_in_line(self, request: Request, lock: str) -> Grant | Busy:
        """Whoever is first waits in the server's queue for a moment, then a session does."""
        if not self._lines.is_first(lock, request):
            return self._busy(request, lock, "")
        grant = await self._asks.take(request, lock, MOMENT_S)
        if grant is not None:
            self._lines.leave(lock, request.owner)
            self._judge(lock, grant)
            return grant
        waits = self._lines.send(lock, len(self._lines) < self.settings.pool)
        return self._busy(request, lock, "", LOOK_S if waits else POLL_S)

    def _judge(self, lock: str, grant: Grant) -> None:
        """Who has not waited for anybody need not be ready to wait the next time."""
        if self.world.now() - grant.asked_at < FREE_S:
            self._contended.discard(lock)

    def _busy(self, request: Request, lock: str, meta: str, look_in: float = 0.0) -> Busy:
        position = self._lines.stand(lock, request) if request.queue else None
        return Busy(look_in or LOOK_S, position, request.queue, meta)

    def _refuse(self, request: Request, lock: str) -> Busy:
        if not request.waits:
            return Busy(POLL_S)
        if len(self._contended) >= CONTENDED_MAX:
            self._contended.clear()
        self._contended.add(lock)
        return Busy(LOOK_S)

    async def _claim(self, hold: Hold, request: Request) -> Grant | None:
        """Have a hold of ours confirmed: asked again, or got for us by the line."""
        now = await self._holds.confirm(hold, request.ttl)
        if now is None:
            return None
        self._lines.leave(hold.lock, request.owner)
        return granted(request.name, request.owner, hold.fence, request.ttl, now)

    async def _fetch(self, lock: str, line: Line) -> bool:
        """Wait in the server's queue for whoever is first in a line here, and hand it over."""
        request = line.first()
        if request is None or lock in self._holds:
            return False
        limit = idle_limit(request.ttl)
        ask = self._asks.begin(lock, request._replace(owner=""))  # for whoever is first then
        if ask is None:
            # One of this client asks without waiting, or waits for a moment only.
            await sleep(self.world, MOMENT_S)
            return True
        try:
            lent = await self._sessions.lend(limit, spare=True)
            line.session = lent.session.number
            try:
                fence = await self._asks.ask(lent.session, lock, limit, BLOCK_S)
                if fence:
                    await self._hand_over(lent.session, lock, line, fence)
                return not fence
            finally:
                await line.quiet()
                self._sessions.give_back(lent)
        finally:
            self._asks.end(lock)
            ask.done.set()

    async def _hand_over(self, session: Session, lock: str, line: Line, fence: int) -> None:
        request, now = line.first(), self.world.now()
        if request is None:  # all have left
            await self._asks.let_go(session, [lock])
            return
        self._holds.note(session, request, lock, fence, now, now + CLAIM_S)
        self._lines.call(request.owner)

    # Keeping

    async def renew(self, grants: Sequence[Grant]) -> list[Grant | Gone]:
        batches: dict[Session, list[tuple[Hold, Grant]]] = {}
        for grant in grants:
            hold = self._holds.of(grant.name, grant.owner)
            if hold is not None:
                batches.setdefault(hold.session, []).append((hold, grant))
        answers: dict[str, Grant] = {}
        if len(batches) == 1:
            for session, batch in batches.items():
                answers = await self._holds.extend(session, batch)
        elif batches:
            now = self.world.now()
            for found in await self.world.gather(
                [lambda s=s, b=b: self._holds.extend(s, b) for s, b in batches.items()],  # type: ignore[misc]
                now + min(grant.ttl for grant in grants) / 4,
            ):
                if isinstance(found, dict):
                    answers.update(found)
        await self._holds.show(answers)
        return [self._answer(grant, answers.get(grant.owner)) for grant in grants]

    def _answer(self, grant: Grant, renewed: Grant | None) -> Grant | Gone:
        if renewed is not None:
            return renewed
        if self._holds.of(grant.name, grant.owner) is not None:
            return grant  # its session has not answered yet: the end stays where it was
        return Gone("session", "the session that carried it has ended, or gave it back")

    # Giving back

    async def release(self, grant: Grant) -> bool:
        if (hold := self._holds.of(grant.name, grant.owner)) is not None:
            return await self._holds.free(hold)
        if self._sessions.doubts:
            await self._pool.settle(self._sessions.doubts)
        return False

    async def withdraw(self, request: Request) -> None:
        lock = lock_name(request.name)
        await self._asks.settled(lock, request.owner)
        await self._lines.withdraw(lock, request.owner)
        hold = self._holds.of(request.name, request.owner)
        if hold is not None:
            await self._holds.free(hold)
        elif self._sessions.doubts:
            await self._pool.settle(self._sessions.doubts)

    def _ended(self, session: Session) -> None:
        """A session is over, and so are its locks: tell who held them."""
        holds = list(session.holds.values())
        for hold in holds:
            self._holds.forget(hold)
        if holds and not self._closing:
            owners = {hold.owner for hold in holds}
            self.tell(owners, Gone("session", "the session that carried it has ended"))

    # Watching

    async def watch(self, request: Request, signal: Signal) -> None:
        self._lines.watch(lock_name(request.name), request, signal)

    async def unwatch(self, request: Request) -> None:
        self._lines.unwatch(request.owner)

    # Looking

    async def inspect(self, name: str) -> State:
        hold = self._holds.get(lock_name(name))
        now = self.world.now()
        if hold is not None and not hold.session.link.is_over and hold.until > now:
            age, left = now - hold.since, hold.until - now
            meta = json.loads(hold.meta)
            return State(name, (Holding(name, hold.fence, hold.ttl, age, left, meta),))
        holding = await self._holders.holding(name)
        return State(name, () if holding is None else (holding,))

    async def scan(self, prefix: str) -> list[Holding]:
        raise Unsupported(
            "mode=advisory cannot list locks: ask for one name with holders(), or use mode=lease"
        )

    # The end

    async def close(self) -> None:
        self._closing = True
        self._holds.sentinel.close_nowait()
        await self._lines.close(self.world.now() + CLOSE_S)
        await self._holds.sentinel.close(self.world.now() + CLOSE_S)
        self.close_nowait()

    def close_nowait(self) -> None:
        self._closing = True
        self._holds.sentinel.close_nowait()
        self._lines.close_nowait()
        self._sessions.close()
        self._pool.close()
