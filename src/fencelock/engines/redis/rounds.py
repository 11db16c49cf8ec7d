"""The bookkeeping of rounds for both flavors: who is asked, who has answered, who must wait.

There is one connection to each node, for all threads or tasks. What is sent on it is served in
order, and replies come in order: a line keeps a list of who waits for which. So

* a reply that comes late is matched with its own request and never with the next one;
* what undoes a request stands behind it, even where the request was never answered;
* nobody waits for a minority: a round ends when it is settled, and the rest drains later.

A node that has not answered for a while is *silent*: new requests are held back from it until it
has worked off the old ones, except what gives locks back. A node that cannot be reached is tried
again in the background, ever more rarely, and until then counts as an answer: an error.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Container, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from hiredis import ReplyError

from ...errors import EngineError, Misconfigured, OutcomeUnknown, Unavailable
from .replies import Moved, mapped
from .round import OWED_MAX, RETRY_MAX_S, RETRY_MIN_S, Ask, Line, Round
from .scripts import Script, script
from .settings import Node, Settings
from .wire import CLOSED, packed

if TYPE_CHECKING:
    from ...world import World

NOT_ASKED = Unavailable("this node was not asked")

L = TypeVar("L", bound=Line)


class Rounds(ABC, Generic[L]):
    """The connections of one client to all nodes, for one lane."""

    def __init__(
        self,
        settings: Settings,
        scripts: Sequence[Script],
        lines: list[L],
        now: Callable[[], float],
    ) -> None:
        self._settings = settings
        self._scripts = [packed("SCRIPT", "LOAD", script.source) for script in scripts]
        self._request_timeout = settings.request_timeout
        self._now = now
        self._lines = lines
        self._waiting: list[Round] = []
        """Rounds that some node has not been sent yet."""

    @abstractmethod
    async def ask(
        self,
        ask: Ask | bytes,
        cast: Callable[[Any], bool],
        until: float,
        kept_until: float = 0.0,
        places: Container[int] | None = None,
    ) -> Round:
        """Send to all nodes, or to some, and return when it is settled or the time has come."""

    @abstractmethod
    async def close(self) -> None: ...

    @abstractmethod
    def close_nowait(self) -> None:
        """Close without waiting, in whatever thread this is."""

    @abstractmethod
    def _write(self, line: L, payload: bytes) -> None:
        """Send without waiting; what cannot go now goes later, in order."""

    @abstractmethod
    def _dial(self, line: L) -> None:
        """Begin to connect in the background; ends in ``_up`` or ``_down``."""

    # A round begins, and ends.

    def _begin(self, round: Round, places: Container[int] | None) -> None:
        now = self._now()
        fresh, entry, payload = now - self._request_timeout, (round, now), round.payload
        waits = False
        for line in self._lines:
            if places is not None and line.place not in places:
                round.answers[line.place] = NOT_ASKED
            elif line.up and (not line.pending or line.pending[0][1] > fresh):
                line.pending.append(entry)
                self._write(line, payload)
            else:
                waits |= self._offer(line, round, now)
        if waits:
            self._waiting.append(round)

    def _offer(self, line: L, round: Round, now: float) -> bool:
        """A node that is silent or not there; whether the round waits until it is."""
        if line.up and round.kept_until and len(line.pending) < OWED_MAX:
            line.pending.append((round, now))
            self._write(line, round.payload)
            return False
        if round.kept_until:
            line.keep(round, now)
        if not line.up and not line.dialing:
            if line.failure is not None and now < line.retry_at:
                round.answer(line.place, line.failure)
                return False
            line.dialing = True
            self._dial(line)
        return True

    def _end(self, round: Round) -> None:
        round.open = False
        if self._waiting and round in self._waiting:
            self._waiting.remove(round)

    # What happens to a line.

    def _heard(self, line: L, gets: Callable[[], Any]) -> None:
        """Hand replies to those who asked; then the node may be asked again."""
        pending, place = line.pending, line.place
        while (reply := gets()) is not False:
            if not pending:
                raise ConnectionError("it said something that nobody asked for")
            round = pending.popleft()[0]
            if reply.__class__ is ReplyError:
                self._refused(line, round, str(reply))
            else:
                round.answer(place, reply)
        if self._waiting or line.later:
            self._catch_up(line)

    def _refused(self, line: L, round: Round, text: str) -> None:
        if round.ask is None or not text.startswith("NOSCRIPT"):
            round.answer(line.place, refusal(text, line.node))
        elif round.open:  # else what undoes it may have been sent already
            line.pending.append((round, self._now()))
            self._write(line, round.ask.whole())

    def _catch_up(self, line: L) -> None:
        """Send what was held back."""
        now = self._now()
        if line.pending and now - line.pending[0][1] >= self._request_timeout:
            return
        waiting = [round for round in self._waiting if round.answers[line.place] is None]
        held_back = [*line.later, *waiting]
        line.later.clear()
        sent = {id(round) for round, _ in line.pending}
        for round in held_back:
            if id(round) not in sent and (round.open or round.kept_until > now) and line.up:
                sent.add(id(round))
                line.pending.append((round, now))
                self._write(line, round.payload)

    def _connected(self, line: L) -> None:
        line.up, line.dialing = True, False
        line.failure, line.delay = None, RETRY_MIN_S
        # A node that had to ask for a script might miss a round that is settled without it.
        nobody = Round(len(self._lines), b"", lambda _: True)
        line.pending.extend([(nobody, self._now())] * len(self._scripts))
        self._write(line, b"".join(self._scripts))
        self._catch_up(line)

    def _unreachable(self, line: L, error: Exception) -> None:
        """A connection could not be made: those who wait for this node need not."""
        line.up = line.dialing = False
        line.failure = error
        line.retry_at = self._now() + line.delay
        line.delay = min(line.delay * 2, RETRY_MAX_S)
        for round in list(self._waiting):
            round.answer(line.place, error)

    def _give_up(self) -> None:
        """The client is closed: nobody waits any more."""
        for round in list(self._waiting):
            for line in self._lines:
                round.answer(line.place, Unavailable(CLOSED))

    def _broken(self, line: L, why: object) -> None:
        """The connection is gone: what was asked and not answered may have happened."""
        line.up = False
        pending, line.pending = line.pending, deque()
        error = OutcomeUnknown(f"the connection to {where(line.node)} broke ({why})")
        for round, _ in pending:
            if round.kept_until:
                line.keep(round, self._now())
            round.answer(line.place, error)


def make_rounds(world: World, settings: Settings, *scripts: str) -> Rounds[Any]:
    """The rounds for a world, at nodes that know these scripts; each imports its own driver."""
    known = [script(name) for name in scripts]
    if world.flavor == "asyncio":
        from .rounds_aio import AioRounds

        return AioRounds(settings, known, world.now)
    if world.flavor == "sim":
        rounds: Rounds[Any] = cast("Any", world).edge.rounds(world, settings, known)
        return rounds
    from .rounds_threads import ThreadsRounds

    return ThreadsRounds(settings, known, world)


def refusal(text: str, node: Node) -> Exception:
    """The error of ours for an error reply of one node."""
    error = mapped(text, where(node))
    if isinstance(error, Moved):
        return Misconfigured(
            f"{where(node)} is a replica or part of a cluster ({text}); nothing happened there. "
            "The nodes of redlock:// must be independent primaries"
        )
    return error if isinstance(error, EngineError) else Unavailable(str(error))


def where(node: Node) -> str:
    return f"{node[0]}:{node[1]}"
