"""Leases in a table of DynamoDB: one conditional write each, and only the client's own clock.

The protocol and the items are those of AWS's lock client. An acquirer writes itself into the item
on condition that there is none, that it is released, or that it still has the version that was seen
unchanged for a whole lease; DynamoDB serializes the writes to an item, so one wins. A renewal
writes a new version on condition that the owner is the same. A waiter reads, strongly consistent,
and counts on its own clock for how long a version stays: see ``observations.py``. The price: the
lock of a holder that died is free only a whole ttl after the first read of a client that wants it.

Fences only grow. The number is one higher with each grant, in the write that grants, and an item
outlives its release, so that the number does. The items stay bounded: DynamoDB deletes an item a
day after the end of its last lease (``expires``, by the table's time to live). Where there is no
item, or no table any more, the number begins at the wall clock in microseconds. That is above all
earlier fences: they began at an earlier clock and grew by one with each grant, which takes longer
than a microsecond. Clocks of clients may differ by the day that an item is kept, and DynamoDB
refuses signatures that are five minutes off; only where an item is deleted by hand must the next
clock not be behind the last.

A write without a reply is resolved by a repeated request for the same owner: the item has its owner
and its fence. The SDK's own retries are off. A write that is still under way when its attempt is
withdrawn may yet be carried out: then the name is locked without a holder, until a client has
watched it for a ttl.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil
from typing import ClassVar

from ...engine import Address, Engine
from ...errors import EngineError, OutcomeUnknown, Unsupported
from ...model import Busy, Finding, Gone, Grant, Holding, Request, State, Traits, granted
from ...world import Signal, World
from ..backoff import LOOK_MIN_S, PollBackoff
from . import records
from .observations import Observations
from .records import Item, Record
from .settings import OPTIONS, settings
from .table import Table

SHARED = "dynamodb has locks of one holder only: use redis, postgresql, mysql, etcd or zookeeper"


class DynamoDBEngine(Engine):
    """``dynamodb://region/table``, or ``dynamodb://host:port/table`` for a server of one's own."""

    schemes = ("dynamodb",)
    options: ClassVar = OPTIONS
    drivers = ("botocore",)
    traits = Traits(
        "correctness", "network", fence=True, durable=True, portable=True, remembers=True
    )

    def __init__(self, world: World, address: Address) -> None:
        super().__init__(world, address)
        self._settings = settings(address)
        self._table = Table(world, self._settings)
        self._seen = Observations()
        self._backoff = PollBackoff(world.random)

    async def open(self) -> None:
        await self._table.ready()

    async def close(self) -> None:
        await self._table.close()

    def close_nowait(self) -> None:
        self._table.close_nowait()

    def _key(self, name: str) -> str:
        return self._settings.prefix + name

    def _read(self, item: Item) -> Record:
        return records.read(item, self._settings.prefix)

    async def _find(self, name: str) -> Record:
        return self._read(await self._table.get(self._key(name)))

    # Acquire

    async def acquire(self, request: Request) -> Grant | Busy:
        if request.share is not None:
            raise Unsupported(SHARED)
        name, world = request.name, self.world
        dead = self._seen.dead(name, world.now())
        if request.queue and dead is None:  # a read costs a fifth of a write that is refused
            found = await self._find(name)
            if not found.released:
                return await self._result_of_found(request, found)
        asked_at = world.now()
        write = records.acquired(self._key(name), request, world.owner(), world.wall_us(), dead)
        done, item = await self._table.update(write)
        if not done:
            return await self._result_of_found(request, self._read(item))
        self._seen.forget(name)
        return granted(name, request.owner, int(item["fence"]["N"]), request.ttl, asked_at)

    async def _result_of_found(self, request: Request, found: Record) -> Grant | Busy:
        """Return the result for a record that was found: the owner's own grant, or ``Busy``."""
        now = self.world.now()
        if found.released:
            return Busy(LOOK_MIN_S)
        if found.owner == request.owner:  # a reply was lost: the same fence, and a whole ttl
            grant = granted(request.name, request.owner, found.fence, request.ttl, now)
            return grant if await self._extend(grant) is None else Busy(LOOK_MIN_S)
        left = max(self._seen.left(found, now), 0.0)
        return Busy(min(self._backoff.pause(request.owner, found.ttl), left), holder=found.meta)

    async def watch(self, request: Request, signal: Signal) -> None:
        self._backoff.begin(request.owner)

    async def unwatch(self, request: Request) -> None:
        self._backoff.end(request.owner)

    # Renew, release

    async def renew(self, grants: Sequence[Grant]) -> list[Grant | Gone]:
        todo, known, failures = iter(grants), dict[str, Grant | Gone](), list[Exception]()

        async def renew_some() -> None:
            for grant in todo:
                try:
                    known[grant.owner] = await self._renew(grant)
                except (EngineError, OutcomeUnknown) as error:
                    failures.append(error)

        until = self.world.now() + min(grant.ttl for grant in grants)
        crew = min(self._settings.pool, len(grants))
        await (renew_some() if crew == 1 else self.world.gather([renew_some] * crew, until))
        if not known:
            raise failures[0] if failures else OutcomeUnknown("no renewal was answered in time")
        # Where neither is known the old end stands, and the keeper retries.
        return [known.get(grant.owner, grant) for grant in grants]

    async def _renew(self, grant: Grant) -> Grant | Gone:
        now = self.world.now()
        if grant.valid_until <= now:
            await self._free_dead(grant.name)
            return Gone("expired", "it was not renewed in time")
        renewed = granted(grant.name, grant.owner, grant.fence, grant.ttl, now)
        return await self._extend(renewed) or renewed

    async def _extend(self, grant: Grant) -> Gone | None:
        """Write a new version for an owner; return why its lock is gone, if it is."""
        key, version = self._key(grant.name), self.world.owner()
        write = records.renewed(key, grant.owner, grant.ttl, version, self.world.wall_us())
        done, item = await self._table.update(write)
        if done:
            return None
        owner, reason = self._read(item).revoked
        if owner == grant.owner:
            return Gone("revoked", reason)
        return Gone("expired", "its record is another's, or gone")

    async def _free_dead(self, name: str) -> None:
        """Free a record that we have seen dead: no other client has to watch it for a ttl."""
        dead = self._seen.dead(name, self.world.now())
        if dead is not None:
            await self._table.update(
                records.freed_if_dead(self._key(name), dead, self.world.wall_us())
            )
            self._seen.forget(name)

    async def release(self, grant: Grant | Request) -> bool:
        write = records.released(self._key(grant.name), grant.owner, self.world.wall_us())
        done, _ = await self._table.update(write)
        return done

    async def withdraw(self, request: Request) -> None:
        await self.release(request)

    # Inspect

    async def inspect(self, name: str) -> State:
        return State(name, tuple(self._holdings([await self._find(name)])))

    async def scan(self, prefix: str) -> list[Holding]:
        items = await self._table.scan(**records.held_below(self._key(prefix)))
        return self._holdings([self._read(item) for item in items])

    def _holdings(self, found: Sequence[Record]) -> list[Holding]:
        """Return the holders in some records, as far as we have watched them."""
        now, wall_us = self.world.now(), self.world.wall_us()
        held = [(one, self._seen.left(one, now)) for one in found if not one.released]
        return [record.holding(left, wall_us) for record, left in held if left > 0]

    async def revoke(self, name: str, reason: str) -> bool:
        done = False
        found = await self._find(name)
        while not done and self._holdings([found]):  # again if the owner has changed meanwhile
            wall_us = self.world.wall_us()
            write = records.revoked(self._key(name), found.owner, reason, wall_us)
            done, item = await self._table.update(write)
            found = self._read(item)
        return done

    # Remember: an item beside the lock's, with a number in each attribute

    async def remember(self, name: str, item: str, number: int, keep: float) -> None:
        key, end = self._memo_key(name), ceil(self.world.wall_us() / 1e6 + keep)
        await self._table.update(records.raised(key, records.EXPIRES, end))  # first: it must expire
        await self._table.update(records.raised(key, records.NUMBER + item, number))

    async def recall(self, name: str) -> Mapping[str, int]:
        return records.numbers(await self._table.get(self._memo_key(name)))

    async def forget(self, name: str) -> None:
        await self._table.call("delete_item", Key=records.key_of(self._memo_key(name)))

    def _memo_key(self, name: str) -> str:
        return f"{self._key(name)}{records.SIDE}memo"

    async def diagnose(self) -> list[Finding]:
        from .doctor import diagnose

        return await diagnose(self._table, self.world.wall_us)
