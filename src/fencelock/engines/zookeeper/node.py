"""The contenders of one client: what it knows of each node that it has made."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from ...model import Meta, Request, Scalar
from ...world import Signal
from .wire import messages
from .wire.messages import Ask, Flight

NEVER = float("inf")


class Node:
    """One contender of ours, from before its creation is asked for to its deletion."""

    __slots__ = (
        "_now",
        "_nudge",
        "child",
        "doomed",
        "fence",
        "folder",
        "look",
        "meta",
        "next",
        "owner",
        "predecessor",
        "prefix",
        "reborn",
        "session",
        "signal",
        "tried",
        "ttl",
        "until",
        "waits",
        "watching",
    )

    def __init__(
        self,
        request: Request,
        folder: str,
        prefix: str,
        now: Callable[[], float],
        nudge: Callable[[float], None],
    ) -> None:
        self._now = now
        self._nudge = nudge
        self.owner = request.owner
        self.ttl = request.ttl
        self.meta = request.meta
        self.folder = folder
        self.prefix = prefix
        """How its own name begins, whatever the server appends."""
        self.reborn = False
        """It takes the place of one that was lost: what is left of that is not ours any more."""
        self.waits = request.waits or request.queue
        """It was made to queue with: asking once more after a lost answer does not end that."""
        self.tried = False
        """Its creation was asked for: it may exist although nobody has told us."""
        self.child: str | None = None
        """Its name in the folder, once it is known."""
        self.fence = 0
        self.session = 0
        self.until = NEVER
        """When it is deleted unless somebody says that it is still wanted."""
        self.doomed = False
        """Its deletion is under way: nobody may rely on it any more."""
        self.predecessor: str | None = None
        """Who stands before it, as far as we know."""
        self.look: Flight | None = None
        """The look at the queue that was sent when the one before it went."""
        self.watching: str | None = None
        """The path whose end we will be told of."""
        self.next = False
        """Nobody stood before the one that we watch when we looked: it holds the lock."""
        self.signal: Signal | None = None

    @property
    def path(self) -> str:
        return f"{self.folder}/{self.child}"

    def is_over(self, session: int) -> bool:
        """Whether it went with its session."""
        return self.session not in (0, session)

    def doom(self, now: float) -> bool:
        """Decide to delete it; False when it is wanted again.

        The mark comes before the look at the time, and whoever wants the node does it the other way
        round: one of the two sees the other, without a lock between them.
        """
        self.doomed = True
        self.doomed = self.until <= now
        return self.doomed

    def twin(self, order: list[str]) -> str | None:
        """The first in line, if it is of the same owner and another client has made it."""
        first = order[0] if order else None
        if self.reborn or first is None or first == self.child:
            return None
        return first if first.startswith(self.prefix) else None

    def data(self, ttl: float) -> bytes:
        """What it holds, for whoever inspects the lock."""
        return f'{{"ttl": {ttl!r}, "meta": {self.meta}}}'.encode()

    def lone(self) -> None:
        """The one before it has gone."""
        self.predecessor, self.watching, self.next = None, None, False

    def woken(self, ask: Ask | None) -> None:
        """The predecessor has gone, or nobody would tell us.

        The queue is looked at without waiting for the one who waits: it is called when the answer
        is there.
        """
        self.lone()
        if ask is None:
            self.called()
            return
        self.look = Flight(1, self.called)
        ask((messages.children(self.folder),), self.look)

    def called(self) -> None:
        """Have the one who waits look, or lose its place."""
        self.until = self._now() + self.ttl
        self._nudge(self.until)
        if self.signal is not None:
            self.signal.set()


def read_data(data: bytes | None, otherwise_ttl: float) -> tuple[float, Meta]:
    """The ttl and the words of a contender; of a stranger's node, what can be shown of it."""
    text = (data or b"").decode(errors="replace")
    try:
        found: Any = json.loads(text)
        return float(found["ttl"]), dict(found["meta"])
    except (ValueError, TypeError, KeyError):
        words: dict[str, Scalar] = {"identifier": text} if text else {}
        return otherwise_ttl, words


def read_words(found: Any) -> str:
    """The words of a holder as JSON text, where its node was still there."""
    return "" if isinstance(found, Exception) else json.dumps(read_data(found[0], 0.0)[1])
