"""The nodes of one client: what it knows of each that it has created."""

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
    """Return what an attempt or a grant is known by: an owner may have shares of other kinds."""
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
        """Who had a slot of the semaphore when we last looked."""
        self.moved = False
        """It goes on under another name than it was made with: as a reader, as a lease, or in
        another session."""
        self.is_replacement = is_replacement
        """It replaces one that was lost: what is left of that is not ours any more."""
        self.waits = request.waits or request.queue
        """It was made to queue with: a retry after a lost reply does not end that."""
        self.create_sent = False
        """It may exist, although no reply has told us."""
        self.child: str | None = None
        """Its name in the folder, once it is known."""
        self.fence = 0
        """The czxid of the node that it was made as."""
        self.since_ms = 0
        """When it was made, by the server's clock, where another client has made it."""
        self.session = 0
        self.delete_at = NEVER
        """When it is deleted unless somebody says that it is still wanted."""
        self.deleting = False
        """Its deletion is under way: nobody may rely on it any more."""
        self.predecessor: str | None = None
        """Who stands before it, as far as we know."""
        self.behind_holder = False
        """Nobody stood before its predecessor when we looked: that holds the lock."""
        self.watched_path: str | None = None
        """The predecessor's path, while we watch it."""
        self.listing: Batch | None = None
        """The look at the queue that was sent when its predecessor went."""
        self.signal: Signal | None = None

    @property
    def path(self) -> str:
        return f"{self.folder}/{self.child}"

    def is_over(self, session: int) -> bool:
        """Whether it went with its session."""
        return self.session not in (0, session)

    def keep(self, longer: float = 0.0) -> None:
        """Keep it while its attempt goes on, and for its ttl, no longer: an attempt may end without
        a word, as when a signal handler raises."""
        self.keep_until(self._now() + self.ttl + longer)

    def keep_until(self, at: float) -> None:
        """Have it deleted then, unless it is kept for longer by that time."""
        self.delete_at = at
        self._expect(at)

    def begin_deletion(self, now: float) -> bool:
        """Decide to delete it; False when it is wanted again.

        The mark comes before the look at the time, and whoever wants the node does it the other way
        round: one of the two sees the other, without a lock between them.
        """
        self.deleting = True
        self.deleting = self.delete_at <= now
        return self.deleting

    @property
    def is_lease(self) -> bool:
        """Whether it has left the queue of its semaphore, with a slot."""
        return self.folder == self.lease_folder

    def all_folders(self) -> list[str]:
        """Return the folders that may be empty once it has gone, those within others first."""
        if not self.lease_folder:
            return [self.folder]
        parent = self.lease_folder.rpartition("/")[0]
        return [f"{parent}/{paths.LOCKS}", self.lease_folder, parent]

    def listing_requests(self) -> tuple[messages.Request, ...]:
        """Return the requests of one look. What moves goes from the first folder to the second,
        so that they are read in this order."""
        queue = messages.get_children(self.folder)
        return (queue, messages.get_children(self.lease_folder)) if self.lease_folder else (queue,)

    def read_listing(self, replies: list[Any]) -> Any:
        """Return the reply that lists the queue; keep the one that lists the leases."""
        if self.lease_folder:
            self.leases = [] if isinstance(replies[1], Exception) else replies[1]
        return replies[0]

    def twin(self, order: list[str]) -> str | None:
        """Return the path of what the same owner holds through another client."""
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
        """Return the path of one who keeps it waiting."""
        if self.leases:
            return f"{self.lease_folder}/{self.leases[0]}"
        return f"{self.folder}/{order[0]}"

    def other_limit(self, order: list[str], ours: int) -> int | None:
        """Return the limit of those who used its semaphore before it, if they have another."""
        if not self.lease_folder or self.is_lease:
            return None
        before = order[: order.index(self.child)] if self.child in order else order
        known = (paths.limit(child) for child in (*self.leases, *before))
        return next((theirs for theirs in known if theirs not in (None, ours)), None)

    def data(self, ttl: float) -> bytes:
        """Return its data, for whoever inspects the lock."""
        fence = f', "fence": {self.fence}' if self.moved else ""
        since = f', "since_ms": {self.since_ms}' if self.since_ms else ""
        return f'{{"ttl": {ttl!r}, "meta": {self.meta}{fence}{since}}}'.encode()

    def predecessor_gone(self) -> None:
        self.predecessor, self.watched_path, self.behind_holder = None, None, False

    def on_event(self, send: Send | None) -> None:
        """Look again: the predecessor has gone, or the connection broke and no event would come.

        The queue is listed without waiting for the waiter: it is woken when the reply is there.
        """
        self.predecessor_gone()
        if send is None:
            self.wake()
            return
        requests = self.listing_requests()
        self.listing = Batch(len(requests), self.wake)
        send(requests, self.listing)

    def wake(self) -> None:
        """Have the waiter look; one that does not come loses its node."""
        self.keep()
        if self.signal is not None:
            self.signal.set()


def read_data(data: bytes | None, otherwise_ttl: float) -> tuple[float, Meta]:
    """Read the ttl and the meta of a contender; of another program's node, what can be shown."""
    text = (data or b"").decode(errors="replace")
    try:
        found: Any = json.loads(text)
        return float(found["ttl"]), dict(found["meta"])
    except (ValueError, TypeError, KeyError):
        words: dict[str, Scalar] = {"identifier": text} if text else {}
        return otherwise_ttl, words


def read_fence(data: bytes | None, czxid: int) -> int:
    """Read the fence of a contender: its czxid, or the one that it had before it moved."""
    return _read_number(data, "fence") or czxid


def read_since(data: bytes | None, ctime_ms: int) -> int:
    """Read when a contender came: when it was made, or when it was before it moved."""
    return _read_number(data, "since_ms") or ctime_ms


def _read_number(data: bytes | None, what: str) -> int:
    try:
        found: Any = json.loads(data or b"")
        return max(0, int(found[what]))
    except (ValueError, TypeError, KeyError):
        return 0


def read_words(found: Any) -> str:
    """Read the meta of a holder as JSON text, where its node was still there."""
    return "" if isinstance(found, Exception) else json.dumps(read_data(found[0], 0.0)[1])
