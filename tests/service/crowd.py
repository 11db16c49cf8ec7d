"""Clients of several nodes that take locks by turns, and the history of what they were told."""

from __future__ import annotations

import http.client
import itertools
import json
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from fencelock.judge import History, Promises, Verdict, verdict
from tests.service.nodes import Reply, held, new_id

Where = tuple[str, int]

ANSWER_S = 100.0
DRIFT = 0.01  # less of a lease than it was granted for: clocks run apart


class Caller:
    """A client of all nodes. A call that found no node, or one that ends, goes to the next one.

    That is what the document advises: the same call, with the same id. The outcome of a call that
    was cut is unknown until one with the same id is answered.
    """

    def __init__(self, nodes: Sequence[Where], token: str | None = None) -> None:
        self._nodes = itertools.cycle(nodes)
        self._now = next(self._nodes)
        self._headers = {"Content-Type": "application/json"}
        if token is not None:
            self._headers["Authorization"] = f"Bearer {token}"
        self.refused = 0
        """Calls that were sent again."""

    def once(self, verb: str, body: object, timeout: float = ANSWER_S) -> Reply:
        connection = http.client.HTTPConnection(*self._now, timeout=timeout)
        try:
            data = json.dumps(body).encode()
            connection.request("POST", f"/v1/{verb}", data, self._headers)
            response = connection.getresponse()
            headers = {name.lower(): value for name, value in response.getheaders()}
            return Reply(response.status, headers, json.loads(response.read()))
        finally:
            connection.close()

    def call(self, verb: str, body: object, stopped: Callable[[], bool] = lambda: False) -> Reply:
        """Make a call until it is answered for certain."""
        while True:
            try:
                reply = self.once(verb, body)
            except (OSError, http.client.HTTPException, ValueError):
                reply = None
            if reply is not None and reply.status < 500:
                return reply
            assert reply is None or reply.status in (503, 504), reply
            assert not stopped(), "no node answers"
            self.go_elsewhere()
            time.sleep(0.02)

    def go_elsewhere(self) -> None:
        """Send the next call to another node."""
        self.refused += 1
        self._now = next(self._nodes)


class Crowd:
    """Threads that contend for one lock, and one that keeps another all the time."""

    def __init__(self, nodes: Sequence[Where], size: int, ttl: float, name: str = "seat") -> None:
        self._nodes = nodes
        self._ttl = ttl
        self._name = name
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._began = time.monotonic()
        self.history = History(clock=lambda: time.monotonic() - self._began)
        self.turns = 0
        self.renewals = 0
        self.errors: list[BaseException] = []
        work: list[Callable[[], None]] = [self._keep]
        work += [lambda number=number: self._contend(f"c{number}") for number in range(size)]  # type: ignore[misc]
        self._threads = [threading.Thread(target=self._watched, args=(one,)) for one in work]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End all turns; what went wrong in a thread is raised here."""
        self._stop.set()
        for thread in self._threads:
            thread.join(ANSWER_S)
            assert not thread.is_alive(), "a client has not ended"
        if self.errors:
            raise self.errors[0]

    def verdict(self) -> Verdict:
        return verdict(self.history, Promises(ttl=self._ttl))

    def _watched(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            self.errors.append(error)

    def _keep(self) -> None:
        """Hold a lock all the time: it is lost at no renewal, and keeps its fence."""
        caller = Caller(self._nodes)
        lease = caller.call("acquire", {"name": "kept", "id": new_id(), "ttl": 60}).body
        while not self._stop.is_set():
            (renewed,) = caller.call("renew", {"leases": [held(lease)]}).body["leases"]
            assert renewed["held"], renewed
            self.renewals += 1
            time.sleep(0.05)
        (holder,) = caller.call("inspect", {"name": "kept"}).body["holders"]
        assert holder["fence"] == lease["fence"]
        assert caller.call("release", {"leases": [held(lease)]}).body["leases"][0]["released"]

    def _contend(self, client: str) -> None:
        caller = Caller(self._nodes)
        while not self._stop.is_set():
            lease = self._acquire(client, caller)
            if lease is not None:
                time.sleep(0.01)
                self._release(client, caller, lease)

    def _acquire(self, client: str, caller: Caller) -> dict[str, Any] | None:
        with self._lock:
            op = self.history.invoke(client, "acquire", self._name)
        body = {"name": self._name, "id": new_id(), "ttl": self._ttl, "wait": 5}
        while True:
            sent = time.monotonic()
            try:
                reply = caller.once("acquire", body)
            except (OSError, http.client.HTTPException, ValueError):
                reply = None
            if reply is not None and reply.status in (200, 409):
                break
            assert reply is None or reply.status in (503, 504), reply
            caller.go_elsewhere()
        with self._lock:
            until = sent + (1 - DRIFT) * (reply.body.get("waited", 0.0) + self._ttl)
            if reply.status != 200 or time.monotonic() > until:
                why = "busy" if reply.status == 409 else "it came too late"
                self.history.end("fail", client, "acquire", op, self._name, detail=why)
                return None
            fence = reply.body["fence"]
            self.history.end("ok", client, "acquire", op, self._name, fence, ttl=self._ttl)
            self.turns += 1
        return {**reply.body, "until": until}

    def _release(self, client: str, caller: Caller, lease: dict[str, Any]) -> None:
        with self._lock:
            if time.monotonic() > lease["until"]:
                self.history.note(client, "lost", self._name, lease["fence"])
            op = self.history.invoke(client, "release", self._name, lease["fence"])
        reply = caller.call("release", {"leases": [held(lease)]})
        kind = "ok" if reply.body["leases"][0]["released"] else "unknown"
        with self._lock:
            self.history.end(kind, client, "release", op, self._name, lease["fence"])
