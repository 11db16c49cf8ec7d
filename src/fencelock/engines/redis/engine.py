"""Redis and Valkey: a lock is a plain key with a time to live, and a script decides in one step.

The recipe is the well-known ``SET key owner NX PX ttl``, released only by its owner, so that any
other program that locks this way on the same key is kept out and keeps us out. What is added, in
the same round trip: a fence, a queue that is served first come first, and a push to the next owner.

The server judges expiry on its own wall clock and forgets what it did not persist or replicate: so
this is an engine for efficiency. The fence is what protects the resource. It is the higher of
last + 1 and the server's clock in microseconds, so it also grows after the record of a name has
expired, and after the server lost its data, as long as its clock does not run back by more than
the outage took.
"""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, ClassVar

from hiredis import ReplyError

from ...engine import EVERY_PROMISE, Address, Engine
from ...errors import Unavailable
from ...model import (
    Busy,
    Finding,
    Gone,
    Grant,
    Holding,
    Request,
    Share,
    State,
    Together,
    granted,
    refused,
    renewed,
)
from ...world import GRACE_S, Signal, World
from .inspect import Inspector
from .keys import lock_of, record_of
from .listener import HEARTBEAT_MS, LOOK_S, Listener
from .memos import Memos
from .observers import Observers
from .prepacked import Prepacked, ms
from .script_runner import ScriptRunner
from .scripts import script
from .settings import OPTIONS, settings
from .several import Several
from .shares import Shares
from .wire.connection import FastPath, ScriptCall, packed

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
    traits = EVERY_PROMISE._replace(safety="efficiency", durable=False, advice=ADVICE)

    def __init__(self, world: World, address: Address) -> None:
        super().__init__(world, address)
        self._now = world.now
        self._settings = settings(address)
        self._request_timeout = self._settings.request_timeout
        self._runner = ScriptRunner(world, self._settings)
        is_one_server = self._settings.topology != "cluster"  # it reaches all clients' inboxes
        one_server = "1" if is_one_server else "0"
        self._listener = Listener(world, self._runner, self._request_timeout, one_server)
        self._observers = Observers(world, self._runner, self._listener, self._settings, one_server)
        self._inspector = Inspector(self._runner, self._settings, one_server)
        self._memos = Memos(self._runner, self._settings)
        self._prepacked = Prepacked(self._settings, self._listener.inbox, is_one_server)
        self._several = Several(self._now, self._runner, self._prepacked, self._request_timeout)
        self._replicas = self._settings.replicas
        """How many replicas have to confirm a grant; if any, a push is no grant by itself."""
        only = self._runner.topology.only
        self._fast: FastPath | None = None
        """The shortest way of a request, where one server decides without its replicas."""
        if only is not None and not self._replicas:
            self._fast = self._runner.pool.fast_path(only)
        self._direct = self._fast.direct if self._fast is not None else None
        self._shares = Shares(
            world, self._runner, self._listener, self._settings, self._fast, self._confirmed
        )

    async def open(self) -> None:
        await self._runner.command("PING")
        self.traits = self.traits._replace(durable=await self._inspector.is_durable())

    async def close(self) -> None:
        await self._listener.close()
        await self._runner.pool.close()

    def close_nowait(self) -> None:
        self._listener.close_nowait()
        self._runner.pool.close_nowait()

    # Acquire, renew, release

    async def acquire(self, request: Request) -> Grant | Busy:
        name, owner, ttl, meta, queue, waits, _, share = request
        if share is not None:
            return await self._shares.acquire(request, share)
        if queue and (pushed := self.pushed_grant(request)) is not None:
            return pushed
        listener, fast, direct = self._listener, self._fast, self._direct
        if owner in listener.withdrawn:
            listener.reenter(owner)
        joins = queue or (waits and listener.subscription is not None)
        now = self._now()
        if joins:
            listener.join(self._prepacked.keys(name).lock, owner, now)
        if fast is None:
            call = self._prepacked.acquire_call(name, owner, ttl, meta, joins)
            answer = await self._confirmed(request, call)
        else:
            payload, timeout = self._prepacked.acquire(name, owner, ttl, meta, joins)
            answer = direct(payload, timeout) if direct else await fast.request(payload, timeout)
            if type(answer) is ReplyError:
                call = self._prepacked.acquire_call(name, owner, ttl, meta, joins)
                answer = await self._runner.rerun(call, answer)
        if type(answer) is bytes:  # the fence
            if not queue and owner in listener.waiters.by_owner:  # it was registered to queue
                listener.unwatch(self._prepacked.keys(name).lock, owner)
            return granted(name, owner, int(answer), ttl, now)
        look_ms, position, holder = answer
        if joins and look_ms < HEARTBEAT_MS:
            listener.look_at(self._prepacked.keys(name).lock, look_ms / 1000)
        return refused(LOOK_S, position if position >= 0 else None, joins, holder.decode())

    async def acquire_all(self, requests: Sequence[Request]) -> Together:
        return None if self._replicas else await self._several.acquire(requests)

    async def release_all(self, grants: Sequence[Grant]) -> list[bool]:
        return await self._several.release(grants)

    async def _confirmed(self, request: Request, call: ScriptCall) -> Any:
        """Run a script that may grant a request; where replicas count, only if enough confirm."""
        ttl, wanted = request.ttl, self._replicas
        if not wanted:
            return await self._runner.run(call, ttl)
        seconds = min(ttl / 2, self._request_timeout) / 2
        left = self.world.limit() - self._now() if request.waits or request.queue else GRACE_S
        wait = packed("WAIT", str(wanted), ms(min(seconds, left / 3)))  # and time to undo it
        answer, replicas = await self._runner.run(call, ttl, then=wait)
        if isinstance(answer, bytes) and not (isinstance(replicas, int) and replicas >= wanted):
            await self._take_back(request)
            raise Unavailable(
                f"{replicas} of {wanted} replicas confirmed the grant of {request.name!r}: "
                "it was taken back and nothing is held. See the replication of the server"
            )
        return answer

    async def renew(self, grants: Sequence[Grant]) -> list[Grant | Gone]:
        answers: list[Grant | Gone] = [*renewed(grants, self._now())]
        locks = [lock_of(grant.name, self._settings.prefix) for grant in grants]
        groups: list[list[int]] = []
        for group in self._runner.topology.groups(locks):
            shares = [i for i in group if grants[i].share is not None]
            mutexes = [i for i in group if grants[i].share is None] if shares else group
            groups += [part for part in (mutexes, shares) if part]
        calls = [self._renewal([grants[i] for i in group]) for group in groups]
        request_timeout = min(grant.ttl for grant in grants) / 3
        replies = await self._runner.run_all(calls, request_timeout, "keeper")
        for group, gone in zip(groups, replies, strict=True):
            for number, reason in zip(gone[::2], gone[1::2], strict=True):
                answers[group[number]] = _gone(reason.decode())
        return answers

    def _renewal(self, grants: Sequence[Grant]) -> ScriptCall:
        """Make the call that extends grants of one slot, all of them mutexes or all shares."""
        if grants[0].share is not None:
            return self._shares.renewal(grants)
        locks = [lock_of(grant.name, self._settings.prefix) for grant in grants]
        return ScriptCall(
            script("renew"),
            [key for lock in locks for key in (lock, record_of(lock))],
            [word for grant in grants for word in (ms(grant.ttl), grant.owner)],
        )

    async def release(self, grant: Grant) -> bool:
        name, owner, _, ttl, _, _, share = grant
        if share is not None:
            return await self._shares.release(grant, share)
        fast, direct = self._fast, self._direct
        if fast is None:
            freed = await self._runner.run(self._prepacked.release_call(name, owner), ttl)
        else:
            payload = self._prepacked.release(name, owner)
            timeout = ttl if ttl < self._request_timeout else self._request_timeout
            freed = direct(payload, timeout) if direct else await fast.request(payload, timeout)
            if type(freed) is ReplyError:
                call = self._prepacked.release_call(name, owner)
                freed = await self._runner.rerun(call, freed)
        return bool(freed)

    async def withdraw(self, request: Request) -> None:
        listener, owner = self._listener, request.owner
        listener.withdraw(self._key(request.name, request.share), owner)
        try:
            await self._take_back(request)
        except BaseException:
            if request.queue or request.waits:
                listener.listen_for(owner)
            raise
        listener.has_left(owner)

    async def _take_back(self, request: Request) -> None:
        name, owner, ttl, share = request.name, request.owner, request.ttl, request.share
        self._listener.retract(self._key(name, share), owner)
        await self.release(granted(name, owner, 0, ttl, 0.0, share))

    def _key(self, name: str, share: Share | None) -> str:
        """Return the key under which the listener registers the waiters of a name."""
        return self._prepacked.keys(name).lock if share is None else self._shares.key(name, share)

    # Wait

    async def watch(self, request: Request, signal: Signal) -> None:
        if self._listener.subscription is None:
            await self._listener.open()
        key = self._key(request.name, request.share)
        self._listener.watch(key, request.owner, signal)

    def wait(  # pyright: ignore[reportIncompatibleMethodOverride]  # Engine's is the same, awaited
        self, signal: Signal, deadline: float
    ) -> Coroutine[Any, Any, None]:
        return self._listener.wait(signal, deadline)

    def pushed_grant(self, request: Request) -> Grant | None:
        if self._replicas:
            return None
        name, owner, ttl = request[:3]
        found = self._listener.waiters.pushed_grant(owner, ttl)
        return None if found is None else granted(name, owner, found[0], ttl, found[1])

    async def unwatch(self, request: Request) -> None:
        self._listener.unwatch(self._key(request.name, request.share), request.owner)

    async def leave_queue(self, request: Request) -> None:
        await self._listener.leave_queue(self._key(request.name, request.share), request.owner)

    # Observe, and remember

    async def announce(self, name: str) -> None:
        await self._observers.announce(name)

    async def observe(self, name: str, signal: Signal) -> None:
        await self._observers.observe(name, signal)

    async def unobserve(self, name: str, signal: Signal) -> None:
        self._observers.unobserve(name, signal)

    async def remember(self, name: str, item: str, number: int, keep: float) -> None:
        await self._memos.remember(name, item, number, keep)

    async def recall(self, name: str) -> Mapping[str, int]:
        return await self._memos.recall(name)

    async def forget(self, name: str) -> None:
        await self._memos.forget(name)

    # Inspect

    async def inspect(self, name: str) -> State:
        return await self._inspector.state(name)

    async def scan(self, prefix: str) -> list[Holding]:
        return await self._inspector.scan(prefix)

    async def revoke(self, name: str, reason: str) -> bool:
        return await self._inspector.revoke(name, reason)

    async def diagnose(self) -> list[Finding]:
        from .doctor import diagnose

        return await diagnose(self._runner, self._replicas, self.world.wall_us)


def _gone(reason: str) -> Gone:
    if reason:
        return Gone("revoked", reason)
    return Gone("expired", "its key is gone from the server")
