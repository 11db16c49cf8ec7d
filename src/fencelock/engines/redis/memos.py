"""Remember numbers for a name: a hash that outlives the process that wrote it.

An item's number only grows, and so does the time for which the hash of a name is kept: writing the
same again changes nothing. It has nothing to do with the holders of the name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...errors import OutcomeUnknown
from .keys import lock_of, remembered_of
from .prepacked import ms
from .script_runner import ScriptRunner
from .scripts import script
from .settings import Settings
from .wire.connection import ScriptCall, packed


class Memos:
    """The numbers that one client remembers for names."""

    def __init__(self, runner: ScriptRunner, settings: Settings) -> None:
        self._runner = runner
        self._prefix = settings.prefix
        self._request_timeout = settings.request_timeout
        self._replicas = settings.replicas

    async def remember(self, name: str, item: str, number: int, keep: float) -> None:
        """Write a number down; where replicas count, wait until enough of them have it."""
        call = self._call("remember", name, item, str(number), ms(keep))
        if not self._replicas:
            await self._run(call)
            return
        wait = packed("WAIT", str(self._replicas), ms(self._request_timeout / 2))
        _, confirmed = await self._runner.run(call, self._request_timeout, then=wait)
        if not (isinstance(confirmed, int) and confirmed >= self._replicas):
            raise OutcomeUnknown(
                f"{confirmed} of {self._replicas} replicas confirmed what is remembered for "
                f"{name!r}: a failover may forget it"
            )

    async def recall(self, name: str) -> Mapping[str, int]:
        """Return the items of a name, with their numbers."""
        found = await self._run(self._call("recall", name))
        pairs = zip(found[::2], found[1::2], strict=True)
        return {item.decode(): int(number) for item, number in pairs}

    async def forget(self, name: str) -> None:
        """Delete all items of a name."""
        await self._run(self._call("forget", name))

    def _call(self, verb: str, name: str, *words: str) -> ScriptCall:
        return ScriptCall(script(verb), (remembered_of(lock_of(name, self._prefix)),), words)

    async def _run(self, call: ScriptCall) -> Any:
        return await self._runner.run(call, self._request_timeout)
