"""Find the server of a key: the only one, the primary that Sentinel names, or the owner of a slot.

Written once for both flavors, over a pool. What was found counts until a server says otherwise or
cannot be reached.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hiredis import ReplyError

from ...errors import EngineError, Misconfigured, OutcomeUnknown, Unavailable
from .errors import Moved, items, mapped
from .settings import Node, Settings, where
from .wire.connection import Pool, packed

SLOTS = 16384
DISCOVER_S = 0.5  # the least that a server gets to answer a query about the others


class Topology:
    """Which servers there are, and which of them serves a key."""

    def __init__(self, settings: Settings, pool: Pool) -> None:
        self._settings = settings
        self._pool = pool
        self.only = settings.nodes[0] if settings.topology == "one" else None
        """The server, where there is only one."""
        self._node: Node | None = self.only
        self._slots: list[Node | None] = []
        self.clustered = settings.topology == "cluster"
        self.moves = settings.topology != "one"
        self._discover_s = max(
            settings.request_timeout / len(settings.nodes),
            min(settings.request_timeout, DISCOVER_S),
        )
        """How long each server may take when several are queried in turn."""

    def known(self, key: str) -> Node | None:
        """Return the server of a key, if it is known."""
        if not self.clustered:
            return self._node
        return self._slots[slot_of(key)] if self._slots else None

    async def find(self, key: str) -> Node:
        """Return the server of a key; query the servers if it is not known."""
        node = self.known(key)
        if node is None:
            await (self._query_cluster() if self.clustered else self._query_sentinels())
            node = self.known(key)
        if node is None:
            raise Unavailable(f"no server of the cluster serves slot {slot_of(key)} at present")
        return node

    def nodes(self) -> list[Node]:
        """Return all servers that are known to serve keys."""
        found = self._slots if self.clustered else [self._node]
        return list(dict.fromkeys(node for node in found if node is not None))

    def forget(self, node: Node) -> None:
        """Close the connections to a server that is not the right one or is unreachable, and forget
        the topology."""
        self._pool.drop(node)
        self.forget_all()

    def forget_all(self) -> None:
        """Forget which server serves which key, where that can change."""
        if self.moves:
            self._node, self._slots = None, []

    def groups(self, keys: Sequence[str]) -> list[list[int]]:
        """Group keys that one request may name together; return their indexes."""
        if not self.clustered:
            return [[*range(len(keys))]]
        slots: dict[int, list[int]] = {}
        for index, key in enumerate(keys):
            slots.setdefault(slot_of(key), []).append(index)
        return list(slots.values())

    async def _query_sentinels(self) -> None:
        service = self._settings.service
        replies = await self._query_all("SENTINEL", "GET-MASTER-ADDR-BY-NAME", service)
        for host, port in filter(None, map(items, replies)):
            node = (str(host.decode()), int(port))
            if await self._is_primary(node):
                self._node = node
                return
        if replies and all(reply is None for reply in replies):
            raise Misconfigured(f"the sentinels do not know a primary called {service!r}")
        raise Unavailable(
            f"none of {len(self._settings.nodes)} sentinels named a primary of {service!r} that "
            "answers: a failover may be under way. Nothing happened"
        )

    async def _is_primary(self, node: Node) -> bool:
        """Return whether a server is a primary: sentinels may name one that is gone or demoted."""
        try:
            (reply,) = await self._query(node, "ROLE")
        except (EngineError, OutcomeUnknown):
            return False
        return items(reply)[:1] == [b"master"]

    async def _query_cluster(self) -> None:
        for reply in await self._query_all("CLUSTER", "SLOTS"):
            slots: list[Node | None] = [None] * SLOTS
            for row in items(reply):
                first, last, (host, port) = row[0], row[1], row[2][:2]
                node = (str(host.decode() or self._settings.nodes[0][0]), int(port))
                slots[first : last + 1] = [node] * (last - first + 1)
            if any(slots):
                self._slots = slots
                return
        raise Unavailable(
            f"none of {len(self._settings.nodes)} servers told the slots of the cluster: see that "
            "they run in cluster mode and can be reached. Nothing happened"
        )

    async def _query_all(self, *words: str) -> list[Any]:
        """Query the servers one after another, up to the first good reply; return all replies."""
        answers: list[Any] = []
        failure: Exception | None = None
        for node in self._settings.nodes:
            try:
                (answer,) = await self._query(node, *words)
                if isinstance(answer, ReplyError):
                    raise mapped(str(answer), where(node))
            except (EngineError, OutcomeUnknown, Moved) as error:
                failure = error
                continue
            answers.append(answer)
            if items(answer):
                return answers
        if not answers and isinstance(failure, Misconfigured):
            raise failure
        return answers

    async def _query(self, node: Node, *words: str) -> Sequence[Any]:
        return await self._pool.request(node, packed(*words), 1, self._discover_s, "main")


def slot_of(key: str) -> int:
    """Return the hash slot of a key in a cluster."""
    from redis.crc import key_slot

    return int(key_slot(key.encode()))
