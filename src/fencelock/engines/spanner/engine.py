"""Leases in a table of Cloud Spanner: one read-write transaction on a row for each step.

An acquirer reads the row of the name under an exclusive lock, and writes itself into it if it has
no owner or the lease there has ended. Spanner's transactions are serializable, so one wins. A
renewal writes a later end on condition that the owner is the same and its lease has not ended; a
release deletes the row on the same condition. A waiter reads without locks.

Only the server's clock counts: a row has ``ends_at``, which is ``CURRENT_TIMESTAMP()`` of the
transaction that wrote it plus the ttl, and a lease has ended when ``CURRENT_TIMESTAMP()`` of a
later one is past it. Those are readings of the clocks of two servers. TrueTime bounds how far each
is from the true time: by some milliseconds, so that both together shorten a lease by less than
``SLACK_US``, a tenth of a second, by which each lease is longer in Spanner. A reading is made
before or after the wait for the locks, but not before the request was sent; the holder counts its
lease from before that, and gives up early by the drift of clocks. So it has given up before another
is granted.

The fence is the timestamp of the commit that grants, in microseconds: Spanner writes it into
``granted_at``. A transaction that begins after another was committed has a greater timestamp, in
the whole database and whatever rows it has (external consistency); and those that write to one row
have different ones. So fences grow across release, expiry, deletion of the row or of the table, and
nothing has to be kept for it: a released row is deleted, and one whose holder died a day later by
the table's row deletion policy.

A commit without a reply is resolved by a repeated request for the same owner, in a transaction that
comes after it for certain: see ``database.py``. The row has its owner and its fence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from ...engine import Address, Engine
from ...errors import EngineError, OutcomeUnknown, Unsupported
from ...model import Busy, Finding, Gone, Grant, Holding, Request, State, Together, Traits, granted
from ...world import Signal, World
from .._google.settings import settled
from ..backoff import PollBackoff
from .database import Database
from .rows import SIDE, Row, Write
from .settings import EMULATOR_VARIABLE, OPTIONS, settings

TOGETHER = 500  # leases that are renewed in one transaction

SHARED = "spanner has locks of one holder only: use redis, postgresql, mysql, etcd or zookeeper"

Rows = Mapping[str, Row]


class SpannerEngine(Engine):
    """``spanner://project/instance/database``, with the table ``fencelock`` or another one."""

    schemes = ("spanner",)
    options: ClassVar = OPTIONS
    drivers = ("google.cloud.spanner_v1",)
    traits = Traits(
        "correctness", "network", fence=True, durable=True, portable=True, remembers=True
    )

    @classmethod
    def settled(cls, address: Address) -> Address:
        return settled(address, EMULATOR_VARIABLE)

    def __init__(self, world: World, address: Address) -> None:
        super().__init__(world, address)
        self._settings = settings(address)
        self._database = Database(world, self._settings)
        self._backoff = PollBackoff(world.random)

    async def open(self) -> None:
        await self._database.ready()

    async def close(self) -> None:
        await self._database.close()

    def close_nowait(self) -> None:
        self._database.close_nowait()

    def _key(self, name: str) -> str:
        return self._settings.prefix + name

    # Acquire

    async def acquire(self, request: Request) -> Grant | Busy:
        if request.share is not None:
            raise Unsupported(SHARED)
        key = self._key(request.name)
        if request.queue:  # a waiter takes no locks until the row may be free
            (seen,) = await self._database.look(key)
            if seen.held and seen.owner != request.owner:
                return self._busy(request, seen)

        def decide(rows: Rows) -> tuple[Row, list[Write]]:
            row = rows[key]
            if row.is_held_by(request.owner):  # a reply was lost: the same fence, a whole ttl
                return row, [row.renewed(request.ttl)]
            if row.held:
                return row, []
            return row, [row.granted(request.owner, request.ttl, request.meta)]

        row, asked_at, micros = await self._database.transact([key], decide, [request.owner])
        if not micros:
            return self._busy(request, row)
        fence = row.fence if row.is_held_by(request.owner) else micros
        return granted(request.name, request.owner, fence, request.ttl, asked_at)

    async def acquire_all(self, requests: Sequence[Request]) -> Together:
        keys = [self._key(request.name) for request in requests]

        def decide(rows: Rows) -> tuple[tuple[Request, Row] | None, list[Write]]:
            wanted = [(one, rows[key]) for one, key in zip(requests, keys, strict=True)]
            for one, row in wanted:
                if row.held:
                    return (one, row), []
            return None, [row.granted(one.owner, one.ttl, one.meta) for one, row in wanted]

        owners = [request.owner for request in requests]
        met, asked_at, micros = await self._database.transact(keys, decide, owners)
        if met is not None:
            return met[0].name, self._busy(*met)
        return [granted(one.name, one.owner, micros, one.ttl, asked_at) for one in requests]

    def _busy(self, request: Request, row: Row) -> Busy:
        """Return ``Busy``: poll again after a pause, and when the lease ends."""
        pause = self._backoff.pause(request.owner, row.ttl_us / 1e6)
        return Busy(min(pause, max(row.left, 0.0)), holder=row.meta)

    async def watch(self, request: Request, signal: Signal) -> None:
        self._backoff.begin(request.owner)

    async def unwatch(self, request: Request) -> None:
        self._backoff.end(request.owner)

    # Renew, release

    async def renew(self, grants: Sequence[Grant]) -> list[Grant | Gone]:
        answers, failure = list[Grant | Gone](), None
        for first in range(0, len(grants), TOGETHER):
            some = grants[first : first + TOGETHER]
            try:
                answers += await self._renew(some)
            except (EngineError, OutcomeUnknown) as error:
                failure = error
                answers += some  # the old end stands, and the keeper retries
        if failure is not None and len(grants) <= TOGETHER:
            raise failure
        return answers

    async def _renew(self, grants: Sequence[Grant]) -> list[Grant | Gone]:
        keys = [self._key(grant.name) for grant in grants]

        def decide(rows: Rows) -> tuple[list[Gone | None], list[Write]]:
            ours = [(one, rows[key]) for one, key in zip(grants, keys, strict=True)]
            lasting = [row.renewed(one.ttl) for one, row in ours if row.is_held_by(one.owner)]
            return [_gone(one, row) for one, row in ours], lasting

        gone, asked_at, _ = await self._database.transact(keys, decide)
        return [
            why or granted(one.name, one.owner, one.fence, one.ttl, asked_at)
            for one, why in zip(grants, gone, strict=True)
        ]

    async def release(self, grant: Grant | Request) -> bool:
        (freed,) = await self.release_all([grant])
        return freed

    async def release_all(self, grants: Sequence[Grant | Request]) -> list[bool]:
        keys = [self._key(grant.name) for grant in grants]

        def decide(rows: Rows) -> tuple[list[bool], list[Write]]:
            ours = [(one.owner, rows[key]) for one, key in zip(grants, keys, strict=True)]
            held = [row.is_held_by(owner) for owner, row in ours]
            return held, [row.freed() for owner, row in ours if row.owner == owner]

        owners = [grant.owner for grant in grants]
        return (await self._database.transact(keys, decide, owners)).answer

    async def withdraw(self, request: Request) -> None:
        await self.release(request)

    # Inspect

    async def inspect(self, name: str) -> State:
        found = await self._database.look(self._key(name))
        return State(name, tuple(self._holdings(found)))

    async def scan(self, prefix: str) -> list[Holding]:
        return self._holdings(await self._database.scan(self._key(prefix)))

    def _holdings(self, found: Sequence[Row]) -> list[Holding]:
        prefix = self._settings.prefix
        held = [row._replace(name=row.name.removeprefix(prefix)) for row in found if row.held]
        return [row.holding() for row in held]

    async def revoke(self, name: str, reason: str) -> bool:
        def decide(rows: Rows) -> tuple[bool, list[Write]]:
            (row,) = rows.values()
            return row.held, [row.taken(reason)] if row.held else []

        return (await self._database.transact([self._key(name)], decide)).answer

    # Remember: a row beside the lock's

    async def remember(self, name: str, item: str, number: int, keep: float) -> None:
        def decide(rows: Rows) -> tuple[None, list[Write]]:
            (row,) = rows.values()
            return None, [row.remembered(item, number, keep)]

        await self._database.transact([self._memo_key(name)], decide)

    async def recall(self, name: str) -> Mapping[str, int]:
        (row,) = await self._database.look(self._memo_key(name))
        return row.numbers()

    async def forget(self, name: str) -> None:
        def decide(rows: Rows) -> tuple[None, list[Write]]:
            return None, [row.freed() for row in rows.values()]

        await self._database.transact([self._memo_key(name)], decide)

    def _memo_key(self, name: str) -> str:
        return f"{self._key(name)}{SIDE}memo"

    async def diagnose(self) -> list[Finding]:
        from .doctor import diagnose

        return await diagnose(self._database, self._settings, self.world.wall_us)


def _gone(grant: Grant, row: Row) -> Gone | None:
    """Return why a grant cannot be renewed; None if it can."""
    if row.is_held_by(grant.owner):
        return None
    if row.revoked[0] == grant.owner:
        return Gone("revoked", row.revoked[1])
    if row.owner == grant.owner:
        return Gone("expired", "it was not renewed in time")
    return Gone("expired", "its row is another's, or gone")
