"""Callers of mode=lease whose statements go in one packet, for tests."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, TypeVar

from fencelock.engines.mysql.group_commit import Batches
from fencelock.engines.mysql.lease import LeaseMode
from tests.faults.flavors import Job, Lab
from tests.servers.mariadb import SqlServer

NAMES = [f"seat:{number}" for number in range(6)]
NEVER_S = 100.0
T = TypeVar("T")


def mode_of(client: Any) -> LeaseMode:
    mode: LeaseMode = client._core.engine._mode
    return mode


class Packet:
    """All that is asked for within the block stands in line; then it goes together."""

    def __init__(self, lab: Lab, client: Any) -> None:
        self._lab = lab
        self._batches: Batches = mode_of(client)._batches
        self._jobs: list[Job[Any]] = []

    async def __aenter__(self) -> Packet:
        self._batches._under_way += self._batches._lanes
        return self

    async def add(self, work: Coroutine[Any, Any, T]) -> Job[T]:
        """Have somebody stand in line, behind those who do."""
        before = len(self._batches._line)
        job = self._lab.start(work)
        self._jobs.append(job)
        await self._lab.until(lambda: len(self._batches._line) > before, "somebody in line")
        return job

    async def __aexit__(self, *_: object) -> None:
        self._batches._under_way -= self._batches._lanes - 1
        self._batches._next()


async def warm(lab: Lab, server: SqlServer, table: str, port: int | None = None) -> Any:
    """A client that knows the rows of all names, and does not give up soon."""
    client = await lab.connect(server.url(port=port), table=table, request_timeout=60)
    for name in NAMES:
        await (await client.lock(name, ttl=60).acquire()).release()
    return client
