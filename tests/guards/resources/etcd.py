"""A counter in a key of etcd."""

from __future__ import annotations

import itertools
import json
import os
from pathlib import Path

from fencelock.guards.etcd import EtcdGuard
from tests.servers.etcd import Etcd
from tests.servers.shared import shared

NAME = "counter"
_number = itertools.count()


class Counter:
    """One key; who knows of no guard writes it by a transaction without a condition."""

    @classmethod
    def prepare(cls, folder: Path) -> str:
        prefix = f"claim-{os.getpid()}-{next(_number)}/"
        return json.dumps({"endpoint": f"http://{shared(Etcd).address}", "prefix": prefix})

    def __init__(self, where: str) -> None:
        place = json.loads(where)
        self._key = f"{place['prefix']}value"
        self._guard = EtcdGuard(place["endpoint"], prefix=f"{place['prefix']}marks/", timeout=30)
        self._bare = EtcdGuard(place["endpoint"], prefix=f"{place['prefix']}bare/", timeout=30)

    def enter(self, fence: int, reading: bool = False) -> int:
        return int(self._guard.enter(fence, self._key, name=NAME, reading=reading)[self._key] or 0)

    def write(self, value: int, fence: int) -> None:
        self._guard.put(self._key, str(value), fence, name=NAME)

    def read(self) -> int:
        return int(self._bare.enter(1, self._key, name="all")[self._key] or 0)

    def write_bare(self, value: int) -> None:
        self._bare.put(self._key, str(value), 1, name="all")

    def mark(self, reading: bool = False) -> int:
        return self._guard.mark(NAME, reading=reading)

    def close(self) -> None:
        pass
