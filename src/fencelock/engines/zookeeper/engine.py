"""The recipe: a lock is a folder, and whoever's ephemeral sequential node comes first holds it.

* Joining the queue creates a node and lists the folder, both sent in one go. First: it is ours. Not
  first: watch the one before us, and no other, so that a release wakes one waiter. It always looks
  again, even if nobody stood before the one who left: its own node may have been deleted meanwhile,
  and whoever has no node holds nothing. That look is sent with the event, and the waiter woken with
  its reply.
* How a node's name begins is known before it is made: a hash of its owner. When the reply to a
  creation is lost, that is how it is found again, and nobody stands in the queue twice.
* The fence is the node's czxid, which the whole ensemble counts up.
* One session carries all locks of a client. The ensemble drops it a timeout after it last knew of
  us, so a lease never lasts longer than our own clock allows after the last *answered write*: a
  majority has taken part in that, while a read may come from a member that has lost the others.
* A lease whose ttl is shorter than the session is ended by its own client (``deletion.py``), and by
  the ensemble when the client is dead.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from ...engine import Address, Engine
from ...errors import EngineError, OutcomeUnknown, Unavailable
from ...model import Busy, Finding, Gone, Grant, Holding, Request, State, Traits, granted
from ...world import Signal, World
from . import options, paths
from .deletion import Deletion
from .folders import Folders
from .inspect import Inspection
from .node import Node, read_words
from .renewal import Renewal
from .wire import make_connection, messages

LOOK_S = 60.0  # the net under the watch, which also tells of a broken connection
LOOKS_MAX = 100  # each look finds another predecessor gone, so the end comes long before


class ZooKeeperEngine(Engine):
    """``zookeeper://host:port,host:port,host:port/root``."""

    schemes = ("zookeeper",)
    drivers = ("kazoo",)
    options: ClassVar = options.READERS
    plain = True
    traits = Traits("correctness", "network", fence=True, fifo=True, push=True, durable=True)

    def __init__(self, world: World, address: Address) -> None:
        super().__init__(world, address)
        self._settings = options.connection(address)
        self._connection = connection = make_connection(world, self._settings)
        self._recipe = str(address.options.get("recipe", "kazoo"))
        self._nodes: dict[str, Node] = {}  # by owner
        self._signals: dict[str, Signal] = {}
        self._folders = Folders(connection, options.root(address), options.acl(address))
        self._deletion = Deletion(world, connection, self._nodes, self._folders)
        self._inspection = Inspection(world, connection, self._folders)
        self._renewal = Renewal(world, connection, self._nodes, self._inspection)

    async def open(self) -> None:
        await self._connection.open()

    async def close(self) -> None:
        await self._deletion.timer.close()
        now = self.world.now()
        held = [node for node in self._nodes.values() if node.delete_at > now]
        # Grants are not released: with the session they would be.
        await self._connection.close(end_session=not held)

    def close_nowait(self) -> None:
        self._deletion.timer.close_nowait()
        self._connection.close_nowait()

    # Acquire

    async def acquire(self, request: Request) -> Grant | Busy:
        try:
            return await self._contend(request)
        except EngineError as error:
            node = self._nodes.get(request.owner)
            if request.queue or node is None or not node.create_sent:
                raise  # one who waits stays where it is
            raise OutcomeUnknown(
                f"{request.name!r} was asked for, and then ZooKeeper did not serve ({error}): it "
                f"may be held for {node.ttl:g} s",
                until=node.ttl,
            ) from error

    async def _contend(self, request: Request) -> Grant | Busy:
        """Join the queue. First: the lock is ours. Not first: watch the one before us."""
        asked_at = self.world.now()
        for _ in range(LOOKS_MAX):
            node = self._node(request)
            order = await self._contenders(node, request)
            if (twin := node.twin(order)) is not None:
                return await self._adopt(node, request, twin, asked_at)
            if node.predecessor is None:
                if node.child not in order:  # deleted by somebody: join the queue anew
                    self._nodes[request.owner] = self._new_node(request, is_replacement=True)
                    continue
                position = order.index(node.child)
                if position == 0:
                    if (contact_at := await self._contact(node, asked_at)) is not None:
                        return self._grant(node, request, asked_at, contact_at)
                    continue
                node.predecessor, node.behind_holder = order[position - 1], position == 1
            if not request.queue:
                return await self._refuse(node, request, order)
            if (busy := await self._watch_predecessor(node, order)) is not None:
                return busy
        raise Unavailable(f"the queue of {request.name!r} changed faster than it could be read")

    def _node(self, request: Request) -> Node:
        """Return the node of an attempt, and keep it while that goes on."""
        node = self._nodes.get(request.owner)
        if node is None or node.is_over(self._connection.session_id):
            is_replacement = node is not None
            node = self._nodes[request.owner] = self._new_node(request, is_replacement)
        node.keep(self._connection.request_timeout if node.waits else 0.0)
        if node.deleting:
            node.delete_at = self.world.now()  # should this deletion fail, the next one is due
            raise Unavailable(
                f"an earlier try for {request.name!r} is being taken back; nothing is held"
            )
        node.signal = self._signals.get(request.owner)
        return node

    def _new_node(self, request: Request, is_replacement: bool = False) -> Node:
        folder = self._folders.path(request.name)
        prefix = paths.protected(request.owner, self._recipe)
        expect = self._deletion.timer.expect
        return Node(request, folder, prefix, is_replacement, self.world.now, expect)

    async def _contenders(self, node: Node, request: Request) -> list[str]:
        """List all contenders in order; none where the predecessor is known already."""
        if node.child is None and node.create_sent:
            children = await self._folders.find(node)
            if node.child is not None:
                return await self._folders.order(node.folder, children)
        if node.child is None:
            return await self._join(node, request)
        if request.queue and node.predecessor is not None and node.watched_path is None:
            return []
        node.predecessor, node.behind_holder = None, False
        listing, node.listing = node.listing, None
        if listing is not None and not listing.missing:
            (listed,) = listing.replies
            if not isinstance(listed, Exception):
                return await self._folders.order(node.folder, listed)
        return await self._folders.contenders(node.folder)

    async def _join(self, node: Node, request: Request) -> list[str]:
        """Create the node, and list the contenders."""
        node.ttl = min(request.ttl, self._connection.ttl_max)
        await self._connection.ready()  # that may take a new session
        node.create_sent, node.session = True, self._connection.session_id
        try:
            listed = await self._folders.create_and_list(node)
        except EngineError:
            node.create_sent = False
            raise
        return await self._folders.order(node.folder, listed)

    async def _contact(self, node: Node, asked_at: float) -> float | None:
        """Return when a majority last took part in a request of ours; None when the node has gone.

        What is long ago is made good: one who has waited for hours has not written for hours.
        """
        if self._connection.contact_at < asked_at - self._connection.ttl_max / 3:
            (reply,) = await self._connection.call(messages.multi([messages.check(node.path)]))
            if any(isinstance(one, Exception) for one in reply):
                return None
        contact_at = self._connection.contact_at  # first: a new session has another id by then
        return None if node.is_over(self._connection.session_id) else contact_at

    def _grant(self, node: Node, request: Request, asked_at: float, contact_at: float) -> Grant:
        ttl_max = self._connection.ttl_max
        node.ttl = min(request.ttl, ttl_max)
        since = min(asked_at, contact_at + ttl_max - node.ttl)
        node.keep_until(since + node.ttl)
        return granted(request.name, request.owner, node.fence, node.ttl, since)

    async def _adopt(
        self, node: Node, request: Request, twin: str, asked_at: float
    ) -> Grant | Busy:
        """Grant what the same owner holds already, through another client's node.

        We cannot keep that client's session alive, so we rely on it for a short while only.
        """
        looking = messages.exists(f"{node.folder}/{twin}")
        stat, _ = await self._deletion.call(node, looking, messages.delete(node.path))
        self._nodes.pop(request.owner, None)
        if stat is None:
            return Busy(0.0)
        ttl = min(request.ttl, self._connection.ttl_max / 3)
        return granted(request.name, request.owner, stat.czxid, ttl, asked_at)

    async def _refuse(self, node: Node, request: Request, order: list[str]) -> Busy:
        """Refuse one who does not queue. Who will queue next keeps the node for that."""
        if request.waits or node.waits:
            return Busy(0.0)
        looking = messages.get_data(f"{node.folder}/{order[0]}")
        found, _ = await self._deletion.call(node, looking, messages.delete(node.path))
        self._nodes.pop(request.owner, None)
        return Busy(LOOK_S, None, False, read_words(found))

    # Wait

    async def _watch_predecessor(self, node: Node, order: list[str]) -> Busy | None:
        """Have the server tell when the one before us goes; None when it has gone already."""
        node.keep(LOOK_S + self._connection.request_timeout)
        path = node.watched_path = f"{node.folder}/{node.predecessor}"
        try:
            (found,) = await self._connection.call(messages.get_data(path, node.on_event))
        except BaseException:
            node.watched_path = None
            raise
        if isinstance(found, Exception):
            node.predecessor_gone()
            return None
        if node.behind_holder:
            return Busy(LOOK_S, 0, True, read_words(found))
        return Busy(LOOK_S, order.index(node.child) - 1 if node.child in order else None, True)

    async def watch(self, request: Request, signal: Signal) -> None:
        self._signals[request.owner] = signal

    async def unwatch(self, request: Request) -> None:
        self._signals.pop(request.owner, None)
        if (node := self._nodes.get(request.owner)) is not None:
            node.signal = None
            path, node.watched_path, node.behind_holder = node.watched_path, None, False
            if path is not None:
                self._connection.unwatch(path, node.on_event)
            node.keep_until(min(node.delete_at, self.world.now() + node.ttl))

    # Renew and release

    async def renew(self, grants: Sequence[Grant]) -> list[Grant | Gone]:
        return await self._renewal.renew(grants)

    async def release(self, grant: Grant) -> bool:
        node = self._nodes.get(grant.owner)
        if node is None:  # another client's, or one whose lease has run out
            node = self._new_node(Request(grant.name, grant.owner, grant.ttl))
            await self._folders.find(node, any_session=True)
            return node.child is not None and await self._deletion.delete(node)
        return await self._deletion.leave(node)

    async def withdraw(self, request: Request) -> None:
        if (node := self._nodes.get(request.owner)) is not None:
            await self._deletion.leave(node)

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
