"""A reader of Server-Sent Events, over a socket of its own."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable
from typing import Any, NamedTuple
from urllib.parse import quote

from tests.service.nodes import PATIENCE_S, Node


class Event(NamedTuple):
    kind: str
    id: str
    data: dict[str, Any]

    @property
    def name(self) -> str:
        lock = self.data.get("lock")
        return str(lock["name"] if lock else self.data.get("name", ""))


class Stream:
    """The events of one node, as one reader gets them."""

    def __init__(
        self, node: Node, prefix: str = "", token: str = "", last: str = "", queue: str = ""
    ) -> None:
        self._connection = http.client.HTTPConnection(node.host, node.port, timeout=PATIENCE_S)
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        if last:
            headers["Last-Event-ID"] = last
        looked = f"&queue={quote(queue)}" if queue else ""
        self._connection.request("GET", f"/v1/events?prefix={quote(prefix)}{looked}", None, headers)
        self._response = self._connection.getresponse()
        self.status = self._response.status
        self.headers = {name.lower(): value for name, value in self._response.getheaders()}
        self.comments = 0
        self.last = last
        self.seen: list[Event] = []

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self._response.close()
        self._connection.close()

    def next(self) -> Event | None:
        """The next event; None when the stream has ended."""
        fields: dict[str, str] = {}
        while line := self._response.readline().decode():
            key, _, value = line.rstrip("\n").partition(": ")
            if not key and "data" not in fields:
                self.comments += line.startswith(":")
                fields.clear()
            elif not key:
                data = json.loads(fields["data"])
                assert (data["schema"], data["kind"]) == (1, fields["event"])
                self.last = fields.get("id", self.last)
                event = Event(fields["event"], fields.get("id", ""), data)
                self.seen.append(event)
                return event
            else:
                fields[key] = value
        return None

    def until(self, wanted: Callable[[Event], bool]) -> Event:
        """Read on to the first event of this kind."""
        while event := self.next():
            if wanted(event):
                return event
        raise AssertionError("the stream has ended")

    def one(self, kind: str, name: str) -> Event:
        return self.until(lambda event: (event.kind, event.name) == (kind, name))

    def snapshot(self) -> dict[str, dict[str, Any]]:
        """The locks of a snapshot by name, with all its parts."""
        locks: dict[str, dict[str, Any]] = {}
        more = True
        while more:
            event = self.until(lambda event: True)
            assert event.kind == "snapshot", event
            locks |= {one["name"]: one for one in event.data["locks"]}
            more = event.data["more"]
            assert bool(event.id) != more
        return locks
