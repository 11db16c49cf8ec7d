"""Semaphores and read/write locks: names with units, of which several hold some at a time.

The recipe is that of the mutex, with a count instead of a key: a script finds whose lease is over,
sees whether enough is free and nobody waits, draws the fence and writes the holder down, in one
step. A name of each kind has its own keys beside those of the mutex of that name.

* Release and expiry hand what is free to the first waiters, for as long as there is enough for the
  first of them. A writer wants all units: it waits until the readers before it have left, and
  those behind it wait for it.
* Whoever is next is notified and has a moment to claim its share, which is reserved meanwhile. Who
  does not is passed over until it asks again, and keeps its position.
* Who asks again holds what it held; for fewer units it keeps so many. A writer becomes a reader so.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import lru_cache
from typing import Any

from ...model import Busy, Grant, Request, Share, granted, limits_differ, refused
from ...world import World
from .keys import holders_of, lock_of
from .listener import HEARTBEAT_MS, LOOK_S, Listener
from .prepacked import KEPT_MAX, ms
from .scripts import script
from .wire.connection import ScriptCall

Run = Callable[[ScriptCall, float], Awaitable[Any]]
"""Runs a script within so many seconds."""
Confirm = Callable[[Request, ScriptCall], Awaitable[Any]]
"""Runs a script that may grant a request, and believes it as far as replicas are to confirm it."""


class Shares:
    """The shares of one client."""

    def __init__(
        self, world: World, listener: Listener, prefix: str, alone: str, run: Run, confirm: Confirm
    ) -> None:
        self._now = world.now
        self._listener = listener
        self._prefix = prefix
        self._alone = alone
        self._run = run
        self._confirm = confirm
        self._key = lru_cache(KEPT_MAX)(self._new_key)

    def key(self, name: str, share: Share) -> str:
        """The key of those who hold this kind of name."""
        return self._key(name, share.kind)

    def _new_key(self, name: str, kind: str) -> str:
        return holders_of(lock_of(name, self._prefix), kind)

    async def acquire(self, request: Request, share: Share) -> Grant | Busy:
        """Take a share if there is enough and nobody waits; otherwise perhaps queue."""
        name, owner, ttl, meta, queue, waits, _, _ = request
        listener, key = self._listener, self._key(name, share.kind)
        if owner in listener.withdrawn:
            listener.reenter(owner)
        joins = queue or (waits and listener.subscription is not None)
        now = self._now()
        if joins:
            listener.join(key, owner, now)
        inbox = listener.inbox if joins else ""
        words = (owner, ms(ttl), meta, str(share.units), str(share.limit), inbox, self._alone)
        answer = await self._confirm(request, ScriptCall(script("share_acquire"), (key,), words))
        if type(answer) is bytes:
            if not queue and owner in listener.waiters.by_owner:  # it joined, now or before
                listener.unwatch(key, owner)
            fence, units, slot = answer.decode().split(" ")
            held = share._replace(units=int(units), slot=int(slot) if slot.isdigit() else None)
            return granted(name, owner, int(fence), ttl, now, held)
        if type(answer) is int:
            if owner in listener.waiters.by_owner:
                listener.unwatch(key, owner)
            raise limits_differ(name, answer, share.limit)
        look_ms, position, holder = answer
        if joins and look_ms < HEARTBEAT_MS:
            listener.look_at(key, look_ms / 1000)
        return refused(LOOK_S, position if position >= 0 else None, joins, holder.decode())

    async def release(self, grant: Grant, share: Share) -> bool:
        """Give a share back, and leave the queue; False when there was none."""
        name, owner, _, ttl, _, _, _ = grant
        key = self._key(name, share.kind)
        call = ScriptCall(script("share_release"), (key,), (owner, self._alone))
        return bool(await self._run(call, ttl))

    def renewal(self, grants: Sequence[Grant]) -> ScriptCall:
        """The call that extends shares whose names are in one slot of a cluster."""
        return ScriptCall(
            script("share_renew"),
            [self.key(grant.name, grant.share) for grant in grants if grant.share is not None],
            [word for grant in grants for word in (ms(grant.ttl), grant.owner)],
        )
