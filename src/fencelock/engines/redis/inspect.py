"""Inspect the locks of Redis: holders and waiters of a name, names that are held; revoke them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ...errors import OutcomeUnknown
from ...model import Holding, Role, State, Waiting
from .errors import foreign
from .keys import KINDS, found_by, holders_of, keys_of, pattern
from .script_runner import ScriptRunner
from .scripts import script
from .settings import Settings
from .wire.connection import ScriptCall

SCAN_COUNT = "1000"


class Inspector:
    """What others see of the locks, and how an administrator ends a hold."""

    def __init__(self, runner: ScriptRunner, settings: Settings, one_server: str) -> None:
        self._runner = runner
        self._prefix = settings.prefix
        self._request_timeout = settings.request_timeout
        self._one_server = one_server

    async def state(self, name: str) -> State:
        """Return the holders and waiters of a name, of each kind; hand on what is free."""
        lock, *shares = await self._look([(name, kind) for kind in ("lock", *KINDS)], hand_on=True)
        seen = [_ShareReply(kind, answer) for kind, answer in zip(KINDS, shares, strict=True)]
        return State(
            name,
            (*_holdings(name, lock), *(one for sight in seen for one in sight.holdings(name))),
            (*_waiting(lock), *(one for sight in seen for one in sight.waiting())),
            seen[0].limit or None,
        )

    async def scan(self, prefix: str) -> list[Holding]:
        """Return all holders of names that begin with the prefix, by name."""
        await self._runner.topology.find("")
        match = (
            pattern(self._prefix + prefix) + "*"
        )  # the keys of shares' holders begin with the record's
        found: set[tuple[str, str]] = set()
        for node in self._runner.topology.nodes():
            cursor = b"0"
            while True:
                cursor, keys = await self._runner.command(
                    "SCAN", cursor, "MATCH", match, "COUNT", SCAN_COUNT, node=node
                )
                names = (found_by(key.decode(), self._prefix) for key in keys)
                found.update(one for one in names if one and one[0].startswith(prefix))
                if cursor == b"0":
                    break
        holdings: list[Holding] = []
        for name, kind in sorted(found):
            (answer,) = await self._look([(name, kind)], hand_on=False)
            if kind == "lock":
                holdings += _holdings(name, answer)
            else:
                holdings += _ShareReply(kind, answer).holdings(name)
        return holdings

    async def revoke(self, name: str, reason: str) -> bool:
        """Take a name from all its holders, and leave them the reason to find."""
        keys, words = keys_of(name, self._prefix), (reason, self._one_server)
        calls = [ScriptCall(script("revoke"), keys.declared, words)]
        calls += [
            ScriptCall(script("share_revoke"), (holders_of(keys.lock, kind),), words)
            for kind in KINDS
        ]
        return any(await self._runner.run_all(calls, self._request_timeout, "main"))

    async def is_durable(self) -> bool:
        """Return whether grants survive a restart of the server; unknown counts as no."""
        try:
            reply = await self._runner.command("CONFIG", "GET", "appendonly")
        except Exception:
            return False
        return bool(reply[1:2] == [b"yes"])

    async def _look(self, names: Sequence[tuple[str, str]], hand_on: bool) -> list[Any]:
        """Read names of one slot, each with its kind, in one request."""
        words = ("1" if hand_on else "0", self._one_server)
        calls = [self._call_for(name, kind, words) for name, kind in names]
        try:
            return await self._runner.run_all(calls, self._request_timeout, "main")
        except OutcomeUnknown:  # the connection had died unnoticed: reading twice does no harm
            return await self._runner.run_all(calls, self._request_timeout, "main")

    def _call_for(self, name: str, kind: str, words: Sequence[str]) -> ScriptCall:
        keys = keys_of(name, self._prefix)
        if kind == "lock":
            return ScriptCall(script("inspect"), keys.declared, words)
        return ScriptCall(script("share_inspect"), (holders_of(keys.lock, kind),), words)


class _ShareReply:
    """A server's reply about a semaphore or a read/write lock."""

    def __init__(self, kind: str, answer: Sequence[Any]) -> None:
        self._kind = kind
        self._now_ms, self.limit, count = int(answer[0]), answer[1], answer[2]
        self._holders = answer[3 : 3 + 2 * count]
        self._waiters = answer[3 + 2 * count :]

    def _role(self, units: str) -> Role:
        if self._kind == "semaphore":
            return "semaphore"
        return "write" if int(units) == self.limit else "read"

    def holdings(self, name: str) -> list[Holding]:
        holdings: list[Holding] = []
        for record, left_ms in zip(self._holders[::2], self._holders[1::2], strict=True):
            fence, units, slot, claimed, ttl_ms, since, meta = record.decode().split(" ", 6)
            if claimed == "1":
                age, ttl = max(0, self._now_ms - int(since)) / 1000, int(ttl_ms) / 1000
                role, number = self._role(units), int(slot) if slot.isdigit() else None
                limit = self.limit if self._kind == "semaphore" else None
                shown = (age, left_ms / 1000, json.loads(meta), role, number, limit)
                holdings.append(Holding(name, int(fence), ttl, *shown))
        return holdings

    def waiting(self) -> list[Waiting]:
        found = [data.decode().split(" ", 5) for data in self._waiters if data]
        return [
            Waiting((self._now_ms - int(since)) / 1000, json.loads(meta), self._role(units))
            for _, _, _, since, units, meta in found
        ]


def _waiting(answer: Sequence[Any]) -> list[Waiting]:
    now_ms = int(answer[3])
    found = [data.decode().split(" ", 4) for data in answer[4:] if data]
    return [Waiting((now_ms - int(since)) / 1000, json.loads(meta)) for *_, since, meta in found]


def _holdings(name: str, answer: Sequence[Any]) -> list[Holding]:
    owner, left_ms, record, now_ms = answer[:4]
    if not owner:
        return []
    fields = (record or b"").decode().split(" ", 5)
    if len(fields) < 6 or fields[1] != owner.decode():
        ttl = max(left_ms, 0) / 1000  # held by another program, of which no more is known
        return [Holding(name, 0, ttl, 0.0, ttl, foreign(left_ms))]
    fence, _, claimed, ttl_ms, since, meta = fields
    if claimed == "0":
        return []
    since_ms = int(since) or int(fence) // 1000
    age = max(0, int(now_ms) - since_ms) / 1000
    return [Holding(name, int(fence), int(ttl_ms) / 1000, age, left_ms / 1000, json.loads(meta))]
