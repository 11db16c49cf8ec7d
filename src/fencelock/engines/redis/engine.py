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

from collections.abc import Coroutine, Sequence
from typing import Any, ClassVar

from hiredis import ReplyError

from ...engine import Address, Engine
from ...errors import Unavailable
from ...model import (
    Busy,
    Finding,
    Gone,
    Grant,
    Holding,
    Request,
    State,
    Traits,
    granted,
    refused,
    renewed,
)
from ...world import GRACE_S, Signal, World
from .dispatch import Dispatch, Job
from .keys import Keys, beside, lock_of, record_of
from .listener import Listener
from .look import Look
from .phrases import OWNER_LENGTH, Ending, Phrases, ms, unusual
from .scripts import script
from .settings import OPTIONS, settings
from .waiters import ALIVE_S
from .wire import Inbox, packed

LOOK_S = 60.0  # the listener looks for all waiters; this is the net under it
ALIVE_MS = ALIVE_S * 1000  # a name is looked after so soon in any case

_NONE = Ending(0.0, b"", 0.0)  # of requests that were not made yet

ADVICE = (
    "Redis can lose a lock in a failover or a restart, and ends leases by its wall clock. Check "
    "the fence at the resource, or use postgresql, etcd or zookeeper"
)


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
        portable=True,
        advice=ADVICE,
    )

    def __init__(self, world: World, address: Address) -> None:
        super().__init__(world, address)
        self._now = world.now
        self._settings = settings(address)
        self._request_timeout = self._settings.request_timeout
        self._dispatch = Dispatch(world, self._settings)
        self._inbox_id = world.owner()[:16]
        self._alone = "0" if self._settings.topology == "cluster" else "1"
        self._listener = Listener(world, self._subscribe, self._settle, self._give_back)
        only = self._dispatch.route.only
        self._line = self._dispatch.wire.line(only) if only else None
        """The quick way, where there is but one server and its word is enough."""
        self._trusts = not self._settings.replicas
        """What a server says is enough: no replica has to confirm it."""
        if not self._trusts:
            self._line = None
        self._direct = self._line.direct if self._line is not None else None
        self._look = Look(self._dispatch, self._settings, self._alone)
        phrases = Phrases(
            self._settings.prefix,
            self._inbox_id,
            self._alone == "1",
            self._settings.request_timeout,
        )
        self._phrases = phrases
        self._places, self._endings, self._left = phrases.places, phrases.endings, phrases.left

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

    def close_nowait(self) -> None:
        self._listener.close_nowait()
        self._dispatch.wire.close_nowait()

    def _keys_of(self, name: str) -> Keys:
        return self._phrases.place(name).keys

    async def acquire(self, request: Request) -> Grant | Busy:
        name, owner, ttl, meta, queue, waits, _ = request
        if queue and (handed := self.pushed_grant(request)) is not None:
            return handed
        listener, line, direct = self._listener, self._line, self._direct
        if owner in listener.left:
            listener.enter(owner)
        joins = queue or (waits and listener.inbox is not None)
        keys, take, join, _ = self._places.get(name) or self._phrases.place(name)
        now = self._now()
        if joins:
            listener.expect(keys.lock, owner, now)
            take = join
        if line is None:
            answer = await self._acquire_anywhere(request, keys, joins)
        else:
            same_ttl, ending, request_timeout = self._endings.get((meta, joins), _NONE)
            if same_ttl != ttl:
                _, ending, request_timeout = self._phrases.ending(ttl, meta, joins)
            said = owner.encode()
            payload = take + said + ending
            if len(said) != OWNER_LENGTH:
                payload = unusual(take, said, ending)
            answer = (
                direct(payload, request_timeout)
                if direct
                else await line.ask(payload, request_timeout)
            )
            if type(answer) is ReplyError:
                words = (owner, *self._phrases.words(ttl, meta, joins))
                script = self._phrases.acquire
                answer = await self._dispatch.again(script, keys.declared, words, answer)
        if type(answer) is bytes:
            if not queue and owner in listener.waiters:  # it asked for a place, now or before
                listener.unwatch(owner)
            return granted(name, owner, int(answer), ttl, now)
        look_ms, place, holder = answer
        if joins and look_ms < ALIVE_MS:
            listener.look_at(keys.lock, look_ms / 1000)
        return refused(LOOK_S, place if place >= 0 else None, joins, holder.decode())

    async def _acquire_anywhere(self, request: Request, keys: Keys, joins: bool) -> Any:
        words = self._phrases.words(request.ttl, request.meta, joins)
        if self._settings.replicas:
            return await self._confirmed(request, words)
        script, owner, ttl = self._phrases.acquire, request.owner, request.ttl
        return await self._dispatch.run(script, keys.declared, owner, words, ttl)

    async def _confirmed(self, request: Request, words: tuple[Any, ...]) -> Any:
        """Acquire, and believe it only when so many replicas have it."""
        wanted, request_timeout = (
            self._settings.replicas,
            min(request.ttl / 2, self._settings.request_timeout),
        )
        left = self.world.limit() - self.world.now() if request.waits or request.queue else GRACE_S
        wait = packed(
            "WAIT", str(wanted), ms(min(request_timeout / 2, left / 3))
        )  # and time to undo it
        keys = self._keys_of(request.name).declared
        answer, replicas = await self._dispatch.run(
            self._phrases.acquire, keys, request.owner, words, request.ttl, then=wait
        )
        if isinstance(answer, bytes) and not (isinstance(replicas, int) and replicas >= wanted):
            await self._take_back(request)
            raise Unavailable(
                f"{replicas} of {wanted} replicas confirmed the grant of {request.name!r}: "
                "it was taken back and nothing is held. See the replication of the server"
            )
        return answer

    async def renew(self, grants: Sequence[Grant]) -> list[Grant | Gone]:
        now = self.world.now()
        answers: list[Grant | Gone] = [*renewed(grants, now)]
        locks = [lock_of(grant.name, self._settings.prefix) for grant in grants]
        request_timeout = min(grant.ttl for grant in grants) / 3
        groups = self._dispatch.route.groups(locks)
        jobs = [
            Job(
                [key for place in places for key in (locks[place], record_of(locks[place]))],
                [word for p in places for word in (ms(grants[p].ttl), grants[p].owner)],
            )
            for places in groups
        ]
        replies = await self._dispatch.run_all(script("renew"), jobs, request_timeout, "keeper")
        for places, gone in zip(groups, replies, strict=True):
            for number, reason in zip(gone[::2], gone[1::2], strict=True):
                answers[places[number]] = _gone(reason.decode())
        return answers

    async def release(self, grant: Grant) -> bool:
        name, owner, _, ttl, _, _ = grant
        keys, _, _, leave = self._places.get(name) or self._phrases.place(name)
        line, direct = self._line, self._direct
        if line is None:
            script, last = self._phrases.release, self._phrases.last
            freed = await self._dispatch.run(script, keys.declared, owner, last, ttl)
        else:
            said = owner.encode()
            payload = leave + said + self._left
            if len(said) != OWNER_LENGTH:
                payload = unusual(leave, said, self._left)
            request_timeout = ttl if ttl < self._request_timeout else self._request_timeout
            freed = (
                direct(payload, request_timeout)
                if direct
                else await line.ask(payload, request_timeout)
            )
            if type(freed) is ReplyError:
                script, words = self._phrases.release, (owner, *self._phrases.last)
                freed = await self._dispatch.again(script, keys.declared, words, freed)
        return bool(freed)

    async def withdraw(self, request: Request) -> None:
        listener, lock, owner = self._listener, self._keys_of(request.name).lock, request.owner
        listener.leave(lock, owner)
        try:
            await self._take_back(request)
        except BaseException:
            if request.queue or request.waits:
                listener.stay(owner)
            raise
        listener.gone(owner)

    async def _take_back(self, request: Request) -> None:
        name, owner, ttl = request[:3]
        self._listener.forgo(owner)
        await self.release(granted(name, owner, 0, ttl, 0.0))

    async def revoke(self, name: str, reason: str) -> bool:
        keys, request_timeout = self._keys_of(name).declared, self._settings.request_timeout
        took = await self._dispatch.run(
            script("revoke"), keys, reason, (self._alone,), request_timeout
        )
        return bool(took)

    async def watch(self, request: Request, signal: Signal) -> None:
        if not self._listener.hears:
            await self._listener.open()
        self._listener.watch(self._keys_of(request.name).lock, request.owner, signal)

    def wait(  # pyright: ignore[reportIncompatibleMethodOverride]  # Engine's is the same, awaited
        self, signal: Signal, deadline: float
    ) -> Coroutine[Any, Any, None]:
        return self._listener.wait(signal, deadline)

    def pushed_grant(self, request: Request) -> Grant | None:
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
            beside(lock).declared,
            self._inbox_id,
            (self._alone,),
            self._settings.request_timeout,
        )
        return look_ms / 1000, known == 1

    async def _give_back(self, lock: str, owner: str, fence: str) -> None:
        keys, words = beside(lock).declared, (fence, self._alone)
        await self._dispatch.run(
            script("give_back"), keys, owner, words, self._settings.request_timeout
        )

    async def inspect(self, name: str) -> State:
        return await self._look.state(name)

    async def scan(self, prefix: str) -> list[Holding]:
        return await self._look.scan(prefix)

    async def diagnose(self) -> list[Finding]:
        from .doctor import diagnose

        return await diagnose(self._dispatch, self._settings, self.world.wall_us)


def _gone(reason: str) -> Gone:
    if reason:
        return Gone("revoked", reason)
    return Gone("expired", "its key is gone from the server")
