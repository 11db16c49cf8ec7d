"""Semaphores and read/write locks in ``mode=lease``: names that several hold.

The protocol is that of ``memory.py``. Each kind and name has a row with the units that are free;
each holder has a row with an end, on the server's clock. Taking or releasing units locks the row of
the name first, and reads no other holder's row where nobody waits (``share_sql.py``).

* **Fence**: as in ``lease.py``, from the row of the name, and above the same highest fence of rows
  that were removed.
* **Expiry**: the row of the name has a moment before which no share ends. Only a request after that
  moment looks for shares that have ended.
* **Waiting**: freed units are handed to the first waiters, as long as they suffice for the first
  one, and their clients are woken, which claim them. A first waiter that needs more units keeps the
  others waiting. Waiters for shares have a listener of their own (``listener.py``).

The tables are created when a share or a memo is first used: a database of an older release has only
those of locks.
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
from .cleanup import Cleanup
from .errors import RowRefused
from .lease_sql import LeaseSql
from .listener import Listener
from .settings import Settings
from .share_sql import ShareSql, key_of
from .tables import NEEDED, missing_tables, probe
from .wire.codec import Row
from .wire.connection import Wire
from .wire.pool import Pool

LOOK_S = 60.0  # the listener wakes all waiters; this is the fallback
SEEN_MAX = 1000


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
        self._uncontended: dict[str, bool] = {}
        """By recently used key: True where nobody waited, so that the fast path may succeed."""
        self.cleanup = Cleanup(world, settings, wire, "shares", self._settle)

    async def have_tables(self) -> None:
        """Create the tables if they are missing."""
        if self._ready or await self.usable():
            return
        await self._pool.query(missing_tables("shares", self._table))
        await self._pool.query(probe(NEEDED["shares"], self._table))
        self._ready = True

    async def usable(self) -> bool:
        """Return whether the tables exist; False also where this account has no rights on them."""
        if not self._ready:
            try:
                await self._pool.query(probe(NEEDED["shares"], self._table))
                self._ready = True
            except (Denied, Misconfigured):
                return False
        return True

    def close_nowait(self) -> None:
        self.cleanup.close_nowait()
        self.listener.close_nowait()

    async def close(self) -> None:
        await self.cleanup.close()
        await self.listener.close()

    # Acquire

    async def acquire(self, request: Request, share: Share) -> Grant | Busy:
        await self.have_tables()
        key, now, notified, inbox = key_of(request.name, share), self._world.now(), False, ""
        if request.queue:
            inbox, notified = self.listener.inbox, self.listener.was_notified(request.owner)
        elif (uncontended := self._uncontended.get(key)) is not None:
            if request.waits and not uncontended:
                return Busy(LOOK_S)  # the caller retries at once, to join the queue
            if uncontended and (taken := await self._take(request, share)):
                return granted(request.name, request.owner, taken[0], request.ttl, now, taken[1])
        turn, is_more = None, True
        while turn is None or (is_more and not turn.fence):
            now = self._world.now()
            sql = self._sql.acquire(request, share, inbox)
            turn = share_sql.read_turn(await self._pool.query(sql, wakes=True), share)
            is_more = turn.is_more
        self._remember_contention(key, not turn.queued)
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
        """Take free units that nobody waits for; None when ``acquire`` has to decide."""
        try:
            replies = await self._pool.query(self._sql.take(request, share))
        except RowRefused:  # too few are free, or a lost request has taken them for this owner
            return None
        return share_sql.read_take(replies, share)

    def _remember_contention(self, key: str, uncontended: bool) -> None:
        """Remember whether the fast path may succeed for a key."""
        if len(self._uncontended) >= SEEN_MAX:
            self._uncontended.clear()
        self._uncontended[key] = uncontended

    # Wait

    async def _wake(self, handed: Sequence[Row]) -> None:
        """Wake the owners that were handed units: the packet has woken the first client only."""
        for owner, _ in handed:
            self.listener.notify(owner)
        inboxes = sorted({lease_sql.words(inbox) for _, inbox in handed})[1:]
        try:
            for inbox in inboxes:
                if inbox != self.listener.inbox:
                    await self._pool.query(self._sql.wake(inbox), wakes=True)
        except FencelockError:
            pass  # their listeners find it by themselves

    async def _decline(self, owner: str) -> None:
        """Return at once what was handed to an owner of ours that no longer waits."""
        try:
            replies = await self._pool.query(self._sql.decline(owner), wakes=True)
        except FencelockError:
            return  # it is notified again, or it lapses
        await self._wake(share_sql.read_left(replies).handed)

    # Renew

    async def renew(self, grants: Sequence[Grant]) -> list[Grant | Gone]:
        now = self._world.now()
        replies = await self._renewals.query(self._sql.renew(grants))
        self.cleanup.start_if_due(now)
        return lease_sql.read_renewals(replies, renewed(grants, now))

    async def end_in(self, grant: Grant, seconds: float) -> bool:
        key = key_of(grant.name, grant.share)
        replies = await self._pool.query(self._sql.end_in(key, grant.owner, seconds))
        return replies[2].affected > 0

    # Release

    async def leave(self, name: str, owner: str, share: Share) -> bool:
        """Leave the queue and release what is held; return whether anything was."""
        await self.have_tables()  # the attempt may have ended before they were created
        key, given = key_of(name, share), False
        if self._uncontended.get(key) and (share.kind == "rwlock" or share.slot is not None):
            _, removed, freed, _ = await self._pool.query(self._sql.give_back(key, owner, share))
            given = removed.affected > 0
            if freed.affected:
                self.cleanup.start_if_due(self._world.now())
                return True
        return await self._take_out(key, self._sql.leave(key, owner), self._pool) or given

    async def _take_out(self, key: str, sql: str, pool: Pool) -> bool:
        left = share_sql.read_left(await pool.query(sql, wakes=True))
        self._remember_contention(key, not left.queued)
        await self._wake(left.handed)
        return left.held

    async def _settle(self, key: str, pool: Pool) -> None:
        """Settle the queue of a key that nobody has used for a while."""
        await self._take_out(key, self._sql.leave(key, "-"), pool)

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
        """Add to a state who holds shares of its name, and who waits for them."""
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
