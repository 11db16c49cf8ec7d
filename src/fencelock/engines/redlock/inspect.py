"""Inspect the locks of several nodes: find who has a majority, list names, and revoke."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...errors import Unavailable
from ...model import Holding
from ..redis.keys import keys_of, name_of, pattern
from ..redis.settings import Settings
from ..redis.wire.connection import ScriptCall, packed
from . import quorum
from .fanout import Fanout
from .quorum import Ballot, Holder, NodeView
from .scripts import script
from .votes import anything, holding, is_one, listed, node_view, too_few

SCAN_COUNT = "1000"


class Inspector:
    """What others see of a Redlock, and how an administrator ends a hold."""

    def __init__(self, fanout: Fanout[Any], settings: Settings, until: Callable[[], float]) -> None:
        self._fanout = fanout
        self._until = until
        self._prefix = settings.prefix
        self._nodes = len(settings.nodes)
        self._need = quorum.majority(self._nodes)

    async def holdings(self, name: str) -> list[Holding]:
        """Return the holder of a name, if there is one."""
        holder = await self._holder(name)
        return [] if holder is None else [holding(name, holder)]

    async def revoke(self, name: str, reason: str) -> bool:
        """Take the key from the owner that has a majority: attempts of others stay untouched."""
        holder = await self._holder(name)
        if holder is None:
            return False
        ballot = Ballot(self._nodes, is_one)
        words = (holder.value, reason)
        call = ScriptCall(script("revoke"), keys_of(name, self._prefix)[:2], words)
        sent = await self._fanout.send(call, ballot.count_vote, self._until())
        if ballot.outcome is None:
            raise too_few(sent, self._need, f"{name!r} may be revoked", happened=True)
        return ballot.outcome

    async def scan(self, prefix: str) -> list[Holding]:
        """Return all holders, by name. Every holder of a majority is known at some node of any
        majority, so a majority of the nodes must list its names."""
        names: set[str] = set()
        listed = 0
        for index in range(self._nodes):
            found = await self._names(index, prefix)
            names.update(found or ())
            listed += found is not None
        if listed < self._need:
            raise Unavailable(
                f"{listed} of {self._nodes} nodes listed their locks and {self._need} are needed; "
                "nothing happened"
            )
        return [found for name in sorted(names) for found in await self.holdings(name)]

    async def _holder(self, name: str) -> Holder | None:
        views: list[NodeView] = []
        left = self._nodes

        def count_vote(answer: Any) -> bool:
            nonlocal left
            left -= 1
            if not isinstance(answer, Exception):
                views.append(node_view(answer))
            if quorum.holder_of(views, 0, self._need) is not None:
                return True
            nobody = quorum.holder_of(views, self._nodes - len(views), self._need) is None
            return nobody and len(views) >= self._need

        call = ScriptCall(script("inspect"), keys_of(name, self._prefix)[:2], ())
        sent = await self._fanout.send(call, count_vote, self._until())
        if len(views) < self._need:
            raise too_few(sent, self._need, "who holds it is not known", happened=False)
        return quorum.holder_of(views, self._nodes - len(views), self._need)

    async def _names(self, index: int, prefix: str) -> set[str] | None:
        """Return the names of locks that one node knows; None when it does not answer."""
        match = pattern(self._prefix + prefix)
        names: set[str] = set()
        cursor = b"0"
        while True:
            command = packed("SCAN", cursor, "MATCH", match, "COUNT", SCAN_COUNT)
            sent = await self._fanout.send(command, anything, self._until(), only={index})
            answer = listed(sent.answers[index])
            if not answer:
                return None
            cursor, records = answer
            found = (name_of(record.decode(), self._prefix) for record in records)
            names.update(name for name in found if name and name.startswith(prefix))
            if cursor == b"0":
                return names
