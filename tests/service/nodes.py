"""Real nodes of the service: processes that listen on free ports, and raw calls to them."""

from __future__ import annotations

import http.client
import json
import secrets
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from tests.cli.program import Process, Program, end, eventually, line

PATIENCE_S = 100.0


class Reply(NamedTuple):
    status: int
    headers: dict[str, str]
    body: Any

    @property
    def problem(self) -> str:
        """The kind of a problem, once it has all members that every problem has."""
        assert self.headers["content-type"] == "application/problem+json", self
        assert self.body["status"] == self.status
        assert isinstance(self.body["may_have_happened"], bool)
        assert isinstance(self.body["retry"], bool)
        assert self.body["advice"]
        assert self.body["detail"]
        kind = str(self.body["type"]).removeprefix("urn:fencelock:problem:")
        assert kind != self.body["type"]
        return kind


class Node:
    """One process that serves."""

    def __init__(self, program: Program, *words: str, url: str | None = None) -> None:
        where = [] if url is None else ["--url", url]
        self.process: Process = program.start("serve", "--port", "0", "--json", *where, *words)
        said = line(self.process)
        assert said, end(self.process).stderr
        self.url = str(json.loads(said)["url"])
        parts = urlsplit(self.url)
        self.host, self.port = str(parts.hostname), int(parts.port or 0)

    def send(
        self,
        method: str,
        path: str,
        data: bytes | None = None,
        headers: dict[str, str] | None = None,
    ) -> Reply:
        connection = http.client.HTTPConnection(self.host, self.port, timeout=PATIENCE_S)
        try:
            connection.request(method, path, data, headers or {})
            response = connection.getresponse()
            raw = response.read()
            found = {name.lower(): value for name, value in response.getheaders()}
            is_json = "json" in found.get("content-type", "")
            return Reply(response.status, found, json.loads(raw) if is_json else raw)
        finally:
            connection.close()

    def call(self, verb: str, body: object = None, token: str | None = None) -> Reply:
        """Make one call; without a body it is a GET."""
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        if body is None:
            return self.send("GET", f"/v1/{verb}", None, headers)
        headers["Content-Type"] = "application/json"
        return self.send("POST", f"/v1/{verb}", json.dumps(body).encode(), headers)

    def acquire(self, name: str, **body: object) -> dict[str, Any]:
        """Acquire, and fail if it is not granted."""
        reply = self.call("acquire", {"name": name, **body})
        assert reply.status == 200, reply
        lease: dict[str, Any] = reply.body
        return lease

    def release(self, *leases: dict[str, Any]) -> list[bool]:
        reply = self.call("release", {"leases": [held(lease) for lease in leases]})
        assert reply.status == 200, reply
        return [one["released"] for one in reply.body["leases"]]

    def renew(self, *leases: dict[str, Any]) -> list[dict[str, Any]]:
        reply = self.call("renew", {"leases": [held(lease) for lease in leases]})
        assert reply.status == 200, reply
        answers: list[dict[str, Any]] = reply.body["leases"]
        return answers

    def queue(self, name: str, length: int) -> None:
        """Wait until so many stand in the queue."""
        eventually(lambda: len(self.inspect(name)["waiters"]) == length)

    def inspect(self, name: str) -> dict[str, Any]:
        reply = self.call("inspect", {"name": name})
        assert reply.status == 200, reply
        state: dict[str, Any] = reply.body
        return state

    def begin(self, verb: str, body: object) -> socket.socket:
        """Send a call and leave its answer unread."""
        data = json.dumps(body).encode()
        peer = socket.create_connection((self.host, self.port), PATIENCE_S)
        head = f"POST /v1/{verb} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        peer.sendall(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)
        return peer

    def stop(self, number: int = signal.SIGTERM) -> int:
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(PATIENCE_S)


def answer_of(peer: socket.socket) -> Reply:
    """Read the answer of a call that was begun, and close its connection."""
    with peer:
        response = http.client.HTTPResponse(peer)
        response.begin()
        found = {name.lower(): value for name, value in response.getheaders()}
        reply = Reply(response.status, found, json.loads(response.read()))
        response.close()
    return reply


def held(lease: dict[str, Any]) -> dict[str, Any]:
    """What a holder sends of its lease."""
    wanted = ("name", "id", "fence", "ttl", "role", "limit", "slot")
    return {key: lease[key] for key in wanted if lease.get(key) is not None}


def new_id() -> str:
    return secrets.token_urlsafe(16)


def reset(peer: socket.socket) -> None:
    """Close so that the other side gets a reset, not an orderly end."""
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
    peer.close()


CUTS: dict[str, Callable[[socket.socket], None]] = {"fin": socket.socket.close, "rst": reset}


def configured(folder: Path, text: str) -> str:
    """A configuration that only its owner can read."""
    file = folder / "fencelock.toml"
    file.touch(mode=0o600)
    file.write_text(text)
    return str(file)
