"""``mode=lease``: a lock is a row with an end, tied to no session.

The recipe is that of ``memory.py``. A free lock that nobody waits for is taken by one statement and
given back by one; whatever is unusual is decided by one packet that locks the row of the name first
(``statements.py``). A waiter in another process is woken by whoever hands it the lock
(``listener.py``).
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Sequence

from ...engine import Verification
from ...errors import FencelockError
from ...model import (
    Busy,
    Gone,
    Grant,
    Holding,
    Request,
    State,
    Traits,
    Waiting,
    granted,
    renewed,
)
from ...world import Signal, World
from .answers import gone, holding, number, words
from .group_commit import Batches
from .lease_sql import Statements
from .listener import Listener
from .literals import text
from .mode import Mode
from .server import Server
from .settings import Settings
from .wire.connection import Link, Wire
from .wire.pool import Pool

LOOK_S = 60.0  # the listener looks for all waiters; this is the net under it
CONTENDED_MAX = 1000
WARM_S = 30.0  # half of the time for which the row of a free name stays
WARM_MAX = 10_000
TIDY_S = 30.0
TIDIED_MAX = 100


class LeaseMode(Mode):
    """Locks as rows."""

    promises = Traits(
        safety="correctness",
        scope="network",
        fence=True,
        fifo=True,
        push=True,
        durable=True,
        portable=True,
    )

    def __init__(self, world: World, settings: Settings, wire: Wire) -> None:
        super().__init__(world, settings, wire)

        def dial() -> Awaitable[Link]:
            return wire.dial(world, settings)

        self._sql = Statements(settings.table)
        self._pool = Pool(world, dial, settings, settings.pool, orderly=True)
        self._batches = Batches(world, self._pool, self._sql.locks, wire.lanes(settings.pool))
        self._renewals = Pool(world, dial, settings, 1)
        self._listener = Listener(world, settings, dial, self._sql, self._renounce)
        self._contended: dict[str, bool] = {}
        """Names that others wait for, too; True where the flag of the queue was seen up."""
        self._warm_until: dict[str, float] = {}
        self._tidy_at = world.now() + TIDY_S

    def traits(self, server: Server) -> Traits:
        if server.durable:
            return self.promises
        return self.promises._replace(
            safety="efficiency",
            durable=False,
            advice="set innodb_flush_log_at_trx_commit=1: without it a power cut forgets grants",
        )

    async def open(self, server: Server) -> None:
        if server.version < ((10, 3) if server.is_mariadb else (8,)):
            self._batches.end()  # it cannot lock a row without waiting

    async def close(self) -> None:
        await self._listener.close()
        self._pool.close()
        self._renewals.close()

    def close_nowait(self) -> None:
        self._listener.close_nowait()
        self._pool.close()
        self._renewals.close()

    async def acquire(self, request: Request) -> Grant | Busy:
        name, now, called = request.name, self.world.now(), False
        if not request.queue:
            if request.waits and name in self._contended:
                return Busy(LOOK_S)  # it asks again at once, to stand in line
            if fence := await self._take(request, now):
                return granted(name, request.owner, fence, request.ttl, now)
            if request.waits:
                self._expect_a_queue(name)
                return Busy(LOOK_S)
        elif called := self._listener.was_called(request.owner):
            replies = await self._pool.ask(self._sql.claim(request))
            if fence := replies[1].insert_id:
                return granted(name, request.owner, fence, request.ttl, now)
        elif self._listener.is_new(request.owner) and (busy := await self._stand(request)):
            return busy
        return await self._take_turn(request, now, called)

    async def _take(self, request: Request, now: float) -> int:
        """Take a free lock that nobody waits for; 0 when it is not free."""
        if now < self._warm_until.pop(request.name, 0.0):
            reply = await self._batches.ask(request.name, self._sql.take_warm(request))
            if reply.insert_id or request.waits:
                return reply.insert_id
        (reply,) = await self._pool.ask(self._sql.take(request))
        return reply.insert_id

    async def _stand(self, request: Request) -> Busy | None:
        """Join the queue of a lock that is held; None when it is not so simple."""
        flagged = self._contended.get(request.name, False)
        sql = self._sql.stand(request, self._listener.inbox, flagged)
        replies = await self._pool.ask(sql)
        joined, rows = any(reply.insert_id for reply in replies), replies[-1].rows
        self._expect_a_queue(request.name, joined and bool(rows))
        return Busy(LOOK_S, number(rows[0][0]), True) if joined and rows else None

    async def _take_turn(self, request: Request, now: float, in_vain: bool) -> Grant | Busy:
        sql = self._sql.turn(request, self._listener.inbox)
        replies = await self._pool.ask(sql, rings=True)
        ours, fence, left, meta, ahead, next_one = replies[-2].rows[0]
        if ours == b"1":
            return granted(request.name, request.owner, number(fence), request.ttl, now)
        self._listener.call(next_one)
        if request.queue:
            self._listener.rouse(in_vain)
        look_in = LOOK_S if request.queue else min(max(number(left) / 1e6, 0.001), LOOK_S)
        return Busy(look_in, number(ahead), request.queue, words(meta))

    def _expect_a_queue(self, name: str, flagged: bool = False) -> None:
        """Remember that the short way is in vain for a name: whoever finds no queue forgets it."""
        if len(self._contended) >= CONTENDED_MAX:
            self._contended.clear()
        self._contended[name] = flagged

    async def renew(self, grants: Sequence[Grant]) -> list[Grant | Gone]:
        now = self.world.now()
        replies = await self._renewals.ask(self._sql.renew(grants))
        await self._tidy(now)
        told = {words(owner): reason for owner, reason in replies[-1].rows}
        new = renewed(grants, now)
        return [
            grant if grant.owner in told and told[grant.owner] is None else gone(told, grant)
            for grant in new
        ]

    async def release(self, grant: Grant) -> bool:
        return await self._leave(grant.name, grant.owner)

    async def withdraw(self, request: Request) -> None:
        await self._leave(request.name, request.owner)

    async def _leave(self, name: str, owner: str) -> bool:
        if name not in self._contended:
            reply = await self._batches.ask(name, self._sql.give_back(name, owner))
            if reply.affected:
                now = self.world.now()
                self._is_warm(name, now)
                if now >= self._tidy_at:
                    await self._tidy(now)
                return True
        else:
            tell = self._listener.has_waiters
            replies = await self._pool.ask(self._sql.pass_on(name, owner, tell), rings=True)
            if replies[2].affected:
                if tell:
                    self._listener.call(replies[-2].rows[0][0])
                return True
        return await self._take_out(name, owner, self._pool)

    async def _take_out(self, name: str, owner: str, pool: Pool) -> bool:
        """Take an owner out of a lock and of its queue; say whether it held."""
        replies = await pool.ask(self._sql.leave(name, owner), rings=True)
        called, flagged = replies[-2].rows[0]
        if flagged == b"1":  # and the lock is free
            try:
                called = (await pool.ask(self._sql.lower(name), rings=True))[-2].rows[0][0]
            except FencelockError:
                pass  # whoever comes next does it
        if not self._listener.call(called):
            self._contended.pop(name, None)
        return replies[1].rows == [(b"1",)]

    async def _renounce(self, owner: str) -> None:
        """Give back at once what was handed to an owner of ours that waits no more."""
        try:
            replies = await self._pool.ask(self._sql.renounce(owner), rings=True)
        except FencelockError:
            return  # it is called again, or it lapses
        self._listener.call(replies[-2].rows[0][0])

    def _is_warm(self, name: str, now: float) -> None:
        """Remember that the row of a name is there, as long as that is certain."""
        if len(self._warm_until) >= WARM_MAX:
            self._warm_until.clear()
        self._warm_until[name] = now + WARM_S

    async def _tidy(self, now: float) -> None:
        """Now and then remove the rows of names that nobody uses."""
        if now < self._tidy_at:
            return
        self._tidy_at = now + TIDY_S * (1 + self.world.random())
        try:
            replies = await self._renewals.ask(self._sql.tidy())
            for (name,) in replies[-1].rows[:TIDIED_MAX]:
                await self._take_out(words(name), "-", self._renewals)
        except FencelockError:
            pass  # another client, or the next round, does it

    async def watch(self, request: Request, signal: Signal) -> None:
        self._listener.watch(request.owner, signal)

    async def unwatch(self, request: Request) -> None:
        self._listener.unwatch(request.owner)

    async def revoke(self, name: str, reason: str) -> bool:
        replies = await self._pool.ask(self._sql.revoke(name, reason), rings=True)
        held, called = replies[-2].rows[0]
        self._listener.call(called)
        return held == b"1"

    async def inspect(self, name: str) -> State:
        held = self._sql.holders(f"l.name={text(name)}")
        holders, waiting = await self._pool.ask(f"{held};{self._sql.waiting(name)}")
        waiters = tuple(
            Waiting(number(age) / 1e6, json.loads(words(meta))) for age, meta in waiting.rows
        )
        return State(name, tuple(map(holding, holders.rows)), waiters)

    async def scan(self, prefix: str) -> list[Holding]:
        like = f"LEFT(l.name,{len(prefix.encode())})={text(prefix)}"
        (reply,) = await self._pool.ask(self._sql.holders(like))
        return [holding(row) for row in reply.rows]

    def verification(self, grant: Grant) -> Verification:
        name, owner = grant.name.encode(), grant.owner.encode()
        return Verification(self._sql.verification, (name, owner, owner))
