"""Text for the messages on a simulated connection to ZooKeeper, and between its members."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ..sim import model_zookeeper as model
from ..sim import zookeeper_wire as wire
from ..sim.zookeeper import ROOT
from ..sim.zookeeper_wire import Op, Reader
from .message_text import WATCH
from .recorder import Describe

VERBS = {
    wire.CREATE: "create", wire.CREATE_2: "create", wire.CREATE_CONTAINER: "create",
    wire.DELETE: "delete", wire.EXISTS: "look for", wire.GET_DATA: "get", wire.SET_DATA: "set",
    wire.GET_CHILDREN: "list", wire.GET_CHILDREN_2: "list", wire.SYNC: "sync", wire.PING: "ping",
    wire.CHECK: "check", wire.AUTH: "authenticate", wire.CLOSE: "close the session",
    wire.OPEN_SESSION: "open a session", wire.DELETE_CONTAINER: "remove the empty",
}  # fmt: skip
CODES = {
    model.NO_NODE: "no such node", model.NODE_EXISTS: "it exists",
    model.NOT_EMPTY: "it has children", model.BAD_VERSION: "another version",
    model.SESSION_EXPIRED: "the session has expired",
}  # fmt: skip
EVENTS = {
    model.CREATED: "is there", model.DELETED: "is gone", model.CHANGED: "has changed",
    model.CHILDREN_CHANGED: "has other children",
}  # fmt: skip
_GUID = re.compile("[0-9a-f]{32}")


class MessageDescriber:
    """Describes the messages of one play, with the names of actors for their znodes."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names
        """The actor of each znode, by the first characters of its name."""
        self._connections: dict[tuple[str, str], _ConnectionDescriber] = {}

    def describer(self, source: str, target: str) -> Describe:
        """Return the describer of a new direction: the one to the server is created first."""
        connection = self._connections.pop((target, source), None)
        if connection is not None:
            return connection.describe_reply
        connection = self._connections[source, target] = _ConnectionDescriber(self)
        return connection.describe_request

    def path(self, path: str) -> str:
        """Describe a path relative to the root, with the names of actors in it."""
        short = path.removeprefix(f"{ROOT}/")
        return _GUID.sub(lambda found: self._names.get(found[0], "…"), short)

    def op(self, op: Op) -> str:
        """Describe an operation."""
        if op.kind == wire.MULTI:
            return " and ".join(map(self.op, op.parts))
        verb = VERBS.get(op.kind, "ask")
        if op.watches:
            verb = "watch" if op.kind != wire.GET_CHILDREN else "list and watch"
        return f"{verb} {self.path(op.path)}" if op.path else verb

    def between_members(self, message: tuple[Any, ...]) -> str | None:
        """Describe a message between members; None for the pings of each tick."""
        what, _, *words = message
        match what, words:
            case "propose", [record]:
                return f"propose: {self.op(record.entry.op)}"
            case "write", [_, _, op]:
                return f"for the leader: {self.op(op)}"
            case "elect", [epoch, _]:
                return f"elect me, epoch {epoch}"
            case "lead", [log]:
                return f"I lead, with a log of {len(log)}"
            case "looking", _:
                return "looks for a leader"
            case ("ping", _) | ("pong", [()]):
                return None
            case "pong", [touched]:
                return f"has heard of {len(touched)} session{'s' * (len(touched) > 1)}"
            case _:
                return str(what)


class _ConnectionDescriber:
    """One connection of a client, with its pending requests, so that replies can be described."""

    def __init__(self, describer: MessageDescriber) -> None:
        self._describer = describer
        self._has_begun = self._is_greeted = False
        self._requests: dict[int, Op] = {}

    def describe_request(self, what: Any) -> str | None:
        """Describe what a client sends to a server, or one member to another."""
        if what.__class__ is tuple:
            return self._describer.between_members(what)
        return "; ".join(self._request(Reader(frame)) for frame in wire.frames(what))

    def _request(self, reader: Reader) -> str:
        if not self._has_begun:
            self._has_begun = True
            hello = reader.hello()
            if hello.session:
                return "the session goes on"
            return f"begin a session of {hello.timeout_ms / 1000:g} s"
        xid, op = reader.request()
        self._requests[xid] = op
        return self._describer.op(op)

    def describe_reply(self, what: Any) -> str | None:
        """Describe replies and watch events of a server, or a message between members."""
        if what.__class__ is tuple:
            return self._describer.between_members(what)
        return "; ".join(self._reply(Reader(frame)) for frame in wire.frames(what))

    def _reply(self, reader: Reader) -> str:
        if not self._is_greeted:
            self._is_greeted = True
            reader.number()
            timeout_ms = reader.number()
            return (
                f"a session of {timeout_ms / 1000:g} s"
                if timeout_ms
                else CODES[model.SESSION_EXPIRED]
            )
        xid, _, code = reader.number(), reader.long_number(), reader.number()
        if xid == wire.EVENT_XID:
            kind, _, path = reader.number(), reader.number(), reader.text()
            return f"{WATCH}: {self._describer.path(path)} {EVENTS.get(kind, 'has changed')}"
        if xid == wire.PING_XID:
            return "pong"
        op = self._requests.pop(xid, Op(wire.ERROR))
        if code:
            return CODES.get(code, f"error {code}")
        return self._answer(op, reader)

    def _answer(self, op: Op, reader: Reader) -> str:
        match op.kind:
            case wire.CREATE | wire.CREATE_2 | wire.CREATE_CONTAINER:
                return f"created {self._describer.path(reader.text())}"
            case wire.GET_CHILDREN | wire.GET_CHILDREN_2:
                children = [self._describer.path(reader.text()) for _ in range(reader.number())]
                return f"children: {', '.join(children) or 'none'}"
            case _:
                return "done"
