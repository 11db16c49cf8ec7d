"""The lock recipe of articles and manuals over Redis, with the mistakes that some of them print."""

from __future__ import annotations

from typing import Any

from .._client.lock_options import DEFAULT_TTL_S
from ..errors import AcquireTimeout, FencelockError, LeaseLost
from ..sim.edge import SimConnection
from ..sim.network import Host
from ..sim.world import SimWorld
from ..world import Job, sleep
from .clients import Client, Voted
from .document import Actor
from .script import Statement
from .servers import PORT, RedisServers, Servers

RETRY_S = 0.2  # between the attempts of a textbook client
ANSWER_S = 3.0  # its request timeout
CLOCK_DRIFT = 0.01  # of a ttl, as the Redlock page has it, plus 2 ms
DRIFT_MIN_S = 0.002

OWNED_DEL = 'if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("del",KEYS[1]) else return 0 end'  # noqa: E501
OWNED_PEXPIRE = 'if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("pexpire",KEYS[1],ARGV[2]) else return 0 end'  # noqa: E501


class TextbookClient(Client):
    """The recipe as articles print it: a key with a random value, on one server or on several.

    On several it is Redlock as its page describes it: one server after the other, and the rest of
    the ttl by the client's own wall clock. It polls; it has no fence, and is not told of a loss.
    """

    def __init__(self, servers: Servers, world: SimWorld, host: Host, actor: Actor) -> None:
        assert isinstance(servers, RedisServers)
        servers.give_edge(world, host)
        self._servers = servers
        self._world = world
        self._recipe = actor.recipe
        self._connections: dict[str, SimConnection] = {}
        self._key = self._token = ""
        self._ttl: float | None = None
        self._until: float | None = None
        self._won: list[str] = []
        """The servers that have set the key in this attempt, if there are several."""
        self._watchdog: Job | None = None

    async def open(self) -> None:
        for node in self._servers.hosts:
            await self._connection(node.name)

    async def _ask(self, node: str, *words: str) -> Any:
        """Send one command; raise what a driver raises when no reply comes."""
        return await (await self._connection(node)).command(words, ANSWER_S)

    async def _connection(self, node: str) -> SimConnection:
        connection = self._connections.get(node)
        if connection is None or not connection.usable:
            connection = SimConnection(self._world.edge, self._world, (node, PORT), ANSWER_S)
            self._connections[node] = connection
        await connection.made()
        return connection

    async def acquire(self, wanted: Statement) -> float:
        world, self._key = self._world, wanted.word
        self._ttl = None if wanted.forever else wanted.ttl or DEFAULT_TTL_S
        give_up = None if wanted.timeout is None else world.now() + wanted.timeout
        while True:
            self._token = world.owner()
            self._servers.introduce(self._token, world.name)
            if await self._try():
                break
            if give_up is not None and world.now() + RETRY_S > give_up:
                raise AcquireTimeout(f"{wanted.word!r} was not free in time")
            await sleep(world, RETRY_S)
        if self._recipe["renew"] == "watchdog" and self._ttl is not None:
            self._watchdog = world.spawn(self._renew_always(self._ttl), "watchdog")
        return float("inf") if self._ttl is None else self._ttl

    async def _try(self) -> bool:
        nodes = [node.name for node in self._servers.hosts]
        if len(nodes) == 1:
            granted = await self._set(nodes[0])
            self._until = float("inf") if granted else None
            return granted
        began_us, self._won = self._world.wall_us(), []
        for node in nodes:
            try:
                if await self._set(node):
                    self._won = [*self._won, node]
            except FencelockError:
                pass  # on to the next server, as the page describes
        ttl = self._ttl or DEFAULT_TTL_S
        spent = (self._world.wall_us() - began_us) / 1e6
        validity = ttl - spent - (ttl * CLOCK_DRIFT + DRIFT_MIN_S)
        if len(self._won) > len(nodes) // 2 and validity > 0:
            self._until = self._world.simulation.now + validity
            return True
        self._won = []
        await self._delete_everywhere()
        return False

    async def _set(self, node: str) -> bool:
        ends = [] if self._ttl is None else ["PX", str(round(self._ttl * 1000))]
        if self._recipe["acquire"] == "get then set":
            if await self._ask(node, "GET", self._key) is not None:
                return False
            return await self._ask(node, "SET", self._key, self._token, *ends) is not None
        return await self._ask(node, "SET", self._key, self._token, "NX", *ends) is not None

    async def _renew_always(self, ttl: float) -> None:
        while self._until is not None:
            try:
                await self._extend()
            except FencelockError:
                pass  # retry at the next interval
            await sleep(self._world, ttl / 3)

    async def _extend(self) -> int:
        ttl_ms = str(round((self._ttl or DEFAULT_TTL_S) * 1000))
        done = 0
        for node in self._servers.hosts:
            done += await self._ask(
                node.name, "EVAL", OWNED_PEXPIRE, "1", self._key, self._token, ttl_ms
            )
        return done

    async def check(self) -> None:
        """Check with GET that a majority of the servers has this client's value under the key."""
        found = [await self._ask(node.name, "GET", self._key) for node in self._servers.hosts]
        if found.count(self._token.encode()) <= len(found) // 2:
            raise LeaseLost(f"{self._key!r} has another value by now")

    async def renew(self) -> None:
        if await self._extend() <= len(self._servers.hosts) // 2:
            raise LeaseLost(f"{self._key!r} has another value by now")

    async def release(self) -> bool:
        self._until, self._won = None, []
        return await self._delete_everywhere() > len(self._servers.hosts) // 2

    async def _delete_everywhere(self) -> int:
        deleted = 0
        for node in self._servers.hosts:
            try:
                deleted += await self._delete(node.name)
            except FencelockError:
                if len(self._servers.hosts) == 1:
                    raise
        return deleted

    async def _delete(self, node: str) -> int:
        how = self._recipe["release"]
        if how == "lua":
            return int(await self._ask(node, "EVAL", OWNED_DEL, "1", self._key, self._token))
        if (
            how == "get then del"
            and await self._ask(node, "GET", self._key) != self._token.encode()
        ):
            return 0
        return int(await self._ask(node, "DEL", self._key))

    def believed_until(self) -> float | None:
        return self._until

    def voted(self) -> Voted | None:
        nodes = len(self._servers.hosts)
        return None if nodes == 1 else Voted(self._won, nodes // 2 + 1, self._until)
