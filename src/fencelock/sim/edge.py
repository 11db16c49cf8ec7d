"""The client side of the simulated network for the redis engines: a third pool and fan-out.

Each is as thin as those for threads and asyncio, and behaves like asyncio's: one connection for
each node and purpose serves all tasks of a client, replies come in order, and a connection whose
reply does not come within the request timeout is closed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from ..engines.redis.scripts import Script, script
from ..engines.redis.settings import Node as Address
from ..engines.redis.settings import Settings
from ..engines.redis.wire import POOLS
from ..engines.redis.wire.connection import CLOSED, PING, Purpose, cannot_connect, packed
from ..engines.redlock import FANOUTS
from ..engines.redlock.scripts import script as redlock_script
from ..errors import OutcomeUnknown, Unavailable
from ..world import World
from .connection import Connection
from .edge_fanout import Edge, SimFanout
from .tasks import Flag
from .world import SimWorld


class _Answer(Flag):
    """What one call waits for: ``count`` replies, or an error."""

    error = ""

    def __init__(self, count: int) -> None:
        self.count = count
        self.replies: list[Any] = []


class SimConnection:
    """One connection, shared by all tasks of a client that have the same purpose."""

    def __init__(
        self, edge: Edge, world: SimWorld, address: Address, request_timeout: float
    ) -> None:
        self._wait, self._now = world.wait, world.now
        self._address = address
        self._request_timeout = request_timeout
        self._made = Flag()
        self._pending: deque[_Answer] = deque()
        self._why = ""
        node = edge.nodes[address[0]]
        self._connection = Connection(edge.network, edge.host, node, self._received, self.fail)
        self.is_made = False
        """Whether the connection is established, so that a request can be sent without waiting."""
        self._connection.dial(self._reached)

    @property
    def usable(self) -> bool:
        return self._connection.is_open

    def _reached(self) -> None:
        self.is_made = True
        self._made.set()

    async def made(self) -> None:
        """Wait until the connection is established."""
        if not self._made.is_on:
            await self._wait(self._made, self._now() + self._request_timeout)
        if self._made.is_on and not self._why:
            return
        self.close()
        raise cannot_connect(self._address, ConnectionError(self._why or "no answer in time"))

    async def request(self, payload: bytes, count: int, request_timeout: float) -> list[Any]:
        answer = _Answer(count)
        self._pending.append(answer)
        self._connection.send(payload)
        await self._wait(answer, self._now() + request_timeout)
        if not answer.is_on or answer.error:
            self._missed(answer)
        return answer.replies

    async def request_one(self, payload: bytes, request_timeout: float) -> Any:
        """Send a request that has one reply, as most have, and return the reply."""
        answer = _Answer(1)
        self._pending.append(answer)
        self._connection.send(payload)
        await self._wait(answer, self._now() + request_timeout)
        if not answer.is_on or answer.error:
            self._missed(answer)
        return answer.replies[0]

    async def command(self, words: Sequence[str], request_timeout: float) -> Any:
        """The reply to one command, as any client would send it."""
        return await self.request_one(packed(*words), request_timeout)

    def _missed(self, answer: _Answer) -> None:
        """Raise OutcomeUnknown: the request has timed out, or the connection broke."""
        if not answer.is_on:  # what came while the process was paused is handled first
            self.fail("no answer in time")
        where = f"{self._address[0]}:{self._address[1]}"
        raise OutcomeUnknown(f"the connection to {where} broke ({answer.error})")

    def _received(self, replies: list[Any]) -> None:
        pending = self._pending
        for reply in replies:
            answer = pending[0]
            answer.replies.append(reply)
            if len(answer.replies) == answer.count:
                pending.popleft()
                answer.set()

    def fail(self, why: str) -> None:
        """Close the connection; callers that wait for a reply get OutcomeUnknown."""
        self._why = self._why or why
        self.close()
        self._made.set()
        pending, self._pending = self._pending, deque()
        for answer in pending:
            answer.error = why
            answer.set()

    def close(self) -> None:
        self.is_made = False
        self._connection.close()


class SimInbox(SimConnection):
    """A connection that, after its first reply, only receives published messages.

    In every other client a callback takes messages as they arrive, as in asyncio; in the rest they
    are fetched with ``receive()``, as in threads.
    """

    def __init__(
        self, edge: Edge, world: SimWorld, address: Address, request_timeout: float
    ) -> None:
        self.broken = ""
        self.unanswered = False
        self._prompts = world.name[-1:] in "02468"
        self._say: Callable[[bytes], None] | None = None
        self._messages: list[bytes] = []
        self._news = Flag()
        super().__init__(edge, world, address, request_timeout)

    def _received(self, replies: list[Any]) -> None:
        if self._pending:
            super()._received(replies[:1])
            replies = replies[1:]
        self.unanswered = False
        for reply in replies:
            if reply == b"PONG":
                pass
            elif self._say is None:
                self._messages.append(reply[2])
            else:
                self._say(reply[2])
        if self._messages:
            self._news.set()

    async def receive(self, seconds: float) -> list[bytes]:
        if not self._messages and not self.broken:
            await self._wait(self._news, self._now() + max(0.0, seconds))
        self._news.clear()
        messages, self._messages = self._messages, []
        if self.broken and not messages:
            raise Unavailable(f"the inbox was cut off ({self.broken})")
        return messages

    def on_message(self, handle: Callable[[bytes], None]) -> None:
        if self._prompts:
            self._say = handle

    def ping(self) -> None:
        self.unanswered = True
        self._connection.send(PING)

    def interrupt(self) -> None:
        self._news.set()

    def fail(self, why: str) -> None:
        self.broken = why
        super().fail(why)
        self._news.set()


class SimPool:
    """All connections of one client."""

    def __init__(self, edge: Edge, world: SimWorld, settings: Settings) -> None:
        self._edge = edge
        self._world = world
        self._request_timeout = settings.request_timeout
        self._connections: dict[tuple[Address, Purpose], SimConnection] = {}
        self._closed = False

    async def request(
        self, node: Address, payload: bytes, count: int, request_timeout: float, purpose: Purpose
    ) -> Sequence[Any]:
        connection = self.made(node, purpose) or await self._connection_to(node, purpose)
        return await connection.request(payload, count, request_timeout)

    def made(self, node: Address, purpose: Purpose) -> SimConnection | None:
        """Return the established connection for a node and purpose, or None."""
        connection = self._connections.get((node, purpose))
        return connection if connection is not None and connection.is_made else None

    def fast_path(self, node: Address) -> SimFastPath:
        return SimFastPath(self, node)

    async def _connection_to(self, node: Address, purpose: Purpose) -> SimConnection:
        if self._closed:
            raise Unavailable(CLOSED)
        connection = self._connections.get((node, purpose))
        if connection is None or not connection.usable:
            connection = self._connections[node, purpose] = SimConnection(
                self._edge, self._world, node, self._request_timeout
            )
        await connection.made()
        return connection

    async def subscribe(self, node: Address, channel: str) -> SimInbox:
        inbox = SimInbox(self._edge, self._world, node, self._request_timeout)
        try:
            await inbox.made()
            await inbox.request(packed("SUBSCRIBE", channel), 1, self._request_timeout)
        except BaseException as error:
            inbox.close()
            if isinstance(error, OutcomeUnknown):
                raise Unavailable(str(error)) from error
            raise
        return inbox

    def drop(self, node: Address) -> None:
        for key in [key for key in self._connections if key[0] == node]:
            self._connections.pop(key).fail("dropped")

    async def close(self) -> None:
        self.close_nowait()

    def close_nowait(self) -> None:
        self._closed = True
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()


class SimFastPath:
    """Sends requests that have one reply to one node."""

    direct = None

    def __init__(self, pool: SimPool, node: Address) -> None:
        self._pool = pool
        self._node = node
        self._connection: SimConnection | None = None

    def request(self, payload: bytes, request_timeout: float) -> Coroutine[Any, Any, Any]:
        connection = self._connection
        if connection is None or not connection.is_made:
            connection = self._connection = self._pool.made(self._node, "main")
            if connection is None:
                return self._reach(payload, request_timeout)
        return connection.request_one(payload, request_timeout)

    async def _reach(self, payload: bytes, request_timeout: float) -> Any:
        return (await self._pool.request(self._node, payload, 1, request_timeout, "main"))[0]


def _pool(world: World, settings: Settings) -> SimPool:
    assert isinstance(world, SimWorld)
    return SimPool(world.edge, world, settings)


def _fanout(world: World, settings: Settings, scripts: Sequence[Script]) -> SimFanout:
    assert isinstance(world, SimWorld)
    return SimFanout(world.edge, world, settings, scripts)


def install() -> None:
    """Register the pool and the fan-out of the simulator with the engines."""
    POOLS["sim"] = _pool
    FANOUTS["sim"] = _fanout


def script_names() -> dict[bytes, str]:
    """Return the name of each script of a lock by its digest, as requests carry it."""
    own = ("acquire", "release", "renew", "heartbeat", "inspect", "revoke", "leave_queue")
    voting = ("acquire", "fence", "release", "inspect", "revoke")
    found = {script(name).digest: f"{name}.lua" for name in own}
    return found | {redlock_script(name).digest: f"redlock {name}.lua" for name in voting}
