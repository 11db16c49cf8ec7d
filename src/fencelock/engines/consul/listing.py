"""Read and revoke the locks of all clients.

Ages are computed from wall clocks, which may differ between machines: they are for display, and
nothing is decided by them. The remaining time of a lease is known to its holder only: its whole ttl
is shown.
"""

from __future__ import annotations

import json
import re

from ...errors import Unavailable
from ...model import Gone, Holding, State, in_order
from ...world import World
from .agents import Agents, Refused
from .pairs import Keys, Pair, delete, lock, path_of, read_pair, read_value, unchanged
from .sessions import Sessions
from .settings import SESSION_TTL_MAX_S

TRIES = 10
LOST = Gone("revoked", "its key was deleted, or written to by another program")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")


class Listing:
    """Inspects and revokes locks by one client's requests."""

    def __init__(self, world: World, agents: Agents, keys: Keys, sessions: Sessions) -> None:
        self._world = world
        self._agents = agents
        self._keys = keys
        self._sessions = sessions

    async def inspect(self, name: str) -> State:
        pair = await self._agents.find(self._keys.of(name))
        return State(name, (await self._holding(name, pair),) if pair and pair.session else ())

    async def scan(self, prefix: str) -> list[Holding]:
        target = f"{path_of(self._keys.below(prefix))}?recurse&consistent"
        listed = await self._agents.get(target, lambda found: list(map(read_pair, found)))
        found = list[Holding]()
        for pair in listed or ():
            name = self._keys.name(pair.key)
            if pair.session and not pair.is_contender and name and name.startswith(prefix):
                found.append(await self._holding(name, pair))
        return in_order(found)

    async def _holding(self, name: str, pair: Pair) -> Holding:
        if pair.owner:
            age = max(self._world.wall_us() - pair.since_us, 0) / 1e6
            return Holding(name, pair.fence, pair.ttl, age, pair.ttl, pair.meta)
        target = f"/v1/session/info/{pair.session}"  # another program's lock: read its session
        info = await self._agents.get(target, lambda found: dict(found[0]) if found else {}) or {}
        meta = {"host": str(info.get("Node", "")), "session": str(info.get("Name", ""))}
        said = _DURATION.findall(str(info.get("TTL", "")))
        ttl = sum(float(n) * _UNITS[unit] for n, unit in said) or SESSION_TTL_MAX_S
        return Holding(name, pair.fence, ttl, 0.0, ttl, meta)

    async def revoke(self, name: str, reason: str) -> bool:
        """Delete a holder's key, in a transaction that writes the reason to a key for its owner.

        That key is on a session of its own, which is never renewed, so that Consul deletes it in
        the end.
        """
        key = self._keys.of(name)
        for _ in range(TRIES):
            pair = await self._agents.find(key)
            if pair is None or not pair.session:
                return False
            operations = [unchanged(key, pair.modify_index), delete(key)]
            if pair.owner:
                ttl = self._sessions.ttl_for(max(pair.ttl, 10.0))
                session = await self._sessions.create("fencelock-revocation", ttl)
                word = json.dumps({"reason": reason})
                operations.append(lock(self._keys.revocation(pair.owner), session, word))
            if not isinstance(await self._agents.transact(*operations), Refused):
                return True
        raise Unavailable(f"{name!r} changed hands faster than it could be revoked; it was not")

    async def why_gone(self, owner: str) -> Gone:
        """Return why an owner no longer holds its key."""
        target = f"{path_of(self._keys.revocation(owner))}?consistent"
        word = await self._agents.get(target, lambda found: read_value(found[0]))
        return LOST if word is None else Gone("revoked", str(word.get("reason", "")))
