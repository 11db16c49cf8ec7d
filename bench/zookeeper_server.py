"""A ZooKeeper server for the contestants that need one, and what it has done for them."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, ClassVar

from bench.contestant import Contestant, Gauge, Served, Session
from tests.servers.server import Missing, program
from tests.servers.zookeeper import JAVA, ZooKeeper

ROOT = "/bench"
TICK_MS = "2000"  # as in production


class OnZookeeper(Contestant):
    """A contestant whose place is the address of a server of its own."""

    field: ClassVar[str] = "zookeeper"

    @classmethod
    def missing(cls) -> str:
        return super().missing() or _absent()

    @classmethod
    def stage(cls, folder: Path) -> AbstractContextManager[str]:
        return _serve(folder)

    def gauge(self) -> Gauge:
        return ZookeeperGauge(self.place)


class KazooSession(Session):
    """A client of kazoo, for the contestants that use it."""

    def __init__(self, address: str) -> None:
        from kazoo.client import KazooClient

        self.client: Any = KazooClient(hosts=address)
        self.client.start()

    def close(self) -> None:
        self.client.stop()
        self.client.close()


class ZookeeperGauge(Gauge):
    """Counts packets that clients have sent: requests and pings."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._place = (host, int(port))
        self._asked = 0

    def look(self) -> Served:
        with socket.create_connection(self._place, 10) as line:
            line.sendall(b"srvr")
            text = b"".join(iter(lambda: line.recv(4096), b"")).decode()
        self._asked += 1
        received, connections = (
            int(re.findall(rf"(?m)^{key}: (\d+)$", text)[0]) for key in ("Received", "Connections")
        )
        return Served(received - self._asked, connections - 1)


@contextmanager
def _serve(folder: Path) -> Iterator[str]:
    with ZooKeeper(folder, settings={"tickTime": TICK_MS}) as server:
        yield server.address


def _absent() -> str:
    try:
        program("java", "default-jre-headless")
    except Missing as error:
        return str(error)
    return "" if (JAVA / "zookeeper.jar").exists() else "not installed: zookeeper"
