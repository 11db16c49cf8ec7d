"""Semaphores and read/write locks in ``mode=lease``: names that several hold.

The recipe is that of ``memory.py``. Each kind and name has a row with the units that are free; who
holds some of them has a row with an end, on the server's clock. Whoever takes or gives back units
locks the row of the name first, and reads no other holder's where nobody waits (``share_sql.py``).

* **Fence**: as in ``lease.py``, from the row of the name, and above the same highest fence of rows
  that were removed.
* **Expiry**: the row of the name has a moment before which no share ends. Only who comes after it
  looks for shares that have ended.
* **Waiting**: whoever frees units hands them to the first waiters, as long as they suffice for the
  first of those, and wakes their clients, which claim them. The first one that has to wait for more
  keeps the others waiting. Waiters for shares have a listener of their own (``listener.py``).

The tables are made when a share is first used, or something is first remembered: a database of an
older release has only those of locks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...engine import Verification
from ...errors import Denied, FencelockError, Misconfigured
from ...model import (
    Busy,
    Gone,
    Grant,
    Holding,
    Request,
    Share,
    State,
    granted,
    limits_differ,
    renewed,
)
from ...world import World
from . import lease_sql, share_sql
from .errors import RowRefused
from .lease_sql import LeaseSql
from .listener import Listener
from .settings import Settings
from .share_sql import ShareSql, key_of
from .tables import NEEDED, missing_tables, probe
from .wire.codec import Row
from .wire.connection import Wire
from .wire.pool import Pool

LOOK_S = 60.0  # the listener looks for all waiters; this is the net under it
SEEN_MAX = 1000
CLEAN_UP_S = 30.0
CLEAN_UP_MAX = 100


class Shares:
    """The protocol of leased shares."""

    def __init__(
        self,
        world: World,
        settings: Settings,
        wire: Wire,
        locks: LeaseSql,
        pool: Pool,
        renewals: Pool,
    ) -> None:
        self._world = world
        self._table = settings.table
        self._sql = ShareSql(settings.table, locks)
        self._pool = pool
        self._renewals = renewals
        self.listener = Listener(world, settings, wire, self._sql, self._decline)
        self._ready = False
        self._quiet: dict[str, bool] = {}
        """Names that were used lately: True where nobody waited, so that the short way serves."""
        self._clean_up_at = world.now() + CLEAN_UP_S

    async def have_tables(self) -> None:
        """See that the tables are there, and make them if not."""
        if self._ready or await self.usable():
            return
        await self._pool.query(missing_tables("shares", self._table))
        await self._pool.query(probe(NEEDED["shares"], self._table))
        self._ready = True

    async def usable(self) -> bool:
        """Say whether the tables are there; False also where this account has no rights on them."""
        if not self._ready:
            try:
                await self._pool.query(probe(NEEDED["shares"], self._table))
                self._ready = True
            except (Denied, Misconfigured):
                return False
        return True

    def close_nowait(self) -> None:
        self.listener.close_nowait()

    async def close(self) -> None:
        await self.listener.close()

    # Acquire

    async def acquire(self, request: Request, share: Share) -> Grant | Busy:
        await self.have_tables()
        key, now, notified, inbox = key_of(request.name, share), self._world.now(), False, ""
        if request.queue:
            inbox, notified = self.listener.inbox, self.listener.was_notified(request.owner)
        elif (quiet := self._quiet.get(key)) is not None:
            if request.waits and not quiet:
                return Busy(LOOK_S)  # it comes again at once, to join the queue
            if quiet and (taken := await self._take(request, share)):
                return granted(request.name, request.owner, taken[0], request.ttl, now, taken[1])
        turn, is_more = None, True
        while turn is None or (is_more and not turn.fence):
            now = self._world.now()
            sql = self._sql.acquire(request, share, inbox)
            turn = share_sql.read_turn(await self._pool.query(sql, wakes=True), share)
            is_more = turn.is_more
        self._note(key, not turn.queued)
        await self._wake(turn.handed)
        if turn.fence:
            return granted(request.name, request.owner, turn.fence, request.ttl, now, turn.share)
        if turn.limit != share.limit:
            raise limits_differ(request.name, turn.limit, share.limit)
        if request.queue:
            self.listener.resume(notified)
        look_in = LOOK_S if request.queue else min(turn.left_s, LOOK_S)
        return Busy(look_in, turn.ahead, request.queue, turn.meta)

    async def _take(self, request: Request, share: Share) -> tuple[int, Share] | None:
        """Take what is free and nobody waits for; None when it is not so simple."""
        try:
            replies = await self._pool.query(self._sql.take(request, share))
        except RowRefused:  # not so many are free, or no response came when they were taken
            return None
        return share_sql.read_take(replies, share)

    def _note(self, key: str, quiet: bool) -> None:
        """Remember whether the short way serves."""
        if len(self._quiet) >= SEEN_MAX:
            self._quiet.clear()
        self._quiet[key] = quiet

    # Wait

    async def _wake(self, handed: Sequence[Row]) -> None:
        """Wake those who were handed something: the packet has woken the first client only."""
        for owner, _ in handed:
            self.listener.notify(owner)
        inboxes = sorted({lease_sql.words(inbox) for _, inbox in handed})[1:]
        try:
            for inbox in inboxes:
                if inbox != self.listener.inbox:
                    await self._pool.query(self._sql.wake(inbox), wakes=True)
        except FencelockError:
            pass  # they look by themselves

    async def _decline(self, owner: str) -> None:
        """Give back at once what was handed to an owner of ours that waits no more."""
        try:
            replies = await self._pool.query(self._sql.decline(owner), wakes=True)
        except FencelockError:
            return  # it is notified again, or it lapses
        await self._wake(share_sql.read_left(replies).handed)

    # Renew

    async def renew(self, grants: Sequence[Grant]) -> list[Grant | Gone]:
        now = self._world.now()
        replies = await self._renewals.query(self._sql.renew(grants))
        await self.clean_up(now)
        return lease_sql.read_renewals(replies, renewed(grants, now))

    async def end_in(self, grant: Grant, seconds: float) -> bool:
        key = key_of(grant.name, grant.share)
        replies = await self._pool.query(self._sql.end_in(key, grant.owner, seconds))
        return replies[2].affected > 0

    # Release

    async def leave(self, name: str, owner: str, share: Share) -> bool:
        """Leave the queue and give back what is held; say whether anything was."""
        await self.have_tables()  # of an attempt that never came to them
        key, given = key_of(name, share), False
        if self._quiet.get(key) and (share.kind == "rwlock" or share.slot is not None):
            _, removed, freed, _ = await self._pool.query(self._sql.give_back(key, owner, share))
            given = removed.affected > 0
            if freed.affected:
                await self.clean_up(self._world.now())
                return True
        return await self._take_out(key, self._sql.leave(key, owner), self._pool) or given

    async def _take_out(self, key: str, sql: str, pool: Pool) -> bool:
        left = share_sql.read_left(await pool.query(sql, wakes=True))
        self._note(key, not left.queued)
        await self._wake(left.handed)
        return left.held

    async def clean_up(self, now: float) -> None:
        """Now and then remove the rows of names that nobody uses."""
        if now < self._clean_up_at:
            return
        self._clean_up_at = now + CLEAN_UP_S * (1 + self._world.random())
        try:
            replies = await self._renewals.query(self._sql.clean_up())
            for (name,) in replies[-1].rows[:CLEAN_UP_MAX]:
                key = lease_sql.words(name)
                await self._take_out(key, self._sql.leave(key, "-"), self._renewals)
        except FencelockError:
            pass  # another client, or the next time, does it

    # Inspect and administer

    async def revoke(self, name: str, reason: str) -> bool:
        revoked = False
        if await self.usable():
            for letter in share_sql.LETTERS.values():
                key = letter + name
                sql = self._sql.revoke(key, reason)
                revoked = await self._take_out(key, sql, self._pool) or revoked
        return revoked

    async def inspect(self, state: State) -> State:
        """Add who holds shares of a name, and who waits for them."""
        if not await self.usable():
            return state
        holders, waiting = await self._pool.query(self._sql.state(state.name))
        return State(
            state.name,
            (*state.holders, *map(share_sql.read_holding, holders.rows)),
            (*state.waiters, *map(share_sql.read_waiting, waiting.rows)),
            share_sql.read_limit([*holders.rows, *waiting.rows]),
        )

    async def scan(self, prefix: str) -> Iterable[Holding]:
        if not await self.usable():
            return ()
        (reply,) = await self._pool.query(self._sql.scan(prefix))
        return map(share_sql.read_holding, reply.rows)

    def verification(self, grant: Grant) -> Verification:
        key, owner = key_of(grant.name, grant.share).encode(), grant.owner.encode()
        return Verification(self._sql.verification, (key, owner, owner))
