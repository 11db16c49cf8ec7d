"""A counter in an item of dynalite, a store with DynamoDB's interface and many requests at once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fencelock import StaleFence
from tests.guards.resources import dynamodb
from tests.servers.dynalite import Dynalite
from tests.servers.shared import shared


class Counter(dynamodb.Counter):
    """The same item. dynalite does not tell the mark that refused us, so it is looked up."""

    @classmethod
    def prepare(cls, folder: Path) -> str:
        server = shared(Dynalite)
        return json.dumps({"url": server.url, "table": server.fresh_table()})

    def enter(self, fence: int, reading: bool = False) -> int:
        with self._told():
            return super().enter(fence, reading)

    def write(self, value: int, fence: int) -> None:
        with self._told():
            super().write(value, fence)

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except StaleFence as stale:
            if stale.highest:
                raise  # it tells by now
            told = StaleFence(name=stale.name, offered=stale.offered, highest=self.mark())
            raise told from stale
