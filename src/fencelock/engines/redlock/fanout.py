"""Send one request to several nodes at once: track which got it, which answered, which must wait.

There is one connection to each node, for all threads or tasks. Requests on it are served in order,
and replies come in order: a queue for each node tells to which request a reply belongs. So

* a reply that comes late is matched with its own request and never with the next one;
* what undoes a request is sent behind it, even where the request was never answered;
* nobody waits for a minority: a broadcast ends when it is settled, and the rest drains later.

A node that has not answered for a while is *silent*: new requests are held back from it until it
has worked off the old ones, except what gives locks back. A connection to a node that cannot be
reached is retried in the background, ever more rarely, and until then the node counts as having
answered with an error.

The connections are those of ``redis``: this is the bookkeeping above them, the same for both
flavors.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Container, Sequence
from typing import Any, Generic, TypeVar

from hiredis import ReplyError

from ...errors import EngineError, Misconfigured, OutcomeUnknown, Unavailable
from ..redis.errors import Moved, mapped
from ..redis.scripts import Script
from ..redis.settings import Node, Settings, where
from ..redis.wire.connection import CLOSED, ScriptCall, packed

RETRY_MIN_S, RETRY_MAX_S = 0.05, 2.0  # between two tries to connect to a node
OWED_MAX = 1000  # requests that a silent node may leave unanswered, or that wait for a dead one
NOT_SENT = Unavailable("this node was not asked")


def _nobody() -> None:
    """Wake nobody: nobody waits yet."""


class Broadcast:
    """One request, and what each node has answered so far: a reply, an error, or None."""

    __slots__ = (
        "answers",
        "call",
        "count_vote",
        "kept_until",
        "open",
        "payload",
        "settled",
        "wake",
    )

    def __init__(
        self,
        nodes: int,
        request: ScriptCall | bytes,
        count_vote: Callable[[Any], bool],
        kept_until: float = 0.0,
    ) -> None:
        self.call = None if isinstance(request, bytes) else request
        if isinstance(request, bytes):
            self.payload = request
        else:  # a request that is kept must not depend on the scripts that a node knows
            self.payload = request.packed_whole() if kept_until else request.packed()
        self.answers: list[Any] = [None] * nodes
        self.count_vote = count_vote
        """Counts an answer, and returns whether that settles the broadcast."""
        self.kept_until = kept_until
        """The moment until which the request is sent however late; 0: only while it is open."""
        self.settled = False
        self.open = True
        self.wake: Callable[[], None] = _nobody

    def answer(self, index: int, answer: object) -> None:
        """Take the answer of a node; only its first one counts."""
        if self.answers[index] is not None:
            return
        self.answers[index] = answer
        if not self.settled and self.count_vote(answer):
            self.settled = True
            self.wake()


class NodeConnection:
    """The state of one node: whether it can be reached, and the replies that it owes."""

    def __init__(self, index: int, address: Node) -> None:
        self.index = index
        self.address = address
        self.up = False
        self.connecting = False
        self.failure: Exception | None = None
        self.retry_at = 0.0
        self.delay = RETRY_MIN_S
        self.pending: deque[tuple[Broadcast, float]] = deque()
        """The broadcasts to which the next replies belong, and when each was sent."""
        self.later: deque[Broadcast] = deque(maxlen=OWED_MAX)
        """Broadcasts that must still be sent when the node can be reached again."""

    def keep(self, broadcast: Broadcast, now: float) -> None:
        """Have a broadcast sent later; drop those that have expired, or the oldest if too many."""
        while self.later and self.later[0].kept_until <= now:
            self.later.popleft()
        self.later.append(broadcast)


N = TypeVar("N", bound=NodeConnection)


class Fanout(ABC, Generic[N]):
    """The connections of one client to all nodes, for one purpose."""

    def __init__(
        self,
        settings: Settings,
        scripts: Sequence[Script],
        nodes: list[N],
        now: Callable[[], float],
    ) -> None:
        self._settings = settings
        self._scripts = [packed("SCRIPT", "LOAD", script.source) for script in scripts]
        self._request_timeout = settings.request_timeout
        self._now = now
        self._nodes = nodes
        self._waiting: list[Broadcast] = []
        """Broadcasts that were not sent to every node yet."""

    async def send(
        self,
        request: ScriptCall | bytes,
        count_vote: Callable[[Any], bool],
        until: float,
        kept_until: float = 0.0,
        only: Container[int] | None = None,
    ) -> Broadcast:
        """Send to all nodes, or to some; return when it is settled, or at ``until``."""
        broadcast = Broadcast(len(self._nodes), request, count_vote, kept_until)
        await self._send(broadcast, until, only)
        return broadcast

    @abstractmethod
    async def _send(
        self, broadcast: Broadcast, until: float, only: Container[int] | None
    ) -> None: ...

    @abstractmethod
    async def close(self) -> None: ...

    @abstractmethod
    def close_nowait(self) -> None:
        """Close without waiting; any thread may call this."""

    @abstractmethod
    def _write(self, node: N, payload: bytes) -> None:
        """Send without waiting; what cannot be sent now is sent later, in order."""

    @abstractmethod
    def _start_connecting(self, node: N) -> None:
        """Begin to connect in the background: the node becomes ``connecting``, until
        ``_connected`` or ``_unreachable`` is called."""

    # A broadcast begins, and ends.

    def _begin(self, broadcast: Broadcast, only: Container[int] | None) -> None:
        now = self._now()
        fresh, entry, payload = now - self._request_timeout, (broadcast, now), broadcast.payload
        waits = False
        for node in self._nodes:
            if only is not None and node.index not in only:
                broadcast.answers[node.index] = NOT_SENT
            elif node.up and (not node.pending or node.pending[0][1] > fresh):
                node.pending.append(entry)
                self._write(node, payload)
            else:
                waits |= self._offer(node, broadcast, now)
        if waits:
            self._waiting = [*(one for one in self._waiting if one.open), broadcast]

    def _offer(self, node: N, broadcast: Broadcast, now: float) -> bool:
        """Offer a broadcast to a node that is silent or not connected; return whether it waits for
        that node."""
        if node.up and broadcast.kept_until and len(node.pending) < OWED_MAX:
            node.pending.append((broadcast, now))
            self._write(node, broadcast.payload)
            return False
        if broadcast.kept_until:
            node.keep(broadcast, now)
        if not node.up and not node.connecting:
            if node.failure is not None and now < node.retry_at:
                broadcast.answer(node.index, node.failure)
                return False
            self._start_connecting(node)
        return True

    def _end(self, broadcast: Broadcast) -> None:
        broadcast.open = False
        if self._waiting:
            self._waiting = [one for one in self._waiting if one.open]

    # What happens to a connection.

    def _replied(self, node: N, gets: Callable[[], Any]) -> None:
        """Match replies with their broadcasts; then the node may get new requests."""
        pending, index = node.pending, node.index
        while (reply := gets()) is not False:
            if not pending:
                raise ConnectionError("it sent a reply without a request")
            broadcast = pending.popleft()[0]
            if reply.__class__ is ReplyError:
                self._refused(node, broadcast, str(reply))
            else:
                broadcast.answer(index, reply)
        if self._waiting or node.later:
            self._catch_up(node)

    def _refused(self, node: N, broadcast: Broadcast, text: str) -> None:
        if broadcast.call is None or not text.startswith("NOSCRIPT"):
            broadcast.answer(node.index, refusal(text, node.address))
        elif broadcast.open:  # else its undo may have been sent already
            node.pending.append((broadcast, self._now()))
            self._write(node, broadcast.call.packed_whole())

    def _catch_up(self, node: N) -> None:
        """Send the broadcasts that were held back from a node."""
        now = self._now()
        if node.pending and now - node.pending[0][1] >= self._request_timeout:
            return
        sent = {id(broadcast) for broadcast, _ in node.pending}
        waiting = [one for one in self._waiting if one.answers[node.index] is None]
        for broadcast in [*node.later, *waiting]:
            if not node.up:
                break  # it was lost again: the rest is sent when it is back
            if id(broadcast) not in sent and (broadcast.open or broadcast.kept_until > now):
                sent.add(id(broadcast))
                node.pending.append((broadcast, now))
                self._write(node, broadcast.payload)
            if node.later and node.later[0] is broadcast:
                node.later.popleft()

    def _connected(self, node: N) -> None:
        node.up, node.connecting = True, False
        node.failure, node.delay = None, RETRY_MIN_S
        # A node that lacks a script might miss a broadcast that is settled without it.
        nobody = Broadcast(len(self._nodes), b"", lambda _: True)
        node.pending.extend([(nobody, self._now())] * len(self._scripts))
        self._write(node, b"".join(self._scripts))
        self._catch_up(node)

    def _unreachable(self, node: N, error: Exception) -> None:
        """Note that a connection could not be made: the waiting broadcasts get the error."""
        node.up = node.connecting = False
        node.failure = error
        node.retry_at = self._now() + node.delay
        node.delay = min(node.delay * 2, RETRY_MAX_S)
        for broadcast in list(self._waiting):
            broadcast.answer(node.index, error)

    def _give_up(self) -> None:
        """End all waiting broadcasts: the client is closed."""
        for broadcast in list(self._waiting):
            for node in self._nodes:
                broadcast.answer(node.index, Unavailable(CLOSED))

    def _broken(self, node: N, why: object) -> None:
        """Note that the connection broke: what was sent and not answered may have happened."""
        node.up = False
        error = OutcomeUnknown(f"the connection to {where(node.address)} broke ({why})")
        for broadcast, _ in list(node.pending):
            if broadcast.kept_until:
                node.keep(broadcast, self._now())
            broadcast.answer(node.index, error)
        node.pending.clear()


def refusal(text: str, node: Node) -> Exception:
    """Return the error of ours for an error reply of one node."""
    error = mapped(text, where(node))
    if isinstance(error, Moved):
        return Misconfigured(
            f"{where(node)} is a replica or part of a cluster ({text}); nothing happened there. "
            "The nodes of redlock:// must be independent primaries"
        )
    return error if isinstance(error, EngineError) else Unavailable(str(error))
