"""Semaphores and read/write locks: names with units, of which several owners hold some at a time.

The recipe is that of the mutex, with a count instead of a key: a script finds the leases that have
ended, checks that enough is free and nobody waits, draws the fence and records the holder, in one
step. A name of each kind has its own keys beside those of the mutex of that name.

* Release and expiry hand what is free to the first waiters, for as long as there is enough for the
  first of them. A writer needs all units: it waits until the readers before it have left, and the
  waiters behind it wait for it.
* The next owner is notified and has a moment to claim its share, which is reserved meanwhile. An
  owner that does not claim it is passed over until it sends its request again, and keeps its
  position.
* A holder that sends its request again keeps its share; if it requests fewer units, it keeps only
  those. So a writer becomes a reader.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import lru_cache
from typing import Any

from hiredis import ReplyError

from ...model import Busy, Grant, Request, Share, granted, limits_differ, refused
from ...world import World
from .listener import HEARTBEAT_MS, LOOK_S, Listener
from .prepacked import KEPT_MAX, PrepackedShares, ms
from .script_runner import ScriptRunner
from .scripts import script
from .settings import Settings
from .wire.connection import FastPath, ScriptCall

Confirm = Callable[[Request, ScriptCall], Awaitable[Any]]
"""Runs a script that may grant a request, and raises where too few replicas confirm the grant."""


class Shares:
    """The shares of one client."""

    def __init__(
        self,
        world: World,
        runner: ScriptRunner,
        listener: Listener,
        settings: Settings,
        fast: FastPath | None,
        confirm: Confirm,
    ) -> None:
        self._now = world.now
        self._runner = runner
        self._listener = listener
        self._request_timeout = settings.request_timeout
        self._prepacked = PrepackedShares(settings, listener.inbox, settings.topology != "cluster")
        self._fast, self._direct = fast, fast.direct if fast is not None else None
        self._confirm = confirm
        self._held = lru_cache(KEPT_MAX)(_held)

    def key(self, name: str, share: Share) -> str:
        """Return the key of the holders of this kind of name, for which its waiters wait."""
        return self._prepacked.key(name, share.kind)

    async def acquire(self, request: Request, share: Share) -> Grant | Busy:
        """Take a share if there is enough and nobody waits; otherwise perhaps queue."""
        name, owner, ttl, meta, queue, waits, _, _ = request
        listener, prepacked, fast, direct = (
            self._listener,
            self._prepacked,
            self._fast,
            self._direct,
        )
        key = prepacked.key(name, share.kind)
        if owner in listener.withdrawn:
            listener.reenter(owner)
        joins = queue or (waits and listener.subscription is not None)
        now = self._now()
        if joins:
            listener.join(key, owner, now)
        if fast is None:
            call = prepacked.acquire_call(key, owner, ttl, meta, share, joins)
            answer = await self._confirm(request, call)
        else:
            payload = prepacked.acquire(key, owner, ttl, meta, share, joins)
            timeout = ttl if ttl < self._request_timeout else self._request_timeout
            answer = direct(payload, timeout) if direct else await fast.request(payload, timeout)
            if type(answer) is ReplyError:
                call = prepacked.acquire_call(key, owner, ttl, meta, share, joins)
                answer = await self._runner.rerun(call, answer)
        if type(answer) is bytes:  # the fence, and what is held
            if not queue and owner in listener.waiters.by_owner:  # it was registered to queue
                listener.unwatch(key, owner)
            fence, _, held = answer.decode().partition(" ")
            return granted(name, owner, int(fence), ttl, now, self._held(share, held))
        if type(answer) is int:  # the limit of the semaphore's present users
            listener.unwatch(key, owner)
            raise limits_differ(name, answer, share.limit)
        look_ms, position, holder = answer
        if joins and look_ms < HEARTBEAT_MS:
            listener.look_at(key, look_ms / 1000)
        return refused(LOOK_S, position if position >= 0 else None, joins, holder.decode())

    async def release(self, grant: Grant, share: Share) -> bool:
        """Give a share back, and leave the queue; False when nothing was held."""
        name, owner, _, ttl, _, _, _ = grant
        prepacked, fast, direct = self._prepacked, self._fast, self._direct
        key = prepacked.key(name, share.kind)
        if fast is None:
            return bool(await self._runner.run(prepacked.release_call(key, owner), ttl))
        payload = prepacked.release(key, owner)
        timeout = ttl if ttl < self._request_timeout else self._request_timeout
        freed = direct(payload, timeout) if direct else await fast.request(payload, timeout)
        if type(freed) is ReplyError:
            freed = await self._runner.rerun(prepacked.release_call(key, owner), freed)
        return bool(freed)

    def renewal(self, grants: Sequence[Grant]) -> ScriptCall:
        """Make the call that extends shares whose names are in one slot of a cluster."""
        return ScriptCall(
            script("share_renew"),
            [self.key(grant.name, grant.share) for grant in grants if grant.share is not None],
            [word for grant in grants for word in (ms(grant.ttl), grant.owner)],
        )


def _held(share: Share, answer: str) -> Share:
    """Read the share that is held from the server's ``<units> <slot>``."""
    units, slot = answer.split(" ")
    return Share(share.kind, int(units), share.limit, int(slot) if slot.isdigit() else None)
