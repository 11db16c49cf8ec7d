"""The model of an ensemble answers as real servers do: the same operations, drawn at random.

Three clients have a session each, at three members of the model, and all at one real server, or
each at a member of a real ensemble. After each operation every client asks for a sign of life, so
that what it watches has been told by then. Answers are compared whole but for what differs by
nature: times, sessions and zxids are replaced by their rank among all that were seen. A server
lists children in any order, and drops the nodes of a session in any order.

A member of an ensemble of ZooKeeper 3.6.0 to 3.8.0 may forget to answer until it has another
request (ZOOKEEPER-4537). Clients that wait send a ping, as those of users do.
"""

from __future__ import annotations

import random
import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from importlib import import_module
from typing import Any, Protocol

import pytest

from fencelock.engines.zookeeper.wire import messages
from fencelock.sim.connection import Connection
from fencelock.sim.network import Conditions, Host, Network
from fencelock.sim.world import Simulation
from fencelock.sim.zookeeper_member import Member, ensemble
from tests.servers.zookeeper import Ensemble, ZooKeeper

kazoo: Any = import_module("kazoo.protocol.serialization")
SESSION_MS = 40_000
WATCH_XID, PING_XID = -1, -2
SILENCE_S = 2.0
PINGS_MAX = 60
CLIENTS = 3
STEPS = 400
NAMES = ["/a", "/b", "/a/x", "/a/y", "/b/x", "/a/x/z"]


class Transport(Protocol):
    """Bytes to a server and from it."""

    def write(self, data: bytes) -> None: ...

    def read(self) -> bytes:
        """Return what has come; TimeoutError after a silence."""
        ...

    def close(self) -> None: ...


class RealLine:
    """A socket."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), SILENCE_S)

    def write(self, data: bytes) -> None:
        self._socket.sendall(data)

    def read(self) -> bytes:
        return self._socket.recv(65536)

    def close(self) -> None:
        self._socket.close()


class ModelLine:
    """A connection of the simulated network; to read is to let time pass."""

    def __init__(self, network: Network, member: Member, name: str) -> None:
        self._simulation = network.simulation
        self._data: list[bytes] = []
        self._is_over = False
        self._line = Connection(network, Host(name), member, self._data.append, self._end)
        self._line.dial(bool)

    def _end(self, why: str) -> None:
        self._is_over = True

    def write(self, data: bytes) -> None:
        self._line.send(data)

    def read(self) -> bytes:
        self._simulation.run(until=lambda: bool(self._data) or self._is_over)
        data = b"".join(self._data)
        self._data.clear()
        return data

    def close(self) -> None:
        self._line.close()


class Asker:
    """One client: a session, what it is answered, and what it is told."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._buffer = b""
        self._xid = 0
        self._pings = 0
        """How many have no reply yet."""
        self.is_closed = False
        self.events: list[tuple[int, str]] = []
        first = messages.connect(0, SESSION_MS, 0, bytes(16))
        transport.write(len(first).to_bytes(4, "big") + first)
        self.timeout_ms, self.session, _ = messages.read_connected(self._frame())

    def _frame(self) -> bytes:
        while len(self._buffer) < 4 or len(self._buffer) < 4 + self._size():
            try:
                data = self._transport.read()
            except TimeoutError:
                assert self._pings < PINGS_MAX, "the server is silent"
                self._ping()
                continue
            if not data:
                raise EOFError
            self._buffer += data
        frame = self._buffer[4 : 4 + self._size()]
        self._buffer = self._buffer[4 + len(frame) :]
        return frame

    def _size(self) -> int:
        return int.from_bytes(self._buffer[:4], "big")

    def ask(self, request: Any) -> tuple[int, int, Any]:
        """The zxid, the code and the reply."""
        self._xid += 1
        self._send(self._xid, request)
        while True:
            number, zxid, code, frame, offset = self._next()
            if number == self._xid:
                return zxid, code, messages.read_reply(request, code, frame, offset)

    def told(self) -> list[tuple[int, str]]:
        """What it was told since the last time."""
        self._ping()
        while self._pings:
            self._next()
        events, self.events = self.events, []
        return events

    def _ping(self) -> None:
        self._pings += 1
        self._send(PING_XID, messages.PING)

    def _send(self, xid: int, request: Any) -> None:
        head = xid.to_bytes(4, "big", signed=True) + request.type.to_bytes(4, "big", signed=True)
        body = head + request.serialize()
        self._transport.write(len(body).to_bytes(4, "big") + body)

    def _next(self) -> tuple[int, int, int, bytes, int]:
        """Read a header and its frame; note what is an event or the reply to a ping."""
        frame = self._frame()
        number, zxid, code, offset = messages.read_header(frame)
        if number == PING_XID:
            self._pings -= 1
        elif number == WATCH_XID:
            event, _ = kazoo.Watch.deserialize(frame, offset)
            assert event.state == 3
            self.events.append((event.type, event.path))
        else:
            assert number == self._xid
        return number, zxid, code, frame, offset

    def is_hung_up_on(self) -> bool:
        try:
            self._frame()
        except EOFError:
            return True
        return False

    def close(self) -> None:
        self.is_closed = True
        self._transport.close()


class Ranks:
    """Numbers as what they can be compared by: equal ones, and the order of others."""

    def __init__(self) -> None:
        self.seen: list[int] = []

    def note(self, number: int) -> tuple[str, int]:
        self.seen.append(number)
        return ("number", len(self.seen) - 1)

    def order(self) -> list[int]:
        """For each number how many different ones are less."""
        place = {number: rank for rank, number in enumerate(sorted(set(self.seen)))}
        return [place[number] for number in self.seen]


class Side:
    """One of the two that are compared."""

    def __init__(
        self, dial: Callable[[int], Transport], settle: Callable[[list[Asker]], object]
    ) -> None:
        self._dial = dial
        self._wait = settle
        """Waits until all members have applied what is committed."""
        self.askers = [Asker(dial(number)) for number in range(CLIENTS)]
        self.zxids = Ranks()
        self._owners = {0: "nobody"}
        self._know(range(CLIENTS))

    def _settle(self) -> None:
        self._wait([asker for asker in self.askers if not asker.is_closed])

    def _know(self, numbers: Iterable[int]) -> None:
        """Sessions have begun."""
        self._settle()
        for number in numbers:
            self._owners[self.askers[number].session] = f"session {number}"

    def do(self, number: int, request: Any) -> list[Any]:
        """What is answered to one, and what all are told."""
        zxid, code, reply = self.askers[number].ask(request)
        self._settle()
        told = [asker.told() for asker in self.askers]
        return [code, self.zxids.note(zxid), self._plain(reply), told]

    def end(self, number: int) -> list[Any]:
        """Close a session, and begin another."""
        asker = self.askers[number]
        zxid, code, _ = asker.ask(messages.CLOSE)
        assert asker.is_hung_up_on()
        asker.close()
        self._settle()
        others = [other for other in self.askers if other is not asker]
        told = [sorted(other.told()) for other in others]
        self.askers[number] = Asker(self._dial(number))
        self._know([number])
        return [code, self.zxids.note(zxid), told, self.askers[number].timeout_ms]

    def _plain(self, reply: Any) -> Any:
        if hasattr(reply, "czxid"):
            reply, note = messages.Stat(*reply), self.zxids.note
            rest = (reply.version, reply.cversion, reply.aversion, reply.size, reply.children)
            times = reply.ctime_ms <= reply.mtime_ms
            zxids = (note(reply.czxid), note(reply.mzxid), note(reply.pzxid))
            return (*zxids, times, self._owners[reply.session], *rest)
        if isinstance(reply, Exception):
            return type(reply).__name__
        if isinstance(reply, tuple):
            return [self._plain(one) for one in reply]
        if isinstance(reply, list):
            plain = [self._plain(one) for one in reply]
            return sorted(plain) if all(isinstance(one, str) for one in reply) else plain
        return reply

    def close(self) -> None:
        """End the sessions too: one that expires later is a write amid the next story."""
        for asker in self.askers:
            if not asker.is_closed:
                with suppress(EOFError, OSError):  # where the comparison has failed
                    asker.ask(messages.CLOSE)
                asker.close()


class Story:
    """The same operations for both, drawn from a seed."""

    def __init__(self, seed: int, root: str) -> None:
        self._random = random.Random(seed)
        self._root = root

    def _path(self) -> str:
        return self._root + self._random.choice(NAMES)

    def write(self, in_multi: bool = False) -> Any:
        pick, path = self._random.random(), self._path()
        version = self._random.choice([-1, -1, -1, 0, 1, 2])
        data = b"%d" % self._random.randrange(1000)
        acl = messages.OPEN if self._random.random() < 0.97 else []
        if pick < 0.5:
            kind = kazoo.Create if in_multi or self._random.random() < 0.4 else kazoo.Create2
            flags = self._random.choice([0, 0, 0, 1, 2, 3])
            odd = "/" if self._random.random() < 0.05 else ""
            return kind(path + odd, data, acl, flags)
        if pick < 0.56 and not in_multi:
            return messages.create_container(path, acl)
        if pick < 0.75:
            return messages.delete(path, version)
        if pick < 0.9 or not in_multi:
            return messages.set_data(path, data, version)
        return messages.check(path, version)

    def read(self) -> Any:
        watcher = _nobody if self._random.random() < 0.6 else None
        kinds = [messages.exists, messages.get_data, messages.get_children]
        kinds.append(kazoo.GetChildren2)
        return self._random.choice(kinds)(self._path(), watcher)

    def step(self) -> tuple[int, Any]:
        """Whose turn it is, and the request; None for the end of its session."""
        number, pick = self._random.randrange(CLIENTS), self._random.random()
        if pick < 0.02:
            return number, None
        if pick < 0.45:
            return number, self.read()
        if pick < 0.5:
            return number, messages.sync(self._path())
        if pick < 0.65:
            parts = [self.write(in_multi=True) for _ in range(self._random.randrange(1, 4))]
            return number, messages.multi(parts)
        return number, self.write()


def _nobody(send: object) -> None:
    """The watchers are the test itself."""


TOGETHER = {"initLimit": "600", "syncLimit": "600"}  # a stall of a member ends no connection
CONTAINERS_STAY = {"znode.container.checkIntervalMs": "3600000"}  # none is removed meanwhile


@pytest.fixture(scope="module")
def server() -> Iterator[ZooKeeper]:
    with ZooKeeper(properties=CONTAINERS_STAY) as server:
        yield server


@pytest.fixture(scope="module")
def standing() -> Iterator[Ensemble]:
    with Ensemble(properties=CONTAINERS_STAY, settings=TOGETHER) as running:
        yield running


def model_side(simulation: Simulation) -> Side:
    network = Network(simulation, Conditions())
    members = ensemble(network)

    def has_settled() -> bool:
        return len({member.tree.zxid for member in members}) == 1

    return Side(
        lambda number: ModelLine(network, members[number], f"client-{number}"),
        lambda askers: simulation.run(until=has_settled),
    )


def real_side(*members: ZooKeeper) -> Side:
    """The clients at one server each, or all at one. A sync is answered by who is up to date."""

    def settle(askers: list[Asker]) -> None:
        for asker in askers if len(members) > 1 else ():
            asker.ask(messages.sync("/"))

    return Side(lambda number: RealLine(members[number % len(members)].port), settle)


@pytest.mark.parametrize("seed", range(6))
def test_the_model_answers_as_a_server_does(server: ZooKeeper, seed: int) -> None:
    compare(seed, server)


@pytest.mark.parametrize("seed", range(6, 9))
def test_the_model_answers_as_an_ensemble_does(standing: Ensemble, seed: int) -> None:
    """Each client is at a member of its own; one of them leads."""
    compare(seed, *standing.members)


def compare(seed: int, *members: ZooKeeper) -> None:
    """Tell the same story to the model and to real servers."""
    root = f"/story-{seed}"
    with Simulation(seed) as simulation:
        sides = model_side(simulation), real_side(*members)
        story = Story(seed, root)
        steps: list[tuple[int, Any]] = [(0, messages.create_persistent(root, messages.OPEN))]
        steps += [story.step() for _ in range(STEPS)]
        try:
            for place, (number, request) in enumerate(steps):
                model, real = [
                    side.end(number) if request is None else side.do(number, request)
                    for side in sides
                ]
                assert model == real, (place, number, request)
            model_order, real_order = [side.zxids.order() for side in sides]
            assert model_order == real_order
        finally:
            for side in sides:
                side.close()
