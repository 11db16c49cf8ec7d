"""Stands in the queue of a folder: whoever's ephemeral sequential node comes first has its turn.

* Joining the queue creates a node and lists the folder, both sent in one go. Nobody in the way: it
  is its turn. Else watch the one that is, and no other, so that a release wakes one waiter, or the
  readers behind a writer. It always looks again, even if nobody stood before the one who left: its
  own node may have been deleted meanwhile, and whoever has no node holds nothing. That look is sent
  with the event, and the waiter woken with its reply.
* How a node's name begins is known before it is made: a hash of its owner. When the reply to a
  creation is lost, that is how it is found again, and nobody stands in the queue twice.
"""

from __future__ import annotations

from typing import NamedTuple

from ...errors import EngineError, Unavailable
from ...model import Busy, Grant, Request, granted, limits_differ
from ...world import Signal, World
from . import paths
from .deletion import Deletion
from .folders import Folders
from .node import Node, key_of, read_fence, read_words
from .takeover import TakeOver
from .wire import Connection, messages

LOOK_S = 60.0  # the net under the watch, which also tells of a broken connection
LOOKS_MAX = 100  # each look finds another predecessor gone, so the end comes long before


class Turn(NamedTuple):
    """A node that nobody is in the way of any more."""

    node: Node
    asked_at: float
    contact_at: float
    """When a majority last took part in a request of ours."""


class Queue:
    """The queues that one client stands in."""

    def __init__(
        self,
        world: World,
        connection: Connection,
        nodes: dict[str, Node],
        folders: Folders,
        deletion: Deletion,
        takeover: TakeOver,
    ) -> None:
        self.world = world
        self._connection = connection
        self._nodes = nodes
        self._signals: dict[str, Signal] = {}
        self._folders = folders
        self._deletion = deletion
        self._takeover = takeover

    async def turn(self, request: Request) -> Turn | Busy:
        """Join the queue, or look again."""
        asked_at, share = self.world.now(), request.share
        for _ in range(LOOKS_MAX):
            node = self._node(request)
            order = await self._contenders(node, request)
            if (twin := node.twin(order)) is not None:
                await self._adopt(node, request, twin)
                continue
            if share is not None and (theirs := node.other_limit(order, share.limit)) is not None:
                await self._deletion.leave(node)
                raise limits_differ(request.name, theirs, share.limit)
            if node.predecessor is None:
                if node.child not in order:  # deleted by somebody: join the queue anew
                    self._nodes[node.key] = self._new_node(request, is_replacement=True)
                    continue
                before = paths.blocker(order, order.index(node.child))
                if before < 0:
                    if (contact_at := await self._contact(node, request, asked_at)) is not None:
                        return Turn(node, asked_at, contact_at)
                    continue
                node.predecessor = order[before]
                node.behind_holder = paths.blocker(order, before) < 0
            if not request.queue:
                return await self.refuse(node, request, order)
            if (busy := await self._watch_predecessor(node, order)) is not None:
                return busy
        raise Unavailable(f"the queue of {request.name!r} changed faster than it could be read")

    def _node(self, request: Request) -> Node:
        """Return the node of an attempt, and keep it while that goes on."""
        key = key_of(request)
        node = self._nodes.get(key)
        if node is None or node.is_over(self._connection.session_id):
            is_replacement = node is not None
            node = self._nodes[key] = self._new_node(request, is_replacement)
        node.keep(self._connection.request_timeout if node.waits else 0.0)
        if node.deleting:
            node.delete_at = self.world.now()  # should this deletion fail, the next one is due
            raise _taken_back(request)
        node.signal = self._signals.get(key)
        return node

    def _new_node(self, request: Request, is_replacement: bool) -> Node:
        location, expect = self._folders.location(request), self._deletion.timer.expect
        return Node(request, location, is_replacement, self.world.now, expect)

    async def _contenders(self, node: Node, request: Request) -> list[str]:
        """List all contenders in order; none where the predecessor is known already."""
        if node.child is None and node.create_sent:
            children = await self._folders.find(node)
            if node.child is not None and not node.is_lease:
                return await self._folders.order(node.folder, children)
        if node.child is None:
            return await self._join(node, request)
        if node.is_lease:  # with a slot it stands in no queue any more
            both = messages.exists(node.path), messages.get_children(node.lease_folder)
            stat, listed = await self._connection.call(*both)
            node.leases = [] if isinstance(listed, Exception) else listed
            return node.leases if stat is None else [node.child]
        if request.queue and node.predecessor is not None and node.watched_path is None:
            return []
        node.predecessor, node.behind_holder = None, False
        listing, node.listing = node.listing, None
        if listing is None or listing.missing or isinstance(listing.replies[0], Exception):
            replies = await self._connection.call(*node.listing_requests())
        else:
            replies = listing.replies
        return await self._folders.order(node.folder, node.read_listing(replies))

    async def _join(self, node: Node, request: Request) -> list[str]:
        """Create the node, and list the contenders."""
        node.ttl = min(request.ttl, self._connection.ttl_max)
        await self._connection.ready()  # that may take a new session
        node.create_sent, node.session = True, self._connection.session_id
        node.moved = False
        try:
            listed = await self._folders.create_and_list(node)
        except EngineError:
            node.create_sent = False
            raise
        finally:
            if node.deleting:  # who looked for it, to delete it, may have been too early
                self._nodes.setdefault(node.key, node)
                node.keep_until(self.world.now())
        if node.deleting:
            raise _taken_back(request)
        return await self._folders.order(node.folder, listed)

    async def _contact(self, node: Node, request: Request, asked_at: float) -> float | None:
        """Return when a majority last took part in a request of ours; None when the node has gone.

        What is long ago is made good: one who has waited for hours has not written for hours. So
        is a ttl that is not the one in the node: its owner asks again for what it has.
        """
        ttl_max = self._connection.ttl_max
        ttl = min(request.ttl, ttl_max)
        if ttl != node.ttl or self._connection.contact_at < asked_at - ttl_max / 3:
            data = messages.set_data(node.path, node.data(ttl))
            renewal = messages.check(node.path) if ttl == node.ttl else data
            (reply,) = await self._connection.call(messages.multi([renewal]))
            if any(isinstance(one, Exception) for one in reply):
                return None
            node.ttl = ttl
        contact_at = self._connection.contact_at  # first: a new session has another id by then
        return None if node.is_over(self._connection.session_id) else contact_at

    async def move(self, node: Node, folder: str, child: str) -> bool:
        """Give a node whose turn it is another name; False when it has gone."""
        node.keep(self._connection.request_timeout)  # no deletion comes between
        return await self._folders.move(node, folder, child)

    def grant(self, turn: Turn, request: Request) -> Grant:
        """Grant what a node has got."""
        node, asked_at, contact_at = turn
        ttl_max = self._connection.ttl_max
        node.ttl = min(request.ttl, ttl_max)
        since = min(asked_at, contact_at + ttl_max - node.ttl)
        node.keep_until(since + node.ttl)
        share = None if request.share is None else paths.held_share(request.share, node.child or "")
        return granted(request.name, request.owner, node.fence, node.ttl, since, share)

    async def _adopt(self, node: Node, request: Request, twin: str) -> None:
        """Take over what the same owner holds already, through another client's node."""
        (found,) = await self._connection.call(messages.get_data(twin))
        if isinstance(found, Exception):
            return
        name, owner, ttl, *_ = request
        fence = read_fence(found[0], found[1].czxid)
        await self._takeover.take(granted(name, owner, fence, ttl, 0.0, request.share))

    async def refuse(self, node: Node, request: Request, order: list[str]) -> Busy:
        """Refuse one who does not queue. Who will queue next keeps the node for that."""
        if request.waits or node.waits:
            return Busy(0.0)
        looking = messages.get_data(node.holder_path(order))
        found, _ = await self._deletion.call(node, looking, messages.delete(node.path))
        self._nodes.pop(node.key, None)
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
        position = order.index(node.child) - paths.holders(order) if node.child in order else None
        return Busy(LOOK_S, position, True)

    async def watch_leases(self, node: Node, limit: int) -> Busy | None:
        """Have the server tell when a slot comes back; None when one has come already."""
        node.keep(LOOK_S + self._connection.request_timeout)
        path = node.watched_path = node.lease_folder
        holder = messages.get_data(node.holder_path([node.child or ""]))
        try:
            listed, found = await self._connection.call(
                messages.get_children(path, node.on_event), holder
            )
        except BaseException:
            node.watched_path = None
            raise
        if isinstance(listed, Exception) or len(listed) < limit:
            self._connection.unwatch(path, node.on_event)
            node.predecessor_gone()
            return None
        return Busy(LOOK_S, 0, True, read_words(found))

    def watch(self, request: Request, signal: Signal) -> None:
        self._signals[key_of(request)] = signal

    def unwatch(self, request: Request) -> None:
        key = key_of(request)
        self._signals.pop(key, None)
        if (node := self._nodes.get(key)) is not None:
            node.signal = None
            path, node.watched_path, node.behind_holder = node.watched_path, None, False
            if path is not None:
                self._connection.unwatch(path, node.on_event)
            node.keep_until(min(node.delete_at, self.world.now() + node.ttl))


def _taken_back(request: Request) -> Unavailable:
    return Unavailable(f"an earlier try for {request.name!r} is being taken back; nothing is held")
