"""Leases in a table of DynamoDB: one conditional write each, and no clock but one's own.

The recipe is that of AWS's lock client, and the items are the same. Whoever acquires writes itself
into the item on condition that there is none, that it is released, or that it still has the version
that was seen unchanged for a whole lease. DynamoDB decides one condition after the other, so one
wins. A renewal writes a new version, on condition that the owner is still the same; whoever
waits reads, strongly consistent, and counts on its own clock for how long a version has stayed
(``observations.py``). No wall clocks are compared. The price: the lock of a holder that died is free
a whole ttl after somebody first looked at it, and never for somebody who has not watched.

Fences only grow. The number is one higher with each grant, in the same write that grants; and an
item outlives its release, so that the number does. DynamoDB deletes items that nobody has touched
for a day, since no name may keep one for ever (``expires``, by the table's time to live). Where
there is no item, because it was deleted so, or by hand, or with its table, the number begins
at the microseconds of the wall clock. That is above all before: they began at an earlier clock, and
grew by one with each grant, which takes milliseconds. Clocks of clients may differ by as much as the
item is kept, and DynamoDB refuses signatures that are five minutes off; only after a deletion by
hand does the next client's clock have to be ahead of the first one's.

No answer to a write is resolved by asking again for the same owner: an item that is this owner's
says so, with its fence. The SDK's own retries are off. What was sent and is still under way when the
attempt is taken back may yet be carried out: then the name is held by nobody, for one ttl.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import ClassVar

from ...engine import Address, Engine
from ...errors import EngineError, OutcomeUnknown, Unsupported
from ...model import Busy, Finding, Gone, Grant, Holding, Request, State, Traits, granted
from ...world import Signal, World
from . import records
from .memos import Memos
from .observations import Observations
from .records import Item, Record
from .settings import OPTIONS, settings
from .table import Table
from .wire.errors import Refused

LOOK_MIN_S, LOOK_MAX_S = 0.05, 0.5  # between two looks of a waiter, longer the longer it waits
LOOKS_PER_TTL = 20
REVOCATIONS_MAX = 5  # tries, each of which found another holder

SHARED = (
    "dynamodb has mutexes only: an item has one owner, as other clients of the same table know it. "
    "Use redis, postgresql, mysql, etcd or zookeeper for semaphores and read/write locks"
)


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
        self._memos = Memos(self._table, self._settings.prefix, world.wall_us)
        self._looks: dict[str, int] = {}
        """How often each waiter has looked."""

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

    async def _find(self, name: str) -> Record | None:
        item = await self._table.get(self._key(name))
        return None if item is None else self._read(item)

    # Acquire

    async def acquire(self, request: Request) -> Grant | Busy:
        if request.share is not None:
            raise Unsupported(SHARED)
        name, world = request.name, self.world
        dead = self._seen.dead(name, world.now())
        if request.queue and dead is None:  # a read costs a fifth of a write that is refused
            found = await self._find(name)
            if found is not None and not found.released:
                return await self._wait_for(request, found)
        asked_at = world.now()
        write = records.acquired(self._key(name), request, world.owner(), world.wall_us(), dead)
        try:
            item = await self._table.update(write)
        except Refused as refused:
            if refused.item is None:
                return Busy(LOOK_MIN_S)  # released and deleted meanwhile
            return await self._wait_for(request, self._read(refused.item))
        self._seen.forget(name)
        return granted(name, request.owner, int(item["fence"]["N"]), request.ttl, asked_at)

    async def _wait_for(self, request: Request, held: Record) -> Grant | Busy:
        """The answer to a request that met a record: its own grant, or when to look again."""
        if held.is_held_by(request.owner):
            return await self._claim(request, held)
        if held.released:
            return Busy(LOOK_MIN_S)
        now = self.world.now()
        left = self._seen.note(held, now).left(now)
        return Busy(min(self._pause(request.owner, held.ttl), max(left, 0.0)), holder=held.meta)

    async def _claim(self, request: Request, held: Record) -> Grant | Busy:
        """Confirm a grant whose answer was lost: the same fence, and the whole ttl from now."""
        grant = granted(request.name, request.owner, held.fence, request.ttl, self.world.now())
        return grant if await self._extend(grant) is None else Busy(LOOK_MIN_S)

    def _pause(self, owner: str, ttl: float) -> float:
        looks = self._looks.get(owner, 0)
        if looks:
            self._looks[owner] = looks + 1
        most = min(max(ttl / LOOKS_PER_TTL, LOOK_MIN_S), LOOK_MAX_S)
        return min(LOOK_MIN_S * 1.5 ** min(looks, 10), most) * (0.75 + self.world.random() / 2)

    async def watch(self, request: Request, signal: Signal) -> None:
        self._looks[request.owner] = 1

    async def unwatch(self, request: Request) -> None:
        self._looks.pop(request.owner, None)

    # Renew, release

    async def renew(self, grants: Sequence[Grant]) -> list[Grant | Gone]:
        if len(grants) == 1:
            return [await self._renew(grants[0])]
        crew = min(self._settings.pool, len(grants))
        shares = [grants[start::crew] for start in range(crew)]
        until = self.world.now() + min(grant.ttl for grant in grants)
        thunks: list[Callable[[], Awaitable[list[Grant | Gone | Exception]]]] = [
            partial(self._renew_each, share) for share in shares
        ]
        answers: dict[str, Grant | Gone | Exception] = {}
        for share, done in zip(shares, await self.world.gather(thunks, until), strict=True):
            if isinstance(done, list):
                answers |= {grant.owner: one for grant, one in zip(share, done, strict=True)}
        failures = [one for one in answers.values() if isinstance(one, Exception)]
        if len(failures) == len(answers):
            raise failures[0] if failures else OutcomeUnknown("no renewal was answered in time")
        # Where neither is known the old end stands, and the keeper asks again.
        known = {o: one for o, one in answers.items() if not isinstance(one, Exception)}
        return [known.get(grant.owner, grant) for grant in grants]

    async def _renew_each(self, grants: Sequence[Grant]) -> list[Grant | Gone | Exception]:
        answers: list[Grant | Gone | Exception] = []
        for grant in grants:
            try:
                answers.append(await self._renew(grant))
            except (EngineError, OutcomeUnknown) as error:
                answers.append(error)
        return answers

    async def _renew(self, grant: Grant) -> Grant | Gone:
        now = self.world.now()
        if grant.valid_until <= now:
            await self._bury(grant.name)
            return Gone("expired", "it was not renewed in time")
        renewed = granted(grant.name, grant.owner, grant.fence, grant.ttl, now)
        return await self._extend(renewed) or renewed

    async def _extend(self, grant: Grant) -> Gone | None:
        """Write a new version for an owner; why it is gone, if it is."""
        key, version = self._key(grant.name), self.world.owner()
        write = records.renewed(key, grant.owner, grant.ttl, version, self.world.wall_us())
        try:
            await self._table.update(write)
        except Refused as refused:
            owner, reason = self._read(refused.item or {}).revoked
            if owner == grant.owner:
                return Gone("revoked", reason)
            return Gone("expired", "its record is another's, or gone")
        return None

    async def _bury(self, name: str) -> None:
        """Free a record that we have seen dead: nobody else need watch it for a ttl."""
        dead = self._seen.dead(name, self.world.now())
        if dead is not None:
            try:
                await self._table.update(
                    records.buried(self._key(name), dead, self.world.wall_us())
                )
            except Refused:
                pass
            self._seen.forget(name)

    async def release(self, grant: Grant) -> bool:
        return await self._leave(grant.name, grant.owner)

    async def withdraw(self, request: Request) -> None:
        await self._leave(request.name, request.owner)

    async def _leave(self, name: str, owner: str) -> bool:
        try:
            await self._table.update(
                records.released(self._key(name), owner, self.world.wall_us())
            )
        except Refused:
            return False
        return True

    # Inspect

    async def inspect(self, name: str) -> State:
        found = await self._find(name)
        return State(name, () if found is None else tuple(self._holdings([found])))

    async def scan(self, prefix: str) -> list[Holding]:
        items = await self._table.scan(
            FilterExpression="begins_with(#key, :prefix) AND attribute_not_exists(isReleased)"
            " AND attribute_exists(recordVersionNumber)",
            ExpressionAttributeNames={"#key": records.KEY},
            ExpressionAttributeValues={":prefix": {"S": self._key(prefix)}},
        )
        return self._holdings([self._read(item) for item in items])

    def _holdings(self, found: Sequence[Record]) -> list[Holding]:
        """Those of these records that are held, as far as we have watched them."""
        now, wall_us = self.world.now(), self.world.wall_us()
        held = [(record, self._seen.note(record, now)) for record in found if not record.released]
        return [
            record.holding(seen.left(now), wall_us)
            for record, seen in held
            if seen.left(now) > 0
        ]

    async def revoke(self, name: str, reason: str) -> bool:
        for _ in range(REVOCATIONS_MAX):
            found = await self._find(name)
            if found is None or not self._holdings([found]):
                return False
            wall_us = self.world.wall_us()
            write = records.revoked(self._key(name), found.owner, reason, wall_us)
            try:
                await self._table.update(write)
            except Refused:
                continue
            return True
        return False

    # Remember

    async def remember(self, name: str, item: str, number: int, keep: float) -> None:
        await self._memos.remember(name, item, number, keep)

    async def recall(self, name: str) -> Mapping[str, int]:
        return await self._memos.recall(name)

    async def forget(self, name: str) -> None:
        await self._memos.forget(name)

    async def diagnose(self) -> list[Finding]:
        from .doctor import diagnose

        return await diagnose(self._table, self._settings, self.world.wall_us)
