"""The queue of a folder: the first ephemeral sequential node in it has its turn.

* Joining the queue creates a node and lists the folder, in one batch. If there is no node to wait
  for, it is its turn. Else it watches that node, and no other, so that a release wakes one waiter,
  or the readers behind a writer. A waiter always lists the queue again, even if no node was before
  the one that left: its own node may have been deleted meanwhile, and without a node it holds
  nothing. That request is sent on the event, and the waiter is woken by its reply.
* The prefix of a node is known before its creation: a hash of its owner. If the reply to a creation
  is lost, the node is found by it, and no owner is in the queue twice.
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

LOOK_S = 60.0  # a safety net: the watch reports broken connections, too
LOOKS_MAX = 100  # each look finds another predecessor gone, so the end comes long before


class Turn(NamedTuple):
    """A node that has no other node to wait for any more."""

    node: Node
    asked_at: float
    contact_at: float
    """When the last request was sent in which a majority took part."""


class Queue:
    """Joins queues and waits in them, for one client."""

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
        """Join the queue, or list it again; return Turn, or Busy with a watch set."""
        asked_at, share = self.world.now(), request.share
        for _ in range(LOOKS_MAX):
            node = self._node(request)
            order = await self._contenders(node, request)
            if (other := node.other_node_of_owner(order)) is not None:
                await self._adopt(node, request, other)
                continue
            if share is not None and (theirs := node.other_limit(order, share.limit)) is not None:
                await self._deletion.leave(node)
                raise limits_differ(request.name, theirs, share.limit)
            if node.predecessor is None:
                if node.child not in order:  # it was deleted: join the queue anew
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
        """Return the node of a request, and keep it while the attempt goes on."""
        key = key_of(request)
        node = self._nodes.get(key)
        if node is None or node.is_over(self._connection.session_id):
            is_replacement = node is not None
            node = self._nodes[key] = self._new_node(request, is_replacement)
        node.keep(self._connection.request_timeout if node.waits else 0.0)
        if node.deleting:
            node.delete_at = self.world.now()  # if the deletion in progress fails, it is retried
            raise _taken_back(request)
        node.signal = self._signals.get(key)
        return node

    def _new_node(self, request: Request, is_replacement: bool) -> Node:
        location, expect = self._folders.location(request), self._deletion.timer.expect
        return Node(request, location, is_replacement, self.world.now, expect)

    async def _contenders(self, node: Node, request: Request) -> list[str]:
        """List all contenders in order; empty if the predecessor is already known."""
        if node.child is None and node.create_sent:
            children = await self._folders.find(node)
            if node.child is not None and not node.is_lease:
                return await self._folders.order(node.folder, children)
        if node.child is None:
            return await self._join(node, request)
        if node.is_lease:  # with a slot it is no longer in the queue
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
        await self._connection.ready()  # that may begin a new session
        node.create_sent, node.session = True, self._connection.session_id
        node.moved = False
        try:
            listed = await self._folders.create_and_list(node)
        except EngineError:
            node.create_sent = False
            raise
        finally:
            if node.deleting:  # its deletion may have looked for it too early
                self._nodes.setdefault(node.key, node)
                node.keep_until(self.world.now())
        if node.deleting:
            raise _taken_back(request)
        return await self._folders.order(node.folder, listed)

    async def _contact(self, node: Node, request: Request, asked_at: float) -> float | None:
        """Return when a majority last took part in a request of ours; None if the node is gone.

        If that is long ago, a write renews the contact: a waiter of hours has not written for
        hours. The write also updates a ttl that differs from the one in the node: its owner has
        sent its request again with another ttl.
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
        contact_at = self._connection.contact_at  # first: after a new session the id differs
        return None if node.is_over(self._connection.session_id) else contact_at

    async def move(self, node: Node, folder: str, child: str) -> bool:
        """Rename a node whose turn it is; return False if the node is gone."""
        node.keep(self._connection.request_timeout)  # so that no deletion comes between
        return await self._folders.move(node, folder, child)

    def grant(self, turn: Turn, request: Request) -> Grant:
        """Make the grant of a node that has its turn."""
        node, asked_at, contact_at = turn
        ttl_max = self._connection.ttl_max
        node.ttl = min(request.ttl, ttl_max)
        since = min(asked_at, contact_at + ttl_max - node.ttl)
        node.keep_until(since + node.ttl)
        share = None if request.share is None else paths.held_share(request.share, node.child or "")
        return granted(request.name, request.owner, node.fence, node.ttl, since, share)

    async def _adopt(self, node: Node, request: Request, other: str) -> None:
        """Take over another client's node by which the same owner already holds the lock."""
        (found,) = await self._connection.call(messages.get_data(other))
        if isinstance(found, Exception):
            return
        name, owner, ttl, *_ = request
        fence = read_fence(found[0], found[1].czxid)
        await self._takeover.take(granted(name, owner, fence, ttl, 0.0, request.share))

    async def refuse(self, node: Node, request: Request, order: list[str]) -> Busy:
        """Return Busy to an owner that does not queue; keep its node if it will queue next."""
        if request.waits or node.waits:
            return Busy(0.0)
        looking = messages.get_data(node.holder_path(order))
        found, _ = await self._deletion.call(node, looking, messages.delete(node.path))
        self._nodes.pop(node.key, None)
        return Busy(LOOK_S, None, False, read_words(found))

    # Wait

    async def _watch_predecessor(self, node: Node, order: list[str]) -> Busy | None:
        """Watch the node before ours; None if it is already gone."""
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
        """Watch the leases for a free slot; None if one is free already."""
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
