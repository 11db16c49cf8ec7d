"""The nodes of one client: the state of each contender, and the data in it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from ...model import Grant, Meta, Request, Scalar
from ...world import Signal
from ..timer import NEVER
from . import paths
from .paths import Location
from .wire import messages
from .wire.messages import Batch, Send


def key_of(of: Request | Grant) -> str:
    """Return the registry key of a request or a grant: an owner may have one node of each kind."""
    return of.owner if of.share is None else f"{of.share.kind}/{of.owner}"


class Node:
    """One contender of ours, from before its creation is sent to its deletion."""

    __slots__ = (
        "_expect",
        "_now",
        "behind_holder",
        "child",
        "create_sent",
        "delete_at",
        "deleting",
        "fence",
        "folder",
        "is_replacement",
        "key",
        "label",
        "lease_folder",
        "leases",
        "listing",
        "meta",
        "moved",
        "predecessor",
        "prefix",
        "session",
        "signal",
        "since_ms",
        "ttl",
        "waits",
        "watched_path",
    )

    def __init__(
        self,
        request: Request,
        location: Location,
        is_replacement: bool,
        now: Callable[[], float],
        expect: Callable[[float], None],
    ) -> None:
        self._now = now
        self._expect = expect
        self.key = key_of(request)
        self.ttl = request.ttl
        self.meta = request.meta
        self.folder, self.prefix, self.label, self.lease_folder = location
        self.leases: list[str] = []
        """The leases of the semaphore when it was last listed."""
        self.moved = False
        """Whether it was renamed: as a reader, as a lease, or into another session."""
        self.is_replacement = is_replacement
        """Whether it replaces a node that was lost: what is left of that is no longer ours."""
        self.waits = request.waits or request.queue
        """Whether it was created to queue with: a retry after a lost reply keeps that."""
        self.create_sent = False
        """Whether its creation was sent: it may exist, even without a reply."""
        self.child: str | None = None
        """Its name in the folder; None until it is known."""
        self.fence = 0
        """The czxid of the node as first created."""
        self.since_ms = 0
        """When it was created, by the server's clock, if another client created it; else 0."""
        self.session = 0
        self.delete_at = NEVER
        """When it is deleted unless it is kept for longer by then."""
        self.deleting = False
        """Whether its deletion has begun: then it must not be relied on."""
        self.predecessor: str | None = None
        """The node that it waits for, as far as known."""
        self.behind_holder = False
        """Whether its predecessor held the lock when the queue was last listed."""
        self.watched_path: str | None = None
        """The path that is watched, if any."""
        self.listing: Batch | None = None
        """The listing of the queue that was sent when its predecessor was deleted."""
        self.signal: Signal | None = None

    @property
    def path(self) -> str:
        return f"{self.folder}/{self.child}"

    def is_over(self, session: int) -> bool:
        """Return whether it was deleted with its session."""
        return self.session not in (0, session)

    def keep(self, longer: float = 0.0) -> None:
        """Keep it for its ttl, plus ``longer``, from now: an attempt may end without cleaning up,
        as when a signal handler raises."""
        self.keep_until(self._now() + self.ttl + longer)

    def keep_until(self, at: float) -> None:
        """Set the moment of its deletion, which can be moved again until then."""
        self.delete_at = at
        self._expect(at)

    def begin_deletion(self, now: float) -> bool:
        """Mark it as being deleted; return False if it has been kept for longer.

        The mark is set before the time is read, and a user of the node does it the other way round:
        one of the two sees the other, without a lock between them.
        """
        self.deleting = True
        self.deleting = self.delete_at <= now
        return self.deleting

    @property
    def is_lease(self) -> bool:
        """Whether it has moved from the queue of its semaphore to a slot."""
        return self.folder == self.lease_folder

    def all_folders(self) -> list[str]:
        """Return the folders that may be empty once it is deleted, inner ones first."""
        if not self.lease_folder:
            return [self.folder]
        parent = self.lease_folder.rpartition("/")[0]
        return [f"{parent}/{paths.LOCKS}", self.lease_folder, parent]

    def listing_requests(self) -> tuple[messages.Request, ...]:
        """Return the requests that list its folders. Nodes move from the first folder to the
        second, so the folders are read in this order."""
        queue = messages.get_children(self.folder)
        return (queue, messages.get_children(self.lease_folder)) if self.lease_folder else (queue,)

    def read_listing(self, replies: list[Any]) -> Any:
        """Return the reply that lists the queue; store the one that lists the leases."""
        if self.lease_folder:
            self.leases = [] if isinstance(replies[1], Exception) else replies[1]
        return replies[0]

    def other_node_of_owner(self, order: list[str]) -> str | None:
        """Return the path of another client's node by which the same owner holds, if any."""
        if self.is_replacement or not order:
            return None
        if self.lease_folder:
            alike = [child for child in self.leases if child.startswith(self.prefix)]
        else:
            alike = [child for child in order if child.startswith(self.prefix)]
            alike = [child for child in alike if paths.blocker(order, order.index(child)) < 0]
        others = [child for child in alike if child != self.child]
        return f"{self.lease_folder or self.folder}/{others[0]}" if others else None

    def holder_path(self, order: list[str]) -> str:
        """Return the path of a holder that it waits for."""
        if self.leases:
            return f"{self.lease_folder}/{self.leases[0]}"
        return f"{self.folder}/{order[0]}"

    def other_limit(self, order: list[str], ours: int) -> int | None:
        """Return the limit of earlier contenders of its semaphore if it differs; else None."""
        if not self.lease_folder or self.is_lease:
            return None
        before = order[: order.index(self.child)] if self.child in order else order
        known = (paths.limit(child) for child in (*self.leases, *before))
        return next((theirs for theirs in known if theirs not in (None, ours)), None)

    def data(self, ttl: float) -> bytes:
        """Return its data: ttl and meta for inspection, fence and time of a moved node."""
        fence = f', "fence": {self.fence}' if self.moved else ""
        since = f', "since_ms": {self.since_ms}' if self.since_ms else ""
        return f'{{"ttl": {ttl!r}, "meta": {self.meta}{fence}{since}}}'.encode()

    def predecessor_gone(self) -> None:
        self.predecessor, self.watched_path, self.behind_holder = None, None, False

    def on_event(self, send: Send | None) -> None:
        """Handle the event that the predecessor was deleted, or that the connection broke.

        The queue is listed at once: the waiter is woken by the reply.
        """
        self.predecessor_gone()
        if send is None:
            self.wake()
            return
        requests = self.listing_requests()
        self.listing = Batch(len(requests), self.wake)
        send(requests, self.listing)

    def wake(self) -> None:
        """Wake the waiter; if it does not look again within a ttl, its node is deleted."""
        self.keep()
        if self.signal is not None:
            self.signal.set()


def read_data(data: bytes | None, otherwise_ttl: float) -> tuple[float, Meta]:
    """Read the ttl and the meta of a contender; for another program's node, its text as meta."""
    text = (data or b"").decode(errors="replace")
    try:
        found: Any = json.loads(text)
        return float(found["ttl"]), dict(found["meta"])
    except (ValueError, TypeError, KeyError):
        words: dict[str, Scalar] = {"identifier": text} if text else {}
        return otherwise_ttl, words


def read_fence(data: bytes | None, czxid: int) -> int:
    """Read the fence of a contender: its czxid, or the one it had before it was moved."""
    return _read_number(data, "fence") or czxid


def read_since(data: bytes | None, ctime_ms: int) -> int:
    """Read when a contender was created, or, for a moved node, when the first one was."""
    return _read_number(data, "since_ms") or ctime_ms


def _read_number(data: bytes | None, what: str) -> int:
    try:
        found: Any = json.loads(data or b"")
        return max(0, int(found[what]))
    except (ValueError, TypeError, KeyError):
        return 0


def read_words(found: Any) -> str:
    """Read the meta of a holder as JSON text; empty if its node is gone."""
    return "" if isinstance(found, Exception) else json.dumps(read_data(found[0], 0.0)[1])
