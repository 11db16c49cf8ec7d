"""The client side of the simulated network for the ZooKeeper engine: a third kind of connection.

It is as thin as those for threads and asyncio: one task connects, pings and goes to another member
when this one is silent; replies are read as they arrive, as in asyncio.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ..engines.zookeeper.wire import CONNECTIONS, Connection, Settings, messages
from ..engines.zookeeper.wire.connection import RETRY_S, TRIES
from ..engines.zookeeper.wire.messages import Batch, Request
from ..errors import OutcomeUnknown, Unavailable
from ..world import Job, World
from .connection import Connection as NetworkConnection
from .connection import Server
from .network import Host, Network
from .tasks import Flag
from .world import SimWorld


class ZooKeeperEdge(NamedTuple):
    """How one client reaches the members."""

    network: Network
    host: Host
    nodes: dict[str, Server]


class SimConnection(Connection):
    """One session, shared by the tasks of a process."""

    def __init__(self, settings: Settings, world: SimWorld) -> None:
        super().__init__(settings, world)
        self._world = world
        self._edge: ZooKeeperEdge = world.edge
        self._ready = Flag()
        self._all_tried = Flag()
        self._retry_now = Flag()
        self._news = Flag()
        """Set when the connection is established, broken, or has been written to."""
        self._connection: NetworkConnection | None = None
        self._broken: Exception | None = None
        self._job: Job | None = None

    async def open(self) -> None:
        self._job = self._world.spawn(self._run(), "zookeeper")
        await self._world.wait(self._all_tried, self._now() + self.open_timeout)
        if not self._ready.is_on:
            self.close_nowait()
            raise self._error

    async def ready(self) -> None:
        if not self._ready.is_on:
            self._retry_now.set()
            until = self._now() + self.reconnect_timeout
            if self._closed or not await self._world.wait(self._ready, until):
                raise Unavailable(f"no server of the ensemble answers ({self._error})")

    async def call(self, *requests: Request, session: int = 0) -> list[Any]:
        if not requests:
            return []
        for _ in range(TRIES):
            if not self._ready.is_on:
                await self.ready()
            if (connection := self._connection) is not None:
                break
        else:
            raise Unavailable(
                "the connection to ZooKeeper breaks again and again; nothing was sent"
            )
        self._require_session(session)
        done = Flag()
        batch = Batch(len(requests), done.set)
        sent_at, within = self._now(), self.request_timeout
        self._write(connection, self._session.send(requests, batch))
        await self._world.wait(done, sent_at + within)
        if not batch.is_done:
            if self._now() >= sent_at + within:
                self._fail(TimeoutError("the server is silent"))
            raise self._no_reply(requests, broke=False)
        if batch.lost:
            raise self._no_reply(requests)
        return self._checked(requests, batch.replies, sent_at)

    async def close(self, end_session: bool) -> None:
        if end_session and self._ready.is_on:
            try:
                await self.call(messages.CLOSE)
            except (Unavailable, OutcomeUnknown):
                pass  # it ends by its timeout
        self.close_nowait()
        if self._job is not None:
            await self._job.join(self._now() + RETRY_S)

    def close_nowait(self) -> None:
        self._closed = True
        self._retry_now.set()
        self._fail(ConnectionAbortedError("closed by us"))

    # Connecting

    async def _run(self) -> None:
        while not self._closed:
            for _ in range(len(self._hosts)):
                host = self._next_host()
                try:
                    await self._serve(host[0])
                except Exception as error:
                    self._member_failed(host, error)
                finally:
                    self._disconnect()
                if self._closed:
                    return
            self._all_tried.set()
            await self._world.wait(self._retry_now, self._now() + RETRY_S)
            self._retry_now.clear()

    async def _serve(self, name: str) -> None:
        """Connect to one member, and send pings until the connection breaks."""
        network, host, nodes = self._edge
        self._broken = None
        self._news.clear()
        connection = self._connection = NetworkConnection(
            network, host, nodes[name], self._received, self._lost
        )
        connection.dial(self._news.set)
        await self._world.wait(self._news, self._now() + self.connect_timeout)
        if not connection.is_established and self._broken is None:
            raise TimeoutError("no answer in time")
        self._silent_since = None
        self._connected_at = self._now()
        self._write(connection, self._session.connect())
        while (broken := self._broken) is None:
            if self._ping_due():
                self._write(connection, self._session.ping())
            self._news.clear()
            await self._world.wait(self._news, self._now() + self._seconds_until_check())
        raise broken

    def _disconnect(self) -> None:
        if self._ready.is_on:
            self._broken_at = self._now()
        self._ready.clear()
        connection, self._connection = self._connection, None
        self._session.connection_lost()
        if connection is not None:
            connection.close()

    # Reading and writing

    def _write(self, connection: NetworkConnection, data: bytes) -> None:
        self._writing()
        connection.send(data)
        self._news.set()

    def _received(self, data: bytes) -> None:
        self._silent_since = None
        try:
            following = self._session.receive(data)
        except Exception as error:
            self._fail(error)
            return
        if following and self._connection is not None:
            self._write(self._connection, following)
        if self._session.connected and not self._ready.is_on:
            if self._session.is_new:
                self.contact_at = self._connected_at
            self._ready.set()
            self._all_tried.set()

    def _lost(self, why: str) -> None:
        self._fail(ConnectionResetError(why))

    def _fail(self, error: Exception) -> None:
        """Mark the connection as broken, and wake the task that then leaves it."""
        if self._broken is None:
            self._broken = error
        self._news.set()


def _connection(settings: Settings, world: World) -> SimConnection:
    assert isinstance(world, SimWorld)
    return SimConnection(settings, world)


def install() -> None:
    """Register the simulator's connection with the engine."""
    CONNECTIONS["sim"] = _connection
