"""The recorder of a play: messages, the states of lanes, and events as text."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from ..sim.network import Action, Conditions, Host, Network, Pipe, Way
from ..sim.world import Simulation

Describe = Callable[[object], str | None]
"""Describes a message on a connection; None for one that is left out of the trace."""
CALLS = {
    "accept": "connect", "established": "connected", "lost": "connection closed",
    "leave": "close",
}  # fmt: skip


class Recorder:
    """All that was observed, in the order in which it happened."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self.messages: list[dict[str, Any]] = []
        self.events: list[dict[str, Any]] = []
        self.states: dict[str, list[tuple[float, dict[str, Any]]]] = {}
        self.sources: dict[str, Callable[[], dict[str, Any]]] = {}
        """Returns the state of a lane, by its name."""
        self._due: dict[str, None] = {}
        """The lanes whose state may have changed at this moment."""

    @property
    def now(self) -> float:
        return self._simulation.now

    def look(self, *lanes: str) -> None:
        """Mark these lanes, or all, as changed; ``settle`` records them when the moment is over."""
        self._due.update(dict.fromkeys(lanes or self.sources))

    def settle(self) -> None:
        """Record the states that have changed: no more happens at this moment."""
        for lane in self._due:
            if lane in self.sources:
                state, known = self.sources[lane](), self.states.setdefault(lane, [])
                if not known or known[-1][1] != state:
                    known.append((self.now, state))
        self._due.clear()

    def tell(self, lane: str, kind: str, words: str, **more: int) -> None:
        """Add an event; ``{fence}`` and ``{highest}`` in its text stand for fences."""
        self.events.append({"at": self.now, "lane": lane, "kind": kind, "words": words, **more})

    def sent(self, way: Way, what: str | None) -> dict[str, Any]:
        """Add a message in transit, unless it has no description."""
        message: dict[str, Any] = {
            "from": way[0], "to": way[1], "sent": self.now, "arrived": None, "fate": "under way",
            "what": what,
        }  # fmt: skip
        if what is not None:
            self.messages.append(message)
        return message

    def arrived(self, message: dict[str, Any], target: Host) -> None:
        """Record the fate of a message at its target."""
        message["arrived"] = self.now
        if target.is_down:
            message["fate"] = "nobody is there"
        else:
            message["fate"] = "waits for its process" if target.is_paused else "arrived"


class Landing:
    """The action of a datagram at its target, whose state is recorded afterwards."""

    def __init__(
        self, recorder: Recorder, message: dict[str, Any], target: Host, action: Action
    ) -> None:
        self._recorder = recorder
        self.message = message
        self._target = target
        self._action = action

    def __call__(self) -> None:
        self._action()
        self._recorder.look(self._target.name)


class ObservedNetwork(Network):
    """A network whose messages are recorded."""

    def __init__(
        self, simulation: Simulation, conditions: Conditions, recorder: Recorder, describe: Describe
    ) -> None:
        super().__init__(simulation, conditions)
        self.recorder = recorder
        self.describer: Callable[[str, str], Describe] = lambda source, target: describe
        """Returns the describer of one direction of a new connection, from one host to another."""
        self.losing: dict[Way, int] = {}
        """How many of the next messages in each direction are to be lost."""

    def pipe(self, source: Host, target: Host, take: Callable[[Any], object]) -> Pipe:
        return ObservedPipe(self, source, target, take)

    def datagram(self, source: Host, target: Host, action: Action, what: str = "") -> None:
        way = (source.name, target.name)
        message = self.recorder.sent(way, what)
        if self.loses(way):
            message["fate"] = "lost"
            return
        super().datagram(source, target, Landing(self.recorder, message, target, action), what)

    def _land(self, datagram: tuple[Way, Host, Action]) -> None:
        way, target, action = datagram
        if isinstance(action, Landing):
            if way in self.cuts:
                action.message["fate"] = "cut off"
            else:
                self.recorder.arrived(action.message, target)
        super()._land(datagram)

    def loses(self, way: Way) -> bool:
        """Return whether the present message in a direction is to be lost, and count it."""
        if not self.losing.get(way):
            return False
        self.losing[way] -= 1
        return True


class ObservedPipe(Pipe):
    """One direction of a connection, whose messages are recorded."""

    def __init__(
        self,
        network: ObservedNetwork,
        source: Host,
        target: Host,
        take: Callable[[Any], object],
    ) -> None:
        super().__init__(network, source, target, take)
        self._observed = network
        self._to = target
        self._describe = network.describer(source.name, target.name)
        self._sent: deque[dict[str, Any]] = deque()

    def carry(self, what: object) -> None:
        message = self._observed.recorder.sent(self._way, self._describe(what))
        if self._observed.loses(self._way):
            message["fate"] = "lost"
            self.broken = True  # what comes after it on this connection does not arrive either
        self._sent.append(message)
        super().carry(what)
        self._see_held()

    def send(self, action: Action) -> None:
        name = getattr(getattr(action, "func", action), "__name__", "")
        self._sent.append(self._observed.recorder.sent(self._way, CALLS.get(name, name)))
        super().send(action)
        self._see_held()

    def _see_held(self) -> None:
        if self._held:
            for message in self._sent:
                message["fate"] = "held back by a cut"

    def _arrive(self, _: None) -> None:
        if self.broken:
            if self._sent and self._sent[0]["fate"] == "under way":
                self._sent.popleft()["fate"] = "lost"
            return
        if self._held or self._way in self._observed.cuts:
            super()._arrive(_)
            self._see_held()
            return
        message = self._sent.popleft()
        self._observed.recorder.arrived(message, self._to)
        super()._arrive(_)
        if message["what"] is not None:
            self._observed.recorder.look(self._to.name)
