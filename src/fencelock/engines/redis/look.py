"""Looking at the locks of Redis: who holds a name, who waits for it, and which names there are."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ...errors import OutcomeUnknown
from ...model import Holding, State, Waiting
from .dispatch import Dispatch
from .keys import keys_of, name_of, pattern
from .replies import stranger
from .scripts import script
from .settings import Settings

SCAN_COUNT = "1000"


class Look:
    """What others see of the locks."""

    def __init__(self, dispatch: Dispatch, settings: Settings, alone: str) -> None:
        self._dispatch = dispatch
        self._prefix = settings.prefix
        self._request_timeout = settings.request_timeout
        self._alone = alone

    async def state(self, name: str) -> State:
        """Who holds a name and who waits; one that is free goes to its first waiter."""
        answer = await self._ask(name, hand_on=True)
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

    async def scan(self, prefix: str) -> list[Holding]:
        """All holders of names that begin with the prefix, by name."""
        await self._dispatch.route.find("")
        match = pattern(self._prefix + prefix)
        names: set[str] = set()
        for node in self._dispatch.route.nodes():
            cursor = b"0"
            while True:
                cursor, records = await self._dispatch.command(
                    "SCAN", cursor, "MATCH", match, "COUNT", SCAN_COUNT, node=node
                )
                found = (name_of(record.decode(), self._prefix) for record in records)
                names.update(name for name in found if name and name.startswith(prefix))
                if cursor == b"0":
                    break
        answers = [(name, await self._ask(name, hand_on=False)) for name in sorted(names)]
        return [holding for name, answer in answers for holding in _holdings(name, answer)]

    async def _ask(self, name: str, hand_on: bool) -> list[Any]:
        keys = keys_of(name, self._prefix).declared
        words = ("1" if hand_on else "0", (self._alone,))
        found: list[Any]
        try:
            found = await self._dispatch.run(script("inspect"), keys, *words, self._request_timeout)
        except OutcomeUnknown:  # the connection had died unnoticed: looking twice does no harm
            found = await self._dispatch.run(script("inspect"), keys, *words, self._request_timeout)
        return found


def _holdings(name: str, answer: Sequence[Any]) -> list[Holding]:
    owner, left_ms, record, now_ms = answer[:4]
    if not owner:
        return []
    fields = (record or b"").decode().split(" ", 5)
    if len(fields) < 6 or fields[1] != owner.decode():
        ttl = max(left_ms, 0) / 1000  # taken by another program, which says no more than that
        return [Holding(name, 0, ttl, 0.0, ttl, stranger(left_ms))]
    fence, _, claimed, ttl_ms, since, meta = fields
    if claimed == "0":
        return []
    since_ms = int(since) or int(fence) // 1000
    age = max(0, int(now_ms) - since_ms) / 1000
    return [Holding(name, int(fence), int(ttl_ms) / 1000, age, left_ms / 1000, json.loads(meta))]
