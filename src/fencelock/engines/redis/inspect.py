"""Inspect the locks of Redis: who holds a name, who waits for it, which names there are; revoke."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ...errors import OutcomeUnknown
from ...model import Holding, State, Waiting
from .errors import foreign
from .keys import keys_of, name_of, pattern
from .script_runner import ScriptRunner
from .scripts import script
from .settings import Settings
from .wire.connection import ScriptCall

SCAN_COUNT = "1000"


class Inspector:
    """What others see of the locks, and how an administrator ends a hold."""

    def __init__(self, runner: ScriptRunner, settings: Settings, alone: str) -> None:
        self._runner = runner
        self._prefix = settings.prefix
        self._request_timeout = settings.request_timeout
        self._alone = alone

    async def state(self, name: str) -> State:
        """Who holds a name and who waits; one that is free goes to its first waiter."""
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

    async def scan(self, prefix: str) -> list[Holding]:
        """All holders of names that begin with the prefix, by name."""
        await self._runner.topology.find("")
        match = pattern(self._prefix + prefix)
        names: set[str] = set()
        for node in self._runner.topology.nodes():
            cursor = b"0"
            while True:
                cursor, records = await self._runner.command(
                    "SCAN", cursor, "MATCH", match, "COUNT", SCAN_COUNT, node=node
                )
                found = (name_of(record.decode(), self._prefix) for record in records)
                names.update(name for name in found if name and name.startswith(prefix))
                if cursor == b"0":
                    break
        answers = [(name, await self._look(name, hand_on=False)) for name in sorted(names)]
        return [holding for name, answer in answers for holding in _holdings(name, answer)]

    async def revoke(self, name: str, reason: str) -> bool:
        """Take the lock from whoever has it, and leave the reason for the holder to find."""
        words = (reason, self._alone)
        call = ScriptCall(script("revoke"), keys_of(name, self._prefix).declared, words)
        return bool(await self._runner.run(call, self._request_timeout))

    async def is_durable(self) -> bool:
        """Whether grants survive a restart of the server; unknown is no."""
        try:
            reply = await self._runner.command("CONFIG", "GET", "appendonly")
        except Exception:
            return False
        return bool(reply[1:2] == [b"yes"])

    async def _look(self, name: str, hand_on: bool) -> list[Any]:
        words = ("1" if hand_on else "0", self._alone)
        call = ScriptCall(script("inspect"), keys_of(name, self._prefix).declared, words)
        found: list[Any]
        try:
            found = await self._runner.run(call, self._request_timeout)
        except OutcomeUnknown:  # the connection had died unnoticed: looking twice does no harm
            found = await self._runner.run(call, self._request_timeout)
        return found


def _holdings(name: str, answer: Sequence[Any]) -> list[Holding]:
    owner, left_ms, record, now_ms = answer[:4]
    if not owner:
        return []
    fields = (record or b"").decode().split(" ", 5)
    if len(fields) < 6 or fields[1] != owner.decode():
        ttl = max(left_ms, 0) / 1000  # taken by another program, which says no more than that
        return [Holding(name, 0, ttl, 0.0, ttl, foreign(left_ms))]
    fence, _, claimed, ttl_ms, since, meta = fields
    if claimed == "0":
        return []
    since_ms = int(since) or int(fence) // 1000
    age = max(0, int(now_ms) - since_ms) / 1000
    return [Holding(name, int(fence), int(ttl_ms) / 1000, age, left_ms / 1000, json.loads(meta))]
