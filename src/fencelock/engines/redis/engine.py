"""Redis and Valkey: a lock is a plain key with a time to live, and a script decides in one step.

The recipe is the well-known ``SET key owner NX PX ttl``, released only by its owner, so that any
other program that locks this way on the same key is kept out and keeps us out. What is added, in
the same round trip: a fence, a queue that is served first come first, and a push to who is next.

The server judges expiry on its own wall clock and forgets what it did not persist or replicate: so
this is an engine for efficiency. The fence is what protects the resource. It is the higher of
last + 1 and the server's clock in microseconds, so it also grows after the record of a name has
expired, and after the server lost its data, as long as its clock does not run back by more than
the outage took.
"""

from __future__ import annotations

import json
from collections.abc import Coroutine, Sequence
from typing import Any, ClassVar, NamedTuple

from hiredis import ReplyError

from ...engine import Address, Engine
from ...errors import OutcomeUnknown, Unavailable
from ...model import (
    Busy,
    Finding,
    Gone,
    Grant,
    Holding,
    Request,
    State,
    Traits,
    Waiting,
    granted,
    refused,
    renewed,
)
from ...world import Signal, World
from .dispatch import Dispatch, Job
from .keys import Keys, beside, keys_of, lock_of, name_of, pattern, record_of
from .listener import ALIVE_S, Listener
from .scripts import script
from .settings import OPTIONS, settings
from .wire import Inbox, Word, opening, packed, packed_words

LOOK_S = 60.0  # the listener looks for all waiters; this is the net under it
SCAN_COUNT = 1000
ALIVE_MS = ALIVE_S * 1000  # a name is looked after so soon in any case
KEPT_MAX = 300  # names, and threads or tasks, whose part of a request is kept packed
KEEP_MS = 3_600_000  # how long a fence is remembered after its lease: longer than clocks step back

_PAYLOAD = b"%b%b$%d\r\n%b\r\n%b"  # beginning, keys, the length of an owner, the owner, the rest

ADVICE = (
    "Redis can lose a lock in a failover or a restart, and ends leases by its wall clock. Check "
    "the fence at the resource, or use postgresql, etcd or zookeeper"
)


class _Place(NamedTuple):
    keys: Keys
    packed: bytes


class RedisEngine(Engine):
    """``redis://``, ``rediss://``, ``valkey://``, ``redis+sentinel://``, ``redis+cluster://``."""

    schemes = ("redis", "rediss", "valkey", "redis+sentinel", "redis+cluster")
    options: ClassVar = OPTIONS
    drivers = ("redis", "hiredis")
    plain = True
    traits = Traits(
        safety="efficiency",
        scope="network",
        fence=True,
        fifo=True,
        push=True,
        durable=False,
        advice=ADVICE,
    )

    def __init__(self, world: World, address: Address) -> None:
        super().__init__(world, address)
        self._settings = settings(address)
        self._patience = self._settings.patience
        self._dispatch = Dispatch(world, self._settings)
        self._inbox_id = world.owner()[:16]
        self._alone = 0 if self._settings.topology == "cluster" else 1
        self._listener = Listener(world, self._subscribe, self._settle)
        self._acquire, self._release = script("acquire"), script("release")
        only = self._dispatch.route.only
        self._line = self._dispatch.wire.line(only) if only else None
        """The quick way, where there is but one server and its word is enough."""
        self._trusts = not self._settings.replicas
        """What a server says is enough: no replica has to confirm it."""
        if not self._trusts:
            self._line = None
        self._direct = self._line.direct if self._line is not None else None
        self._take = opening(self._acquire, 4, 6)
        self._leave = opening(self._release, 4, 2)
        self._ending = packed_words(self._alone)
        self._places: dict[str, _Place] = {}
        self._said: dict[tuple[str, bool], tuple[float, bytes]] = {}

    async def open(self) -> None:
        await self._dispatch.command("PING")
        self.traits = self.traits._replace(durable=await self._is_durable())

    async def _is_durable(self) -> bool:
        """Whether grants survive a restart of the server; unknown is no."""
        try:
            reply = await self._dispatch.command("CONFIG", "GET", "appendonly")
        except Exception:
            return False
        return bool(reply[1:2] == [b"yes"])

    async def close(self) -> None:
        await self._listener.close()
        await self._dispatch.wire.close()

    def abandon(self) -> None:
        self._listener.abandon()
        self._dispatch.wire.abandon()

    def _keys_of(self, name: str) -> Keys:
        return self._place(name).keys

    def _place(self, name: str) -> _Place:
        """Where a name is kept: programs use the same names again and again."""
        place = self._places.get(name)
        if place is None:
            if len(self._places) >= KEPT_MAX:
                self._places.clear()
            keys = keys_of(name, self._settings.prefix)
            place = self._places[name] = _Place(keys, packed_words(*keys))
        return place

    async def acquire(self, request: Request) -> Grant | Busy:
        name, owner, ttl, meta, queue, waits, _ = request
        listener = self._listener
        if queue and (handed := self.handed(request)) is not None:
            return handed
        joins = queue or (waits and listener.hears)
        keys, packed_keys = self._places.get(name) or self._place(name)
        now = self.world.now()
        if joins:
            listener.expect(keys.lock, owner, now)
        line, direct = self._line, self._direct
        if line is None:
            answer = await self._acquire_anywhere(request, keys, joins)
        else:
            known = self._said.get((meta, joins))
            ending = known[1] if known and known[0] == ttl else self._say(ttl, meta, joins)
            payload = _PAYLOAD % (self._take, packed_keys, len(owner), owner.encode(), ending)
            patience = ttl if ttl < self._patience else self._patience
            answer = direct(payload, patience) if direct else await line.ask(payload, patience)
            if type(answer) is ReplyError:
                words = (owner, *self._words(ttl, meta, joins))
                answer = await self._dispatch.again(self._acquire, keys, words, answer)
        if type(answer) is bytes:
            if joins and not queue:
                listener.unwatch(owner)
            return granted(name, owner, int(answer), ttl, now)
        look_ms, place, holder = answer
        if joins and look_ms < ALIVE_MS:
            listener.look_at(keys.lock, look_ms / 1000)
        return refused(LOOK_S, place if place >= 0 else None, joins, holder.decode())

    def _words(self, ttl: float, meta: str, joins: bool) -> tuple[Word, ...]:
        """What a request to acquire says, but for its owner."""
        ttl_ms, inbox = _ms(ttl), self._inbox_id if joins else ""
        return ttl_ms, meta, inbox, self._alone, ttl_ms + KEEP_MS

    def _say(self, ttl: float, meta: str, joins: bool) -> bytes:
        """The same, packed; kept, because requests of one thread or task are mostly alike."""
        if len(self._said) >= KEPT_MAX:
            self._said.clear()
        ending = packed_words(*self._words(ttl, meta, joins))
        self._said[meta, joins] = (ttl, ending)
        return ending

    async def _acquire_anywhere(self, request: Request, keys: Keys, joins: bool) -> Any:
        words = self._words(request.ttl, request.meta, joins)
        if self._settings.replicas:
            return await self._confirmed(request, words)
        return await self._dispatch.run(self._acquire, keys, request.owner, words, request.ttl)

    async def _confirmed(self, request: Request, words: tuple[Any, ...]) -> Any:
        """Acquire, and believe it only when so many replicas have it."""
        wanted, patience = self._settings.replicas, min(request.ttl / 2, self._settings.patience)
        wait = packed("WAIT", wanted, _ms(patience / 2))
        keys = self._keys_of(request.name)
        answer, replicas = await self._dispatch.run(
            self._acquire, keys, request.owner, words, request.ttl, then=wait
        )
        if isinstance(answer, bytes) and not (isinstance(replicas, int) and replicas >= wanted):
            await self.withdraw(request)
            raise Unavailable(
                f"{replicas} of {wanted} replicas confirmed the grant of {request.name!r}: "
                "it was taken back and nothing is held. See the replication of the server"
            )
        return answer

    async def renew(self, grants: Sequence[Grant]) -> list[Grant | Gone]:
        now = self.world.now()
        answers: list[Grant | Gone] = [*renewed(grants, now)]
        locks = [lock_of(grant.name, self._settings.prefix) for grant in grants]
        patience = min(grant.ttl for grant in grants) / 3
        groups = self._dispatch.route.groups(locks)
        jobs = [
            Job(
                [key for place in places for key in (locks[place], record_of(locks[place]))],
                [word for p in places for word in (_ms(grants[p].ttl), grants[p].owner)],
            )
            for places in groups
        ]
        replies = await self._dispatch.run_all(script("renew"), jobs, patience, "keeper")
        for places, gone in zip(groups, replies, strict=True):
            for number, reason in zip(gone[::2], gone[1::2], strict=True):
                answers[places[number]] = _gone(reason.decode())
        return answers

    async def release(self, grant: Grant) -> bool:
        name, owner, _, ttl, _, _ = grant
        keys, packed_keys = self._places.get(name) or self._place(name)
        line, direct = self._line, self._direct
        if line is None:
            freed = await self._dispatch.run(self._release, keys, owner, (self._alone,), ttl)
        else:
            ending = self._ending
            payload = _PAYLOAD % (self._leave, packed_keys, len(owner), owner.encode(), ending)
            patience = ttl if ttl < self._patience else self._patience
            freed = direct(payload, patience) if direct else await line.ask(payload, patience)
            if type(freed) is ReplyError:
                words = (owner, self._alone)
                freed = await self._dispatch.again(self._release, keys, words, freed)
        return bool(freed)

    async def withdraw(self, request: Request) -> None:
        name, owner, ttl = request[:3]
        self._listener.leave(owner)
        await self.release(granted(name, owner, 0, ttl, 0.0))

    async def revoke(self, name: str, reason: str) -> bool:
        keys, patience = self._keys_of(name), self._settings.patience
        took = await self._dispatch.run(script("revoke"), keys, reason, (self._alone,), patience)
        return bool(took)

    async def watch(self, request: Request, signal: Signal) -> None:
        if not self._listener.hears:
            await self._listener.open()
        keys, _ = self._places.get(request.name) or self._place(request.name)
        self._listener.watch(keys.lock, request.owner, signal)

    def wait(  # pyright: ignore[reportIncompatibleMethodOverride]  # Engine's is the same, awaited
        self, signal: Signal, deadline: float
    ) -> Coroutine[Any, Any, None]:
        return self._listener.wait(signal, deadline)

    def handed(self, request: Request) -> Grant | None:
        name, owner, ttl = request[:3]
        found = self._listener.handed(owner, ttl) if self._trusts else None
        return None if found is None else granted(name, owner, found[0], ttl, found[1])

    async def unwatch(self, request: Request) -> None:
        self._listener.unwatch(request.owner)

    async def _subscribe(self) -> Inbox:
        node = await self._dispatch.route.find("")
        channel = f"fencelock:inbox:{self._inbox_id}"
        try:
            return await self._dispatch.wire.subscribe(node, channel)
        except Unavailable:
            self._dispatch.route.forget(node)
            raise

    async def _settle(self, lock: str) -> tuple[float, bool]:
        look_ms, known = await self._dispatch.run(
            script("settle"),
            beside(lock),
            self._inbox_id,
            (self._alone,),
            self._settings.patience,
        )
        return look_ms / 1000, known == 1

    async def inspect(self, name: str) -> State:
        answer = await self._look(name, hand_on=True)
        now_ms = int(answer[3])
        waiters = [data.decode().split(" ", 4) for data in answer[4:] if data]
        return State(
            name,
            tuple(_holdings(name, answer)),
            tuple(
                Waiting((now_ms - int(since)) / 1000, json.loads(meta))
                for _, _, _, since, meta in waiters
            ),
        )

    async def _look(self, name: str, hand_on: bool) -> list[Any]:
        keys, patience = self._keys_of(name), self._settings.patience
        words = ("1" if hand_on else "0", (self._alone,))
        found: list[Any]
        try:
            found = await self._dispatch.run(script("inspect"), keys, *words, patience)
        except OutcomeUnknown:  # the connection had died unnoticed: looking twice does no harm
            found = await self._dispatch.run(script("inspect"), keys, *words, patience)
        return found

    async def scan(self, prefix: str) -> list[Holding]:
        await self._dispatch.route.find("")
        match = pattern(self._settings.prefix + prefix)
        names: set[str] = set()
        for node in self._dispatch.route.nodes():
            cursor = b"0"
            while True:
                cursor, records = await self._dispatch.command(
                    "SCAN", cursor, "MATCH", match, "COUNT", SCAN_COUNT, node=node
                )
                found = (name_of(r.decode(), self._settings.prefix) for r in records)
                names.update(name for name in found if name and name.startswith(prefix))
                if cursor == b"0":
                    break
        answers = [(name, await self._look(name, hand_on=False)) for name in sorted(names)]
        return [holding for name, answer in answers for holding in _holdings(name, answer)]

    async def examine(self) -> list[Finding]:
        from .examine import examine

        return await examine(self._dispatch, self._settings, self.world.wall_us)


def _ms(seconds: float) -> int:
    return max(1, round(seconds * 1000))


def _gone(reason: str) -> Gone:
    if reason:
        return Gone("revoked", reason)
    return Gone("expired", "its key is gone from the server")


def _holdings(name: str, answer: Sequence[Any]) -> list[Holding]:
    owner, left_ms, record, now_ms = answer[:4]
    if not owner:
        return []
    fields = (record or b"").decode().split(" ", 5)
    if len(fields) < 6 or fields[1] != owner.decode():
        ttl = max(left_ms, 0) / 1000  # taken by another program, which says no more than that
        return [Holding(name, 0, ttl, 0.0, ttl, {"program": "not fencelock"})]
    fence, _, claimed, ttl_ms, since, meta = fields
    if claimed == "0":
        return []
    since_ms = int(since) or int(fence) // 1000
    age = max(0, int(now_ms) - since_ms) / 1000
    return [Holding(name, int(fence), int(ttl_ms) / 1000, age, left_ms / 1000, json.loads(meta))]
