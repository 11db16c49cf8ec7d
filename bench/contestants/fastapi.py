"""The lock service of `bench/fastapi_service.py`, over the client of HTTP that Python has."""

from __future__ import annotations

import json
import threading
from http.client import HTTPConnection
from typing import Any

from bench.contestant import Lock, Session
from bench.load import Loaded, Turns, body_of, post
from bench.lock_service import OnFastApi

TIMEOUT_S = 60.0
WAIT_S = 30.0


class FastApiService(OnFastApi, Loaded):
    """It waits by polling within the service; each thread has a connection."""

    name = "FastAPI service"
    works = frozenset({"load", "pair", "threads", "handoff"})
    yardstick = works

    def connect(self, *, traced: bool = False) -> Session:
        return _Session(self.address)

    def turns(self, name: str) -> Turns:
        take = post("/acquire", f'{{"name":"{name}"}}'.encode())
        while True:
            held = body_of((yield take))  # the answer is what a release asks for
            if b"true" not in body_of((yield post("/release", held))):
                raise RuntimeError("the lock was lost")


class _Session(Session):
    def __init__(self, address: tuple[str, int]) -> None:
        self._address = address
        self._own = threading.local()

    def lock(self, name: str) -> Lock:
        return _Lock(self, name)

    def ask(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        connection = getattr(self._own, "connection", None)
        if connection is None:
            connection = self._own.connection = HTTPConnection(*self._address, timeout=TIMEOUT_S)
        headers = {"Content-Type": "application/json"}
        connection.request("POST", path, json.dumps(body), headers)
        response = connection.getresponse()
        answer: dict[str, Any] = json.loads(response.read())
        if response.status != 200:
            raise RuntimeError(f"the service answered {response.status}: {answer}")
        return answer


class _Lock(Lock):
    def __init__(self, session: _Session, name: str) -> None:
        self._session, self._name = session, name

    def acquire(self) -> int:
        self._held = self._session.ask("/acquire", {"name": self._name, "wait": WAIT_S})
        return 0

    def release(self) -> None:
        self._session.ask("/release", self._held)
