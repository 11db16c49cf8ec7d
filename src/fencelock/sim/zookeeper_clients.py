"""The clients of one member of a simulated ZooKeeper ensemble: connections, sessions, replies.

Reads are answered from the tree of the member, and everything else is sent to the leader. The
replies on a connection have the order of its requests.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Protocol

from . import zookeeper_wire as wire
from .connection import Connection
from .model_zookeeper import Answer, Tree
from .world import Simulation
from .zookeeper_wire import Hello, Op

TICK_S = 0.5
SESSION_MIN_S, SESSION_MAX_S = 2 * TICK_S, 80 * TICK_S


class ServingMember(Protocol):
    """What serving clients requires of their member."""

    number: int
    is_down: bool
    serves: bool
    tree: Tree

    def touch(self, session: int) -> None:
        """Note that the client of a session has sent something."""
        ...

    def send_to_leader(self, what: str, tag: int, session: int, op: Op | None) -> None:
        """Send a request to the leader; the answer with this tag comes to ``answered``."""
        ...


class Client:
    """A connection of a client, and its requests that wait."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.hello: Hello | None = None
        self.session = 0
        self.queue: deque[tuple[int, Op]] = deque()
        self.waits: Callable[[Answer, int], object] | None = None
        """Called with the leader's answer and its zxid; until then no other request is served."""

    def say(self, data: bytes) -> None:
        self.connection.down.carry(data)

    def tell(self, kind: int, path: str) -> None:
        """Send the event of a watch."""
        self.say(wire.event(kind, path))


class ClientPort:
    """The connections of a member's clients."""

    def __init__(self, member: ServingMember, simulation: Simulation) -> None:
        self._member = member
        self._simulation = simulation
        self._clients: dict[Connection, Client] = {}
        self._waiting: dict[int, Client] = {}
        self._tags = self._sessions_made = 0

    def accept(self, connection: Connection) -> None:
        """Establish a new connection, or refuse it if the member is down."""
        if self._member.is_down:
            connection.down.send(partial(connection.lost, "refused"))
            return
        self._clients[connection] = Client(connection)
        connection.down.send(connection.established)

    def leave(self, connection: Connection) -> None:
        """Forget a connection that its client has closed, and its watches."""
        client = self._clients.pop(connection, None)
        if client is not None:
            client.waits = None
            self._member.tree.watches.drop(client.tell)

    def receive(self, connection: Connection, payload: bytes) -> None:
        """Queue the requests that arrived on a connection, and serve them in order."""
        client = self._clients.get(connection)
        if client is None:
            connection.down.send(partial(connection.lost, "reset by the server"))
            return
        for frame in wire.frames(payload):
            reader = wire.Reader(frame)
            if client.hello is not None:
                client.queue.append(reader.request())
                self._member.touch(client.session)
            elif not self._greet(client, reader.hello()):
                self._hang_up(client, "the server does not serve")
                return
        self._serve(client)

    def _hang_up(self, client: Client, why: str) -> None:
        self.leave(client.connection)
        client.connection.down.send(partial(client.connection.lost, why))

    def end_session(self, session: int) -> None:
        """Close the connections of a session that has ended."""
        for client in [one for one in self._clients.values() if one.session == session]:
            self._hang_up(client, "the session has ended")

    def drop(self, why: str) -> None:
        """Close all connections, and forget the requests that the leader has not answered."""
        for client in list(self._clients.values()):
            self._hang_up(client, why)
        self._waiting.clear()

    def _greet(self, client: Client, hello: Hello) -> bool:
        """Open a session, or revalidate one with the leader; False if this member cannot serve."""
        if not self._member.serves or hello.zxid > self._member.tree.zxid:
            return False
        client.hello = hello
        if hello.session:
            wanted = hello.session if hello.password == _password(hello.session) else 0
            self._request(client, self._welcome, "revalidate", wanted)
        else:
            bounded = min(max(hello.timeout_ms, SESSION_MIN_S * 1000), SESSION_MAX_S * 1000)
            self._sessions_made += 1
            begun = int(self._simulation.now * 1000) << 16
            session = self._member.number + 1 << 56 | begun | self._sessions_made & 0xFFFF
            op = Op(wire.OPEN_SESSION, version=int(bounded))
            self._request(client, self._welcome, "write", session, op)
        return True

    def _welcome(self, client: Client, session: int, answer: Answer, zxid: int) -> None:
        timeout_ms = int.from_bytes(answer.body, "big")
        if answer.code or not timeout_ms:
            client.say(wire.welcome(0, 0, bytes(16)))
            self._hang_up(client, "the session has expired")
            return
        client.session = session
        client.say(wire.welcome(timeout_ms, session, _password(session)))

    def _serve(self, client: Client) -> None:
        """Answer the requests in order, up to one that has to go to the leader."""
        while client.queue and client.waits is None and client.connection in self._clients:
            xid, op = client.queue.popleft()
            reply = partial(self._reply, xid, op)
            if op.kind in wire.WRITES:
                self._request(client, reply, "write", client.session, op)
            elif op.kind == wire.SYNC:
                self._request(client, reply, "sync", client.session, op)
            elif op.kind in (wire.PING, wire.AUTH):
                client.say(wire.reply(xid, self._member.tree.zxid, 0))
            else:
                answer = self._member.tree.read(op, client.tell)
                client.say(wire.reply(xid, self._member.tree.zxid, *answer))

    def _reply(self, xid: int, op: Op, client: Client, _: int, answer: Answer, zxid: int) -> None:
        body = wire.text(op.path) if op.kind == wire.SYNC else answer.body
        client.say(wire.reply(xid, zxid, answer.code, body))
        if op.kind == wire.CLOSE:
            self._hang_up(client, "the session is closed")

    def _request(
        self,
        client: Client,
        take: Callable[[Client, int, Answer, int], object],
        what: str,
        session: int,
        op: Op | None = None,
    ) -> None:
        """Send a request to the leader; ``take`` passes its answer to the client."""
        self._tags += 1
        client.waits = partial(take, client, session)
        self._waiting[self._tags] = client
        self._member.send_to_leader(what, self._tags, session, op)

    def answered(self, tag: int, answer: Answer, zxid: int) -> None:
        """Pass the leader's answer to the client that has sent the request."""
        client = self._waiting.pop(tag, None)
        if client is not None and client.waits is not None:
            take, client.waits = client.waits, None
            take(answer, zxid)
            self._serve(client)


def _password(session: int) -> bytes:
    return session.to_bytes(8, "big") * 2
