"""``mode=advisory``: ``GET_LOCK`` on a session, shared with everybody who uses it.

The server keeps a lock for a session, and gives it a second time to the same session. So who of
this client holds a name, and who waits for it, is decided here first; one of them asks the server.
The server's own queue does the waiting: a waiter blocks there for a moment by itself, since most
turns are short, and after that a session waits in the background for all who want the name
(``lines.py``).

The fence comes with the lock in the same packet, from a sequence (MariaDB) or a counter in the
server's memory (MySQL), which each new session lifts above the clock and above a lasting mark. The
end of a lease is seen to on both sides: here by a sentinel that gives back what has run out, and by
the server, which ends a session that is silent for longer than its locks may last.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Sequence

from ...errors import FencelockError, Unavailable, Unsupported
from ...model import Busy, Gone, Grant, Holding, Request, State, Traits, granted
from ...world import Job, Signal, World, sleep
from .codec import Reply
from .holders import SHOW_S, Holders, badge, literal
from .lines import Line, Lines
from .link import Link
from .mode import Mode
from .names import lock_name
from .pool import Pool
from .server import Server
from .sessions import Hold, Session, Sessions, idle_limit
from .settings import Settings
from .statements import NOW
from .wire import Wire

MOMENT_S = 0.03  # how long a waiter blocks by itself, where the server takes fractions of seconds
BLOCK_S = 5  # how long one statement waits in the server's queue
FREE_S = 0.0005  # who gets a lock so soon has not waited for anybody
LOOK_S = 5.0
POLL_S = 0.05  # where more names are waited for than sessions may wait
CLAIM_S = 0.5  # how long a lock waits for the waiter that it was got for
CLOSE_S = 2.0
NEVER = float("inf")


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
            return wire.dial(settings)

        self._pool = Pool(world, dial, settings, 2)
        self._holders = Holders(world, self._pool, settings.table)
        self._sessions = Sessions(world, settings, wire, self._ended)
        self._lines = Lines(world, self._pool, self._fetch)
        self._holds: dict[str, Hold] = {}
        self._asking: set[str] = set()
        self._contended: set[str] = set()
        self._mutex = world.mutex()
        self._wake = world.signal()
        self._next = NEVER
        self._sentinel: Job | None = None
        self._closing = False
        self._moment = MOMENT_S

    def traits(self, server: Server) -> Traits:
        if not server.is_cluster:
            return self.promises
        return self.promises._replace(
            safety="efficiency",
            advice="use mode=lease: each node of this cluster has GET_LOCK locks of its own",
        )

    async def open(self, server: Server) -> None:
        """Say how a lock and its fence are got, and how each session begins.

        It begins by lifting fences above the clock and above the lasting mark, which is then
        committed: that puts on disk what a sequence has only promised to.
        """
        prefix, mark = self.settings.table, f"{self.settings.table}_fence"
        if server.is_mariadb:
            self._grab_sql = f"SELECT IF(GET_LOCK(%s,%s)=1,NEXTVAL({prefix}_sequence),0)"
            drawn = "0"
            lift = (  # SETVAL takes nothing but a number, and never goes back
                f"SET @mark=(SELECT GREATEST(fence,{NOW}) FROM {mark} WHERE id=1);"
                f"EXECUTE IMMEDIATE CONCAT('DO SETVAL({prefix}_sequence,',@mark,')')"
            )
        else:
            self._moment = 0  # MySQL has no fractions of seconds here
            self._grab_sql = (
                f"SELECT GET_LOCK(%s,%s);UPDATE {prefix}_fences"
                f" SET fence=LAST_INSERT_ID(GREATEST(fence+1,{NOW}))"
            )
            drawn = f"COALESCE((SELECT MAX(fence) FROM {prefix}_fences),0)"
            lift = (
                f"INSERT IGNORE INTO {prefix}_fences SELECT 1,GREATEST(fence,{NOW}) FROM {mark}"
                " WHERE id=1"
            )
        self._sessions.greeting = (
            f"{lift};UPDATE {mark} SET fence=GREATEST(fence,{NOW},{drawn}) WHERE id=1;"
            f"DO GET_LOCK({badge('CONNECTION_ID()')},0)"
        )

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
                await self._free(hold)
        if not request.queue:
            if request.waits and lock in self._contended:
                return Busy(LOOK_S)  # it asks again at once, to stand in line
            return await self._try(request, lock, 0) or await self._refuse(request, lock)
        if not self._lines.is_first(lock, request):
            return self._busy(request, lock, "")
        grant = await self._try(request, lock, self._moment)
        if grant is not None:
            return grant
        waits = self._lines.send(lock, len(self._lines) < self.settings.pool)
        return self._busy(request, lock, "", LOOK_S if waits else POLL_S)

    def _busy(self, request: Request, lock: str, meta: str, look_in: float = 0.0) -> Busy:
        position = self._lines.stand(lock, request) if request.queue else None
        return Busy(look_in or LOOK_S, position, request.queue, meta)

    async def _refuse(self, request: Request, lock: str) -> Busy:
        if request.waits:
            if len(self._contended) >= 1000:
                self._contended.clear()
            self._contended.add(lock)
            return Busy(LOOK_S)
        return Busy(POLL_S)

    async def _try(self, request: Request, lock: str, wait: float) -> Grant | None:
        """Ask the server, unless another of this client is asking for the same lock just now."""
        with self._mutex:
            if lock in self._asking or lock in self._holds:
                return None
            self._asking.add(lock)
        # To the end even if the caller is cancelled: what the server gave must not be forgotten.
        return await self.world.shield(self._grab(request, lock, wait))

    async def _grab(self, request: Request, lock: str, wait: float) -> Grant | None:
        try:
            limit = idle_limit(request.ttl)
            session = await self._sessions.lend(limit)
            now = self.world.now()
            try:
                sql = self._grab_sql % (literal(lock), wait)
                fence = self._fence(session, await self._sessions.ask(session, sql, limit, wait))
                if not fence:
                    return None
                self._note(session, request, lock, fence, now, now + request.ttl)
            finally:
                self._sessions.give_back(session)
        finally:
            self._asking.discard(lock)
        self._lines.leave(lock, request.owner)
        if wait and self.world.now() - now < FREE_S:
            self._contended.discard(lock)
        return granted(request.name, request.owner, fence, request.ttl, now)

    def _fence(self, session: Session, replies: list[Reply]) -> int:
        """The fence, or 0 when the lock was not given."""
        if len(replies) == 1:
            return int(replies[0].rows[0][0] or 0)
        if replies[0].rows != [(b"1",)]:
            return 0
        if not replies[1].insert_id:  # somebody has emptied the table: end the lock, begin anew
            self._sessions.drop(session)
            raise Unavailable("the counter of fences had lost its row; nothing is held. Try again")
        return replies[1].insert_id

    def _note(
        self, session: Session, request: Request, lock: str, fence: int, now: float, until: float
    ) -> None:
        hold = Hold(session, request.name, lock, request.owner, fence)
        hold.ttl, hold.meta, hold.since, hold.until = request.ttl, request.meta, now, until
        self._holds[lock] = session.holds[lock] = hold
        self._look_after(min(now + SHOW_S, until))

    async def _claim(self, hold: Hold, request: Request) -> Grant | None:
        """Have a hold of ours confirmed: asked again, or got for us by the line."""
        now, limit = self.world.now(), idle_limit(request.ttl)
        if not await self._sessions.enter(hold.session, self.settings.patience):
            self._forget(hold)
            return None
        try:
            if self._holds.get(hold.lock) is not hold:
                return None
            check = f"SELECT IS_USED_LOCK({literal(hold.lock)})=CONNECTION_ID()"
            replies = await self._sessions.ask(hold.session, check, max(limit, hold.session.limit))
            if replies[-1].rows != [(b"1",)]:
                self._forget(hold)
                return None
            hold.until = now + request.ttl
        finally:
            self._sessions.give_back(hold.session)
        self._lines.leave(hold.lock, request.owner)
        return granted(request.name, request.owner, hold.fence, request.ttl, now)

    async def _fetch(self, lock: str, line: Line) -> bool:
        """Wait in the server's queue for whoever is first in a line here, and hand it over."""
        request = line.first()
        if request is None or lock in self._holds:
            return False
        limit = idle_limit(request.ttl)
        with self._mutex:
            asked = lock in self._asking
            self._asking.add(lock)
        if asked:  # one of this client tries without waiting: it is done in a moment
            await sleep(self.world, MOMENT_S)
            return True
        try:
            session = await self._sessions.lend(limit, spare=True)
            line.session = session.number
            try:
                sql = self._grab_sql % (literal(lock), BLOCK_S)
                fence = self._fence(session, await self._sessions.ask(session, sql, limit, BLOCK_S))
                if fence:
                    await self._hand_over(session, lock, line, fence)
                return not fence
            finally:
                await line.quiet()
                self._sessions.give_back(session)
        finally:
            self._asking.discard(lock)

    async def _hand_over(self, session: Session, lock: str, line: Line, fence: int) -> None:
        request, now = line.first(), self.world.now()
        if request is None:  # all have left
            await self._sessions.ask(session, f"DO RELEASE_LOCK({literal(lock)})")
            return
        self._note(session, request, lock, fence, now, now + CLAIM_S)
        self._lines.call(request.owner)

    # Keeping

    async def renew(self, grants: Sequence[Grant]) -> list[Grant | Gone]:
        batches: dict[Session, list[tuple[Hold, Grant]]] = {}
        for grant in grants:
            hold = self._hold_of(grant.name, grant.owner)
            if hold is not None:
                batches.setdefault(hold.session, []).append((hold, grant))
        answers: dict[str, Grant] = {}
        if len(batches) == 1:
            for session, batch in batches.items():
                answers = await self._extend(session, batch)
        elif batches:
            now = self.world.now()
            for found in await self.world.gather(
                [lambda s=s, b=b: self._extend(s, b) for s, b in batches.items()],  # type: ignore[misc]
                now + min(grant.ttl for grant in grants) / 4,
            ):
                if isinstance(found, dict):
                    answers.update(found)
        shown = [h for h in self._holds.values() if h.shown and h.owner in answers]
        if shown:
            await self._holders.show(shown)
        return [self._answer(grant, answers.get(grant.owner)) for grant in grants]

    def _answer(self, grant: Grant, renewed: Grant | None) -> Grant | Gone:
        if renewed is not None:
            return renewed
        if self._hold_of(grant.name, grant.owner) is not None:
            return grant  # its session has not answered yet: the end stays where it was
        return Gone("session", "the session that carried it has ended, or gave it back")

    async def _extend(
        self, session: Session, batch: Sequence[tuple[Hold, Grant]]
    ) -> dict[str, Grant]:
        """Show the server that a session lives, and see that it still has its locks."""
        limit = max(session.limit, *(idle_limit(grant.ttl) for _, grant in batch))
        if not await self._sessions.enter(session, self.settings.patience):
            return {}
        try:
            now = self.world.now()
            locks = ",".join(f"IS_USED_LOCK({literal(hold.lock)})" for hold, _ in batch)
            replies = await self._sessions.ask(session, f"SELECT {locks}", limit)
        except FencelockError:
            if session.link.is_over:
                return {}
            raise
        finally:
            self._sessions.give_back(session)
        answers: dict[str, Grant] = {}
        for (hold, grant), used in zip(batch, replies[-1].rows[0], strict=True):
            if used is None or int(used) != session.number:
                self._forget(hold)
            elif self._holds.get(hold.lock) is hold:
                hold.ttl, hold.until = grant.ttl, now + grant.ttl
                answers[grant.owner] = granted(grant.name, grant.owner, grant.fence, grant.ttl, now)
        return answers

    # Giving back

    async def release(self, grant: Grant) -> bool:
        hold = self._hold_of(grant.name, grant.owner)
        return hold is not None and await self._free(hold)

    async def withdraw(self, request: Request) -> None:
        lock = lock_name(request.name)
        await self._lines.withdraw(lock, request.owner)
        hold = self._hold_of(request.name, request.owner)
        if hold is not None:
            await self._free(hold)

    def _hold_of(self, name: str, owner: str) -> Hold | None:
        hold = self._holds.get(lock_name(name))
        if hold is None or hold.owner != owner:
            return None
        if hold.session.link.is_over:
            self._forget(hold)
            return None
        return hold

    async def _free(self, hold: Hold) -> bool:
        """Give a lock back; False when its session had lost it."""
        if not await self._sessions.enter(hold.session, self.settings.patience):
            self._forget(hold)
            return False
        try:
            if self._holds.get(hold.lock) is not hold:
                return False
            in_time = hold.until > self.world.now()
            farewell = self._holders.farewell(hold)
            sql = f"{farewell}DO RELEASE_LOCK({literal(hold.lock)})"
            await self._sessions.ask(hold.session, sql)  # it lives, and so did the lock
            self._forget(hold)
            return in_time
        finally:
            if hold.session.link.is_over:
                self._forget(hold)
            self._sessions.give_back(hold.session)

    def _ended(self, session: Session) -> None:
        """A session is over, and so are its locks: tell who held them."""
        holds = list(session.holds.values())
        for hold in holds:
            self._forget(hold)
        if holds and not self._closing:
            owners = {hold.owner for hold in holds}
            self.tell(owners, Gone("session", "the session that carried it has ended"))

    def _forget(self, hold: Hold) -> None:
        hold.over = True
        hold.session.holds.pop(hold.lock, None)
        if self._holds.get(hold.lock) is hold:
            del self._holds[hold.lock]
        self._lines.call_first(hold.lock)

    # Watching

    async def watch(self, request: Request, signal: Signal) -> None:
        self._lines.watch(lock_name(request.name), request, signal)

    async def unwatch(self, request: Request) -> None:
        self._lines.unwatch(request.owner)

    def _look_after(self, at: float) -> None:
        with self._mutex:
            if self._sentinel is None and not self._closing:
                self._sentinel = self.world.spawn(self._watch_over(), "fencelock-sentinel")
        if at < self._next:
            self._wake.set()

    async def _watch_over(self) -> None:
        """Give back what has run out, and write about what lasts."""
        while not self._closing:
            now = self.world.now()
            holds = list(self._holds.values())
            for hold in holds:
                if hold.until <= now:
                    try:
                        await self._free(hold)
                    except FencelockError:
                        pass  # its session is over, and the lock with it; else there is a next time
            lasting = [h for h in holds if not h.shown and now - h.since >= SHOW_S]
            lasting = [h for h in lasting if self._holds.get(h.lock) is h and h.until > now]
            if lasting:
                await self._holders.show(lasting)
            self._next = min(
                (h.until if h.shown else min(h.until, h.since + SHOW_S) for h in holds),
                default=NEVER,
            )
            if self._next <= now:
                self._next = now + SHOW_S / 10
            await self.world.wait(self._wake, None if self._next == NEVER else self._next)
            self._wake.clear()

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
        self.abandon()
        await self._lines.close(self.world.now() + CLOSE_S)
        if self._sentinel is not None:
            await self._sentinel.join(self.world.now() + CLOSE_S)
        self._sessions.close()
        self._pool.close()

    def abandon(self) -> None:
        self._closing = True
        self._wake.set()
        self._lines.abandon()
        self._sessions.abandon()
