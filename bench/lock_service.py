"""Servers behind HTTP for the contestants of one field: ours, one of FastAPI, and the floor.

A place is the URL of the server; its fragment has the process ids of all that serves there, so that
a work can look at their memory and say on which core they run.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import ClassVar
from urllib.parse import urlsplit
from urllib.request import urlopen

from bench import usage
from bench.contestant import Contestant, Gauge, Served
from bench.redis_server import redis_is_absent
from tests.servers.redis import Redis
from tests.servers.server import Server
from tests.servers.service import Service

ROOT = Path(__file__).parents[1]
FIELD = "lock service"
TIMEOUT_S = 30.0


class Placed(Contestant):
    """A contestant of the field: where its server is, and which processes that is."""

    field: ClassVar[str] = FIELD

    @property
    def base(self) -> str:
        """The URL, without the processes."""
        return urlsplit(self.place)._replace(fragment="").geturl()

    @property
    def address(self) -> tuple[str, int]:
        parts = urlsplit(self.place)
        assert parts.hostname is not None
        assert parts.port is not None
        return parts.hostname, parts.port

    @property
    def processes(self) -> list[int]:
        """Those that serve: first the one that clients talk to."""
        return [int(word) for word in urlsplit(self.place).fragment.split(",")]


class OnService(Placed):
    """Competes through `fencelock serve`, with a Redis server behind it."""

    @classmethod
    def missing(cls) -> str:
        return super().missing() or redis_is_absent()

    @classmethod
    def stage(cls, folder: Path) -> AbstractContextManager[str]:
        return _serve_ours(folder)

    def gauge(self) -> Gauge:
        return ServiceGauge(self.base, self.address[1], self.processes[0])


class ServiceGauge(Gauge):
    """Counts calls as the service does: when they are answered, those of an operator left out."""

    def __init__(self, url: str, port: int, process: int) -> None:
        self._url, self._port, self._process = url, port, process

    def look(self) -> Served:
        with urlopen(f"{self._url}/metrics", timeout=TIMEOUT_S) as page:
            text = page.read().decode()
        requests = _sum(r'fencelock_service_requests_total\{call="/v1/.*\}', text)
        return Served(
            requests,
            usage.connections(self._port),
            memory=usage.resident_bytes(self._process),
            waiting=_sum(r"fencelock_waiting\{.*\}", text),
        )


class OnFastApi(Placed):
    """Competes through a service that is made with FastAPI and redis-py's Lock."""

    needs = ("fastapi", "uvicorn", "redis")

    @classmethod
    def missing(cls) -> str:
        return super().missing() or redis_is_absent()

    @classmethod
    def stage(cls, folder: Path) -> AbstractContextManager[str]:
        return _serve_fastapi(folder)


class OnUvicorn(Placed):
    """Asks an application that does nothing."""

    needs = ("uvicorn",)

    @classmethod
    def stage(cls, folder: Path) -> AbstractContextManager[str]:
        return _serve_nothing(folder)


class Uvicorn(Server):
    """One process, as many people run it: with httptools and uvloop where they are there."""

    package = "uvicorn"

    def __init__(self, app: str, folder: Path) -> None:
        super().__init__(folder)
        self._app = app

    @property
    def url(self) -> str:
        return f"http://{self.address}"

    def command(self) -> list[str]:
        return [
            *(sys.executable, "-m", "uvicorn", "--app-dir", str(ROOT), self._app, "--lifespan=off"),
            *("--port", str(self.port), "--log-level", "warning", "--no-access-log"),
        ]

    def answers(self) -> bool:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT_S)
        try:
            connection.request("GET", "/openapi.json")
            return connection.getresponse().status == 200
        finally:
            connection.close()


def place_of(url: str, *servers: Server) -> str:
    return f"{url}#{','.join(str(server.pid) for server in servers)}"


@contextmanager
def _serve_ours(folder: Path) -> Iterator[str]:
    with Redis(folder / "redis") as store, Service(store.url, folder / "service") as service:
        yield place_of(service.url, service, store)


@contextmanager
def _serve_fastapi(folder: Path) -> Iterator[str]:
    service = Uvicorn("bench.fastapi_service:app", folder / "service")
    with Redis(folder / "redis") as store:
        service.environment["REDIS_URL"] = store.url
        with service:
            yield place_of(service.url, service, store)


@contextmanager
def _serve_nothing(folder: Path) -> Iterator[str]:
    with Uvicorn("bench.bare_asgi:app", folder) as service:
        yield place_of(service.url, service)


def _sum(series: str, text: str) -> int:
    return int(sum(map(float, re.findall(rf"(?m)^{series} (\S+)$", text))))
