"""Inspect the locks of several nodes: who has a majority, which names there are; revoke."""

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
from .quorum import Ballot, Holder, Sight
from .scripts import script
from .votes import anything, holding, is_one, listed, sight, too_few

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
        """The holder of a name, if there is one."""
        holder = await self._holder(name)
        return [] if holder is None else [holding(name, holder)]

    async def revoke(self, name: str, reason: str) -> bool:
        """Take the key from whoever has a majority, by owner: attempts of others stay untouched."""
        holder = await self._holder(name)
        if holder is None:
            return False
        ballot = Ballot(self._nodes, is_one)
        words = (holder.value, reason)
        call = ScriptCall(script("revoke"), keys_of(name, self._prefix)[:2], words)
        sent = await self._fanout.send(call, ballot.cast, self._until())
        if ballot.carried is None:
            raise too_few(sent, self._need, f"{name!r} may be revoked", happened=True)
        return ballot.carried

    async def scan(self, prefix: str) -> list[Holding]:
        """All holders, by name. Who has a majority is known at one node of any majority."""
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
        sights: list[Sight] = []
        left = self._nodes

        def cast(answer: Any) -> bool:
            nonlocal left
            left -= 1
            if not isinstance(answer, Exception):
                sights.append(sight(answer))
            if quorum.holder_of(sights, 0, self._need) is not None:
                return True
            nobody = quorum.holder_of(sights, self._nodes - len(sights), self._need) is None
            return nobody and len(sights) >= self._need

        call = ScriptCall(script("inspect"), keys_of(name, self._prefix)[:2], ())
        sent = await self._fanout.send(call, cast, self._until())
        if len(sights) < self._need:
            raise too_few(sent, self._need, "who holds it is not known", happened=False)
        return quorum.holder_of(sights, self._nodes - len(sights), self._need)

    async def _names(self, index: int, prefix: str) -> set[str] | None:
        """The names of locks that one node knows; None when it does not answer."""
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
