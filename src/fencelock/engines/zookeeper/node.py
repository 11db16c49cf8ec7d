"""The nodes of one client: what it knows of each that it has created."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from ...model import Meta, Request, Scalar
from ...world import Signal
from ..timer import NEVER
from .wire import messages
from .wire.messages import Batch, Send


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
        "listing",
        "meta",
        "owner",
        "predecessor",
        "prefix",
        "session",
        "signal",
        "ttl",
        "waits",
        "watched_path",
    )

    def __init__(
        self,
        request: Request,
        folder: str,
        prefix: str,
        is_replacement: bool,
        now: Callable[[], float],
        expect: Callable[[float], None],
    ) -> None:
        self._now = now
        self._expect = expect
        self.owner = request.owner
        self.ttl = request.ttl
        self.meta = request.meta
        self.folder = folder
        self.prefix = prefix
        """How its own name begins, whatever the server appends."""
        self.is_replacement = is_replacement
        """It replaces one that was lost: what is left of that is not ours any more."""
        self.waits = request.waits or request.queue
        """It was made to queue with: a retry after a lost reply does not end that."""
        self.create_sent = False
        """It may exist, although no reply has told us."""
        self.child: str | None = None
        """Its name in the folder, once it is known."""
        self.fence = 0
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

    def twin(self, order: list[str]) -> str | None:
        """Return the first in the queue, if another client has made it for the same owner."""
        first = order[0] if order else None
        if self.is_replacement or first is None or first == self.child:
            return None
        return first if first.startswith(self.prefix) else None

    def data(self, ttl: float) -> bytes:
        """Return its data, for whoever inspects the lock."""
        return f'{{"ttl": {ttl!r}, "meta": {self.meta}}}'.encode()

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
        self.listing = Batch(1, self.wake)
        send((messages.get_children(self.folder),), self.listing)

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


def read_words(found: Any) -> str:
    """Read the meta of a holder as JSON text, where its node was still there."""
    return "" if isinstance(found, Exception) else json.dumps(read_data(found[0], 0.0)[1])
