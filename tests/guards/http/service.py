"""Servers of the counters, and a counter as a client of one."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from http.client import HTTPConnection
from pathlib import Path
from typing import ClassVar
from uuid import uuid4

from fencelock.guards.http import fencing_headers, raise_if_stale
from tests.servers.server import Server
from tests.servers.shared import shared

ROOT = Path(__file__).parents[3]
TIMEOUT_S = 30.0


class Service(Server):
    """One process that serves."""

    package = "none"
    kind: ClassVar[str]

    def command(self) -> Sequence[str]:
        self.environment = {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])}
        return [sys.executable, "-m", "tests.guards.http.serve", self.kind, str(self.port)]

    def answers(self) -> bool:
        line = HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT_S)
        try:
            line.request("GET", "/bare/nobody")
            return line.getresponse().status == 200
        finally:
            line.close()


class AsgiService(Service):
    kind = "asgi"


class WsgiService(Service):
    kind = "wsgi"


class ServedCounter:
    """A counter of a service."""

    service: ClassVar[type[Service]]

    @classmethod
    def prepare(cls, folder: Path) -> str:
        return json.dumps({"port": shared(cls.service).port, "name": uuid4().hex})

    def __init__(self, where: str) -> None:
        place = json.loads(where)
        self._name = place["name"]
        self._line = HTTPConnection("127.0.0.1", place["port"], timeout=TIMEOUT_S)

    def enter(self, fence: int, reading: bool = False) -> int:
        return self._ask("GET", "counters", fence=fence, reading=reading)

    def write(self, value: int, fence: int) -> None:
        self._ask("PUT", "counters", value, fence)

    def read(self) -> int:
        return self._ask("GET", "bare")

    def write_bare(self, value: int) -> None:
        self._ask("PUT", "bare", value)

    def mark(self, reading: bool = False) -> int:
        return self._ask("GET", "written" if reading else "marks")

    def close(self) -> None:
        self._line.close()

    def _ask(
        self,
        method: str,
        kind: str,
        value: int | None = None,
        fence: int = 0,
        reading: bool = False,
    ) -> int:
        headers = fencing_headers(fence, reading=reading) if fence else {}
        body = None if value is None else str(value)
        self._line.request(method, f"/{kind}/{self._name}", body, headers)
        response = self._line.getresponse()
        text = response.read()
        if fence:
            raise_if_stale(response.status, text, fence)
        assert response.status == 200, (response.status, text)
        return int(text)
