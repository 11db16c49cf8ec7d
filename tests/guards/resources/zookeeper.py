"""A counter in a node of ZooKeeper."""

from __future__ import annotations

import itertools
import json
import os
from pathlib import Path
from typing import Any

from kazoo.client import KazooClient

from fencelock.guards.zookeeper import ZooKeeperGuard
from tests.servers.shared import shared
from tests.servers.zookeeper import ZooKeeper

NAME = "counter"
REQUEST_TIMEOUT_S = 30.0
_number = itertools.count()


class Counter:
    """One node, which is there from the beginning."""

    @classmethod
    def prepare(cls, folder: Path) -> str:
        root = f"/claim-{os.getpid()}-{next(_number)}"
        where = json.dumps({"hosts": shared(ZooKeeper).address, "root": root})
        client = _connect(where)
        client.create(f"{root}/value", b"0", makepath=True)
        _close(client)
        return where

    def __init__(self, where: str) -> None:
        root = json.loads(where)["root"]
        self._path = f"{root}/value"
        self._client = _connect(where)
        self._guard = ZooKeeperGuard(
            self._client, f"{root}/marks", request_timeout=REQUEST_TIMEOUT_S
        )

    def enter(self, fence: int, reading: bool = False) -> int:
        return int(
            self._guard.enter(fence, self._path, name=NAME, reading=reading)[self._path] or 0
        )

    def write(self, value: int, fence: int) -> None:
        self._guard.set(self._path, str(value).encode(), fence, name=NAME)

    def read(self) -> int:
        self._client.sync(self._path)
        return int(self._client.get(self._path)[0])

    def write_bare(self, value: int) -> None:
        self._client.set(self._path, str(value).encode())

    def mark(self, reading: bool = False) -> int:
        return self._guard.mark(NAME, reading=reading)

    def close(self) -> None:
        _close(self._client)


def _connect(where: str) -> Any:
    client: Any = KazooClient(json.loads(where)["hosts"], timeout=60)  # outlives being frozen
    client.start(REQUEST_TIMEOUT_S)
    return client


def _close(client: Any) -> None:
    client.stop()
    client.close()
