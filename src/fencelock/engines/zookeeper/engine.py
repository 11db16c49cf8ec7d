"""The recipe: a lock is a parent node, and the first ephemeral sequential node below it holds it.

* ``queue.py`` creates our node, lists the parent and watches the node to wait for. If there is
  none, the lock is ours.
* The fence is the node's czxid: transaction ids grow across the whole ensemble.
* One session carries all locks of a client. The ensemble expires it one session timeout after the
  last message it knows of, so a lease never lasts longer, on our own clock, than that allows after
  the last *answered write*: a majority has taken part in that, while a read may be served by a
  member that has lost the others.
* A lease whose ttl is shorter than the session timeout is ended by its own client
  (``deletion.py``), and by the ensemble if the client is dead.
* A lease may outlive its client, until the session expires. Another client that knows the owner id
  can take it over before that: ``takeover.py`` moves the node into that client's session.
* ``shares.py`` has the recipes with several holders, on top of the same queue.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from ...engine import EVERY_PROMISE, Address, Engine
from ...errors import EngineError, OutcomeUnknown
from ...model import Busy, Finding, Gone, Grant, Holding, Request, State
from ...world import Signal, World
from . import options
from .deletion import Deletion
from .folders import Folders
from .inspect import Inspection
from .memos import Memos
from .node import Node, key_of
from .observers import Observers
from .queue import Queue, Turn
from .renewal import Renewal
from .shares import Shares
from .takeover import TakeOver
from .wire import make_connection


class ZooKeeperEngine(Engine):
    """``zookeeper://host:port,host:port,host:port/root``."""

    schemes = ("zookeeper",)
    first_holds = True
    drivers = ("kazoo",)
    options: ClassVar = options.READERS
    plain = True
    traits = EVERY_PROMISE._replace(
        advice="ask for less, or for a longer session (session=60, say), which the servers limit"
    )

    def __init__(self, world: World, address: Address) -> None:
        super().__init__(world, address)
        self._settings = options.connection(address)
        self._connection = connection = make_connection(world, self._settings)
        self.traits = self.traits._replace(ttl_max=connection.ttl_max)  # until servers grant one
        recipe = str(address.options.get("recipe", "kazoo"))
        self._nodes: dict[str, Node] = {}  # by owner and kind
        self._folders = folders = Folders(
            connection, options.root(address), options.acl(address), recipe
        )
        self._deletion = Deletion(world, connection, self._nodes, folders)
        self._takeover = TakeOver(world, connection, self._nodes, folders, self._deletion)
        self._queue = Queue(world, connection, self._nodes, folders, self._deletion, self._takeover)
        self._shares = Shares(self._queue)
        self._inspection = Inspection(world, connection, folders)
        self._renewal = Renewal(
            world, connection, self._nodes, folders, self._inspection, self._takeover
        )
        self._memos = Memos(world, connection, folders)
        self._observers = Observers(world, connection, folders)

    async def open(self) -> None:
        await self._connection.open()
        self.traits = self.traits._replace(ttl_max=self._connection.ttl_max)

    async def close(self) -> None:
        await self._deletion.timer.close()
        await self._observers.timer.close()
        now = self.world.now()
        held = [node for node in list(self._nodes.values()) if node.delete_at > now]
        # Grants are not released, as they would be with the end of the session.
        await self._connection.close(end_session=not held)

    def close_nowait(self) -> None:
        self._deletion.timer.close_nowait()
        self._observers.timer.close_nowait()
        self._connection.close_nowait()

    # Acquire

    async def acquire(self, request: Request) -> Grant | Busy:
        try:
            if request.share is not None:
                return await self._shares.acquire(request, request.share)
            turn = await self._queue.turn(request)
            return self._queue.grant(turn, request) if isinstance(turn, Turn) else turn
        except EngineError as error:
            node = self._nodes.get(key_of(request))
            if request.queue or node is None or not node.create_sent:
                raise  # a waiter keeps its position
            raise OutcomeUnknown(
                f"{request.name!r} was asked for, and then ZooKeeper did not serve ({error}): it "
                f"may be held for {node.ttl:g} s",
                until=node.ttl,
            ) from error

    async def watch(self, request: Request, signal: Signal) -> None:
        self._queue.watch(request, signal)

    async def unwatch(self, request: Request) -> None:
        self._queue.unwatch(request)

    # Renew and release

    async def renew(self, grants: Sequence[Grant]) -> list[Grant | Gone]:
        return await self._renewal.renew(grants)

    async def release(self, grant: Grant) -> bool:
        node = self._nodes.get(key_of(grant))
        if node is not None and node.fence == grant.fence and await self._deletion.leave(node):
            return True
        return await self._takeover.release(grant)  # it may be in another client's session

    async def withdraw(self, request: Request) -> None:
        if (node := self._nodes.get(key_of(request))) is not None:
            await self._deletion.leave(node)

    # Remember and observe

    async def remember(self, name: str, item: str, number: int, keep: float) -> None:
        await self._memos.remember(name, item, number, keep)

    async def recall(self, name: str) -> Mapping[str, int]:
        return await self._memos.recall(name)

    async def forget(self, name: str) -> None:
        await self._memos.forget(name)

    async def observe(self, name: str, signal: Signal) -> None:
        await self._observers.observe(name, signal)

    async def unobserve(self, name: str, signal: Signal) -> None:
        self._observers.unobserve(name, signal)

    # Inspect

    async def inspect(self, name: str) -> State:
        return await self._inspection.inspect(name)

    async def scan(self, prefix: str) -> list[Holding]:
        return await self._inspection.scan(prefix)

    async def revoke(self, name: str, reason: str) -> bool:
        return await self._inspection.revoke(name, reason)

    async def diagnose(self) -> list[Finding]:
        from .doctor import diagnose

        return await diagnose(self.world, self._connection, self._settings)
