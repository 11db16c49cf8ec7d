"""Several locks in one round trip: one script that takes all of them or none.

One server has to have all of their keys, and in a cluster one slot: that is so where the names have
the same hash tag. Otherwise they are acquired one after another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...model import Grant, Request, Together, granted, refused
from .listener import LOOK_S
from .prepacked import Prepacked, ms
from .script_runner import ScriptRunner
from .scripts import script
from .wire.connection import ScriptCall


class Several:
    """Requests of one client for several names at once."""

    def __init__(
        self,
        now: Callable[[], float],
        runner: ScriptRunner,
        prepacked: Prepacked,
        request_timeout: float,
    ) -> None:
        self._now = now
        self._runner = runner
        self._prepacked = prepacked
        self._request_timeout = request_timeout

    async def acquire(self, requests: Sequence[Request]) -> Together:
        """Take all, or return the first that is held; None where others wait for one that is free,
        or where one script cannot have all keys."""
        keys = [self._prepacked.keys(request.name) for request in requests]
        if len(self._runner.topology.groups([each.lock for each in keys])) > 1:
            return None
        call = ScriptCall(
            script("acquire_all"),
            [key for each in keys for key in each.declared],
            [word for one in requests for word in (one.owner, ms(one.ttl), one.meta)],
        )
        now = self._now()
        answer: list[Any] | None
        answer = await self._runner.run(call, min(request.ttl for request in requests))
        if answer is None:
            return None
        if isinstance(answer[0], int):
            number, holder = answer
            return requests[int(number)].name, refused(LOOK_S, None, False, holder.decode())
        return [
            granted(request.name, request.owner, int(fence), request.ttl, now)
            for request, fence in zip(requests, answer, strict=True)
        ]

    async def release(self, grants: Sequence[Grant]) -> list[bool]:
        """Give all back: one write for each server."""
        calls = [self._prepacked.release_call(grant.name, grant.owner) for grant in grants]
        timeout = min(self._request_timeout, *(grant.ttl for grant in grants))
        return [bool(freed) for freed in await self._runner.run_all(calls, timeout, "main")]
