"""The recipe: a lock is a folder, and whoever's ephemeral sequential node comes first holds it.

* Joining creates a node and lists the folder, both sent in one go. First: it is ours. Not first:
  watch the one before us, and no other, so that a release wakes one waiter. It always looks again,
  even if nobody stood before the one who left: its own node may have been deleted meanwhile, and
  whoever has no node holds nothing. That look is sent with the event, and the waiter woken with
  its answer.
* How a node's name begins is known before it is made: a hash of its owner. When the answer to a
  creation is lost, that is how it is found again, and nobody stands in the queue twice.
* The fence is the node's czxid, which the whole ensemble counts up.
* One session carries all locks of a client. The ensemble drops it a timeout after it last heard of
  us, so a lease never lasts longer than our own clock allows after the last *answered write*: a
  majority has taken part in that, while a read may come from a member that has lost the others.
* A lease whose ttl is shorter than the session is ended by its own client (``cleanup.py``), and by
  the ensemble when the client is dead.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from ...engine import Address, Engine
from ...errors import EngineError, OutcomeUnknown, Unavailable
from ...model import Busy, Finding, Gone, Grant, Holding, Request, State, Traits, granted
from ...world import Signal, World
from . import options, paths
from .cleanup import Sweeper, locate
from .deletion import Leaving
from .folders import Folders
from .inspect import View
from .node import Node, read_words
from .renewal import Keeping
from .wire import messages
from .wire.connection import make_wire, read_settings

LOOK_S = 60.0  # the net under the watch, which also tells of a broken connection
LOOKS_MAX = 100  # each look finds another predecessor gone, so the end comes long before
CLOSE_S = 2.0


class ZooKeeperEngine(Engine):
    """``zookeeper://host:port,host:port,host:port/root``."""

    schemes = ("zookeeper",)
    drivers = ("kazoo",)
    options: ClassVar = options.READERS
    plain = True
    traits = Traits(
        safety="correctness", scope="network", fence=True, fifo=True, push=True, durable=True
    )

    def __init__(self, world: World, address: Address) -> None:
        super().__init__(world, address)
        self._recipe = str(address.options.get("recipe", "kazoo"))
        self._acl = options.acl(address)
        self._wire = make_wire(world, address)
        self._nodes: dict[str, Node] = {}
        self._signals: dict[str, Signal] = {}
        self._sweeper = Sweeper(world, self._wire, self._nodes)
        self._folders = Folders(self._wire, self._sweeper, options.root(address), self._acl)
        self._leaving = Leaving(world, self._wire, self._nodes, self._sweeper, self._folders)
        self._view = View(world, self._wire, self._folders)
        self._keeping = Keeping(world, self._wire, self._nodes, self._sweeper, self._view)

    async def open(self) -> None:
        await self._wire.open()

    async def close(self) -> None:
        await self._sweeper.close(self.world.now() + CLOSE_S)
        now = self.world.now()
        held = [node for node in self._nodes.values() if node.until > now]
        # Grants are not released: with the session they would be.
        await self._wire.close(end=not held)

    def close_nowait(self) -> None:
        self._sweeper.stop()
        self._wire.close_nowait()

    # Acquiring

    async def acquire(self, request: Request) -> Grant | Busy:
        try:
            return await self._wait_in_queue(request)
        except EngineError as error:
            node = self._nodes.get(request.owner)
            if request.queue or node is None or not node.tried:
                raise  # one who waits stays where it is
            raise OutcomeUnknown(
                f"{request.name!r} was asked for, and then ZooKeeper did not serve ({error}): it "
                f"may be held for {node.ttl:g} s",
                until=node.ttl,
            ) from error

    async def _wait_in_queue(self, request: Request) -> Grant | Busy:
        asked_at = self.world.now()
        for _ in range(LOOKS_MAX):
            node = self._node(request)
            order = await self._order(node, request)
            if (twin := node.twin(order)) is not None:
                return await self._adopt(node, request, twin, asked_at)
            if node.predecessor is None:
                if node.child not in order:  # deleted by somebody: stand in line anew
                    self._nodes[request.owner] = self._new(request, reborn=True)
                    continue
                place = order.index(node.child)
                if place == 0:
                    if (contact := await self._contact(node, asked_at)) is not None:
                        return self._grant(node, request, asked_at, contact)
                    continue
                node.predecessor, node.next = order[place - 1], place == 1
            if not request.queue:
                return await self._refuse(node, request, order)
            answer = await self._watch_predecessor(node, order)
            if answer is not None:
                return answer
        raise Unavailable(f"the queue of {request.name!r} changed faster than it could be read")

    def _node(self, request: Request) -> Node:
        node = self._nodes.get(request.owner)
        if node is None or node.is_over(self._wire.session):
            reborn = node is not None
            node = self._nodes[request.owner] = self._new(request, reborn)
        self._want(node, self._wire.request_timeout if node.waits else 0.0)
        if node.doomed:
            node.until = self.world.now()  # should this deletion fail, the next one is due
            raise Unavailable(
                f"an earlier try for {request.name!r} is being taken back; nothing is held"
            )
        node.signal = self._signals.get(request.owner)
        return node

    def _want(self, node: Node, longer: float) -> None:
        """Keep a node while somebody asks about it, and no longer: it may never be asked for
        again, as when a signal handler raises."""
        node.until = self.world.now() + node.ttl + longer
        self._sweeper.nudge(node.until)

    def _new(self, request: Request, reborn: bool = False) -> Node:
        folder = self._folders.path(request.name)
        prefix = paths.protected(request.owner, self._recipe)
        node = Node(request, folder, prefix, self.world.now, self._sweeper.nudge)
        node.reborn = reborn
        return node

    async def _order(self, node: Node, request: Request) -> list[str]:
        """All contenders in order; nothing where it is known already who stands before us."""
        if node.child is None and node.tried:
            children = await locate(self._wire, node)
            if node.child is not None:
                return await self._see(node, children)
        if node.child is None:
            return await self._join(node, request)
        if request.queue and node.predecessor is not None and node.watching is None:
            return []
        node.predecessor, node.next = None, False
        look, node.look = node.look, None
        if look is not None and not look.missing and not isinstance(look.answers[0], Exception):
            return await self._see(node, look.answers[0])
        (listed,) = await self._wire.call(messages.children(node.folder))
        return await self._see(node, listed)

    async def _see(self, node: Node, listed: Any) -> list[str]:
        """The contenders of a folder whose children were listed."""
        children: list[str] = [] if isinstance(listed, Exception) else listed  # no folder any more
        return await self._folders.order(node.folder, children)

    async def _join(self, node: Node, request: Request) -> list[str]:
        """Create the node, and see who is there."""
        node.ttl = min(request.ttl, self._wire.limit)
        path = f"{node.folder}/{node.prefix}"
        creation = messages.create(path, node.data(node.ttl), self._acl)
        await self._wire.ready()  # that may take a new session
        node.tried, node.session = True, self._wire.session
        try:
            created, listed = await self._folders.ensuring(
                node, creation, messages.children(node.folder)
            )
        except EngineError:
            node.tried = False
            raise
        path, stat = created
        node.child = str(path[len(node.folder) + 1 :])
        node.fence, node.session = stat.czxid, stat.session
        return await self._see(node, listed)

    async def _contact(self, node: Node, asked_at: float) -> float | None:
        """When a majority last heard of our session; None when the node has gone meanwhile.

        What is long ago is made good: one who has waited for hours has not written for hours.
        """
        if self._wire.contact_at < asked_at - self._wire.limit / 3:
            (answer,) = await self._wire.call(messages.together([messages.check(node.path)]))
            if any(isinstance(one, Exception) for one in answer):
                return None
        contact_at = self._wire.contact_at  # read first: a new session has another id by then
        return None if node.is_over(self._wire.session) else contact_at

    def _grant(self, node: Node, request: Request, asked_at: float, contact_at: float) -> Grant:
        node.ttl = min(request.ttl, self._wire.limit)
        since = min(asked_at, contact_at + self._wire.limit - node.ttl)
        node.until = since + node.ttl
        self._sweeper.nudge(node.until)
        return granted(request.name, request.owner, node.fence, node.ttl, since)

    async def _adopt(
        self, node: Node, request: Request, twin: str, asked_at: float
    ) -> Grant | Busy:
        """The same owner holds the lock already, through another client: its node is the one.

        We cannot keep that client's session alive, so we believe in it for a short while only.
        """
        wanted = (messages.exists(f"{node.folder}/{twin}"), messages.delete(node.path))
        stat, _ = await self._leaving.tell(node, *wanted)
        self._nodes.pop(request.owner, None)
        if stat is None:
            return Busy(0.0)
        ttl = min(request.ttl, self._wire.limit / 3)
        return granted(request.name, request.owner, stat.czxid, ttl, asked_at)

    async def _refuse(self, node: Node, request: Request, order: list[str]) -> Busy:
        """Busy, for one who does not queue. Who will queue next keeps the node for that."""
        if request.waits or node.waits:
            return Busy(0.0)
        holder = f"{node.folder}/{order[0]}"
        found, _ = await self._leaving.tell(node, messages.get(holder), messages.delete(node.path))
        self._nodes.pop(request.owner, None)
        return Busy(LOOK_S, None, False, read_words(found))

    async def _watch_predecessor(self, node: Node, order: list[str]) -> Busy | None:
        """Be told when the one before us goes; None when it has gone already."""
        self._want(node, LOOK_S + self._wire.request_timeout)
        path = node.watching = f"{node.folder}/{node.predecessor}"
        try:
            (found,) = await self._wire.call(messages.get(path, node.woken))
        except BaseException:
            node.watching = None
            raise
        if isinstance(found, Exception):
            node.lone()
            return None
        if node.next:
            return Busy(LOOK_S, 0, True, read_words(found))
        return Busy(LOOK_S, order.index(node.child) - 1 if node.child in order else None, True)

    async def watch(self, request: Request, signal: Signal) -> None:
        self._signals[request.owner] = signal

    async def unwatch(self, request: Request) -> None:
        self._signals.pop(request.owner, None)
        node = self._nodes.get(request.owner)
        if node is not None:
            node.signal = None
            path, node.watching, node.next = node.watching, None, False
            if path is not None:
                self._wire.unwatch(path, node.woken)
            node.until = min(node.until, self.world.now() + node.ttl)
            self._sweeper.nudge(node.until)

    # Keeping

    async def renew(self, grants: Sequence[Grant]) -> list[Grant | Gone]:
        return await self._keeping.renew(grants)

    # Giving back

    async def release(self, grant: Grant) -> bool:
        node = self._nodes.get(grant.owner)
        if node is None:  # another client's, or one whose lease has run out
            node = self._new(Request(grant.name, grant.owner, grant.ttl))
            await locate(self._wire, node, anybody=True)
            return node.child is not None and await self._leaving.delete(node)
        return await self._leaving.leave(node)

    async def withdraw(self, request: Request) -> None:
        node = self._nodes.get(request.owner)
        if node is not None:
            await self._leaving.leave(node)

    # Looking

    async def inspect(self, name: str) -> State:
        return await self._view.inspect(name)

    async def scan(self, prefix: str) -> list[Holding]:
        return await self._view.scan(prefix)

    async def revoke(self, name: str, reason: str) -> bool:
        return await self._view.revoke(name, reason)

    async def diagnose(self) -> list[Finding]:
        from .doctor import diagnose

        return await diagnose(self.world, self._wire, read_settings(self.address))
