"""An etcd of one member for the contestants that need one, and what it has done for them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import ClassVar
from urllib.request import urlopen

from bench import usage
from bench.contestant import Contestant, Gauge, Served
from tests.servers.etcd import Etcd


class OnEtcd(Contestant):
    """A contestant whose place is the address of an etcd."""

    field: ClassVar[str] = "etcd"

    @classmethod
    def stage(cls, folder: Path) -> AbstractContextManager[str]:
        return _serve(folder)

    def gauge(self) -> Gauge:
        return EtcdGauge(self.place)


@contextmanager
def _serve(folder: Path) -> Iterator[str]:
    with Etcd(folder) as server:
        yield server.address


class EtcdGauge(Gauge):
    """Counts messages that clients have sent: a call is one, and so is a message of a stream."""

    def __init__(self, address: str) -> None:
        self._address = address

    def look(self) -> Served:
        with urlopen(f"http://{self._address}/metrics", timeout=10) as page:
            text = page.read().decode()
        counts = re.findall(r"(?m)^grpc_server_msg_received_total\{.*\} (\S+)$", text)
        port = int(self._address.rpartition(":")[2])
        return Served(int(sum(map(float, counts))), usage.connections(port))
