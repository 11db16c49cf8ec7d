"""``mode=lease``: a row with an end, on the server's clock.

The recipe is that of ``memory.py``. A free lock that nobody waits for is taken by one upsert and
given back by one update; everything else is a function that first locks the name's row
(``tables.py``). The lease is not tied to a connection, so it survives the loss of one, and any
pooler may stand between.

* **Fence**: the higher of the row's last fence + 1 and the server's clock in microseconds, in the
  same statement. The row stays for a minute after it was last used. When it is removed, the floor
  is raised to its fence first, and whoever makes a new row begins above the floor. So a fence goes
  back only if the database is lost *and* its clock is set back.
* **Expiry** is judged when somebody wants the lock. A transaction that made sure of its lease
  (``fencelock.sql.verify``) holds the row FOR KEY SHARE: renewals pass, a taker does not.
* **Waiting**: a release hands the lock to the first waiter whole, and the listener of its client
  hears the fence and since when: so a contended turn is two statements, one to queue and one to
  release. The listener also tends to those whose holder died, at the moment when the lease ends.
  Where notifications cannot come through, waiters look by themselves, those far behind in the
  queue less often.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from ...engine import Verification
from ...errors import Unavailable
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
from .listener import Listener
from .modes import Mode, Wire
from .rows import holding, integer, number, soon, string
from .settings import Settings
from .statements import LeaseStatements, Statement
from .wire.connection import Rows

LOOK_S = 60.0  # the listener looks for all waiters; this is the net under it
POLL_MIN_S, POLL_MAX_S = 0.02, 0.5  # without a listener
PROTECTED_S = 0.05  # how often to look at an expired lease that a transaction still protects
TIDY_EVERY = 1000  # grants between two looks for rows that nobody uses
CONTENDED_MAX = 1000


class LeaseMode(Mode):
    """The protocol of leased rows."""

    plain = True
    traits = Traits(
        safety="correctness",
        scope="network",
        fence=True,
        fifo=True,
        push=True,
        durable=True,
        portable=True,
    )

    def __init__(self, world: World, wire: Wire, settings: Settings) -> None:
        super().__init__(world, wire, settings)
        self._say = LeaseStatements(settings.table, settings.schema)
        self._listener: Listener | None = None
        self._grants = 0
        self._contended: set[str] = set()
        """Names whose queue makes the short way vain."""

    async def open(self) -> None:
        await super().open()
        direct = self.wire.direct or self.settings.listen is not None
        if self.settings.push and direct:
            self._listener = self.wire.listener(self.world, self._say)
        else:
            self.traits = self.traits._replace(
                push=False, advice="name a way around the pooler with listen=host:port"
            )
        if not self.wire.direct:
            await self._see_durability()
        await self.wire.ask(self._say.tidy)

    async def _see_durability(self) -> None:
        """Behind a pooler a session's settings are not ours to make."""
        setting = "SELECT current_setting('synchronous_commit')"
        if (await self.wire.ask(Statement("", setting)))[0][0] == b"off":
            self.traits = self.traits._replace(
                safety="efficiency", durable=False, advice="turn synchronous_commit on"
            )

    async def close(self) -> None:
        if self._listener is not None:
            await self._listener.close()

    def close_nowait(self) -> None:
        if self._listener is not None:
            self._listener.close_nowait()

    async def acquire(self, request: Request) -> Grant | Busy:
        name, owner, ttl, meta, queue, waits, _ = request
        asked_at = self.world.now()
        if waits and not queue and name in self._contended:
            return Busy(LOOK_S)  # it asks again at once, to stand in line
        if not queue and name not in self._contended:
            rows = await self.wire.ask(self._say.take_free, name, owner, ttl, meta, owner=owner)
            if rows:
                await self._count()
                return granted(name, owner, integer(rows[0][0]), ttl, asked_at)
            if waits:
                return Busy(LOOK_S)  # it asks again at once, to stand in line
            asked_at = self.world.now()
        inbox, again = "", True
        if self._listener is not None:
            inbox = self._listener.inbox
            again = self._listener.joins(owner)
            if again and (handed := self.pushed_grant(request)) is not None:
                return handed
        if queue and name in self._contended:
            rows = await self._ask(self._say.join, name, owner, ttl, meta, inbox, again)
            if (busy := rows[0][0]) is not None:
                left, before, who = busy.split(b" ", 2)
                return self._busy(queue, number(left), integer(before), string(who))
            asked_at = self.world.now()
        say = self._say.acquire
        alone = self.wire.alone
        rows = await self._ask(say, name, owner, ttl, meta, queue, inbox, alone)
        fence, remaining, place, holder = rows[0]
        if fence != b"0":
            return granted(name, owner, integer(fence), ttl, asked_at)
        self._expect_a_queue(name)
        return self._busy(queue, number(remaining), integer(place), string(holder))

    async def _ask(self, statement: Statement, name: str, owner: str, *values: object) -> Rows:
        """Ask what a contended lock takes: where that is possible, on the way we hear it."""
        if self._listener is not None:
            rows = await self._listener.ask(statement, (name, owner, *values), owner)
            if rows is not None:
                return rows
        return await self.wire.ask(statement, name, owner, *values, owner=owner)

    def _busy(self, queue: bool, remaining: float, place: int, holder: str) -> Busy:
        if remaining <= 0:
            look_in = PROTECTED_S
        elif self._listener is not None:
            look_in = LOOK_S
            if queue:
                self._listener.expect(remaining)
        else:
            look_in = min(POLL_MIN_S * (place + 1), POLL_MAX_S, remaining)
        return Busy(look_in, place if queue else None, queue, holder)

    async def _count(self) -> None:
        self._grants += 1
        if self._grants % TIDY_EVERY == 0:
            self.world.spawn(self._tidy(), "fencelock-tidy")

    async def _tidy(self) -> None:
        try:
            await self.wire.keep(self._say.tidy)
        except Exception:  # rows stay a little longer; whoever asks next meets the same trouble
            pass

    def _expect_a_queue(self, name: str) -> None:
        if len(self._contended) >= CONTENDED_MAX:
            self._contended.clear()
        self._contended.add(name)

    async def renew(self, grants: Sequence[Grant]) -> list[Grant | Gone]:
        now = self.world.now()
        names, owners, _, ttls, _, _ = map(list, zip(*grants, strict=True))
        within = soon(grants)
        rows = await self.wire.keep(self._say.renew, names, owners, ttls, within=within)
        if len(rows) == len(grants):
            return [*renewed(grants, now)]
        kept = {string(row[0]) for row in rows}
        missing = [owner for owner in owners if owner not in kept]
        why = await self.wire.keep(self._say.why, missing, within=within)
        reasons = {string(owner): string(reason) for owner, reason in why}
        return [
            grant if grant.owner in kept else _gone(reasons.get(grant.owner))
            for grant in renewed(grants, now)
        ]

    async def release(self, grant: Grant) -> bool:
        return await self._leave(grant.name, grant.owner)

    async def withdraw(self, request: Request) -> None:
        if self._listener is not None:
            self._listener.leaves(request.owner)
        await self._leave(request.name, request.owner)

    async def _leave(self, name: str, owner: str) -> bool:
        short = name not in self._contended
        if short and await self.wire.ask(self._say.give_back, name, owner, owner=owner):
            return True
        alone = self.wire.alone
        answer = integer((await self._ask(self._say.leave, name, owner, alone))[0][0])
        if not answer & 2:
            self._contended.discard(name)
        return bool(answer & 1)

    async def watch(self, request: Request, signal: Signal) -> None:
        if self._listener is not None:
            await self._listener.watch(request.owner, signal)

    async def wait(self, signal: Signal, deadline: float) -> None:
        if self._listener is not None:
            await self._listener.wait(signal, deadline)
        else:
            await self.world.wait(signal, deadline)

    def pushed_grant(self, request: Request) -> Grant | None:
        if self._listener is None:
            return None
        name, owner, ttl = request.name, request.owner, request.ttl
        handed = self._listener.handed(owner, ttl)
        return handed and granted(name, owner, handed[0], ttl, handed[1])

    async def unwatch(self, request: Request) -> None:
        if self._listener is not None:
            self._listener.unwatch(request.owner)

    async def inspect(self, name: str) -> State:
        holders = await self.wire.ask(self._say.holder, name)
        waiters = await self.wire.ask(self._say.waiters, name)
        waiting = tuple(Waiting(number(age), json.loads(string(meta))) for age, meta in waiters)
        return State(name, tuple(map(holding, holders)), waiting)

    async def scan(self, prefix: str) -> list[Holding]:
        return [holding(row) for row in await self.wire.ask(self._say.scan, prefix)]

    async def revoke(self, name: str, reason: str) -> bool:
        try:
            return (await self.wire.ask(self._say.revoke, name, reason))[0][0] == b"t"
        except Unavailable as error:
            raise Unavailable(f"{name!r} was not revoked: {error}") from error

    def verification(self, grant: Grant) -> Verification:
        return Verification(self._say.verify, (grant.name, grant.owner, grant.fence))


def _gone(reason: str | None) -> Gone:
    if reason is not None:
        return Gone("revoked", reason)
    return Gone("expired", "its record is gone from the database")
