"""One request to several nodes at once, and what is known of the way to each of them.

Values and queues only: ``rounds.py`` moves them, and its two flavors have the sockets.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

from .scripts import Script
from .settings import Node
from .wire import Word, packed

RETRY_MIN_S, RETRY_MAX_S = 0.05, 2.0  # between two tries to connect to a node
OWED_MAX = 1000  # requests that a silent node may owe an answer to, or that wait for a dead one


class Ask(NamedTuple):
    """What to run at each node."""

    script: Script
    keys: tuple[str, ...]
    words: tuple[Word, ...]

    def packed(self) -> bytes:
        return packed("EVALSHA", self.script.digest, str(len(self.keys)), *self.keys, *self.words)

    def whole(self) -> bytes:
        """The same for a node that does not know the script yet."""
        return packed("EVAL", self.script.source, str(len(self.keys)), *self.keys, *self.words)


class Round:
    """One request, and what each node has answered so far: a reply, an error, or None."""

    __slots__ = ("answers", "ask", "cast", "kept_until", "open", "payload", "settled", "wake")

    def __init__(
        self,
        nodes: int,
        ask: Ask | bytes,
        cast: Callable[[Any], bool],
        kept_until: float = 0.0,
    ) -> None:
        self.ask = ask if isinstance(ask, Ask) else None
        if isinstance(ask, bytes):
            self.payload = ask
        else:  # what is kept must not depend on what a node remembers
            self.payload = ask.whole() if kept_until else ask.packed()
        self.answers: list[Any] = [None] * nodes
        self.cast = cast
        """Counts an answer, and says whether that settles it."""
        self.kept_until = kept_until
        """Until when the request is worth being sent, however late; else only while it is open."""
        self.settled = False
        self.open = True
        self.wake: Callable[[], None] | None = None

    def answer(self, place: int, answer: object) -> None:
        """Take the answer of a node; only its first word counts."""
        if self.answers[place] is not None:
            return
        self.answers[place] = answer
        if not self.settled and self.cast(answer):
            self.settled = True
            if self.wake is not None:
                self.wake()


class Line:
    """The way to one node."""

    def __init__(self, place: int, node: Node) -> None:
        self.place = place
        self.node = node
        self.up = False
        self.dialing = False
        self.failure: Exception | None = None
        self.retry_at = 0.0
        self.delay = RETRY_MIN_S
        self.pending: deque[tuple[Round, float]] = deque()
        """Who waits for the next replies, and since when."""
        self.later: deque[Round] = deque(maxlen=OWED_MAX)
        """What must still be sent when the node can be reached again."""

    def keep(self, round: Round, now: float) -> None:
        """Have it sent later, if that is soon enough; the oldest give way."""
        while self.later and self.later[0].kept_until <= now:
            self.later.popleft()
        self.later.append(round)
