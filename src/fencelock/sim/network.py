"""The simulated network: ordered connections and single datagrams between hosts.

Messages on a connection arrive in order, late, or never if the connection breaks. A cut blocks one
direction: it holds back the connections' messages in flight, as retransmission does, and delivers
them when it is healed, so a request may arrive long after its sender gave up. Datagrams may also be
lost, duplicated and overtaken. Whatever reaches a paused process is handled when it runs again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from .scheduler import Draw
from .world import Simulation

Action = Callable[[], object]
Way = tuple[str, str]


class Conditions(NamedTuple):
    """Delays and chances of faults. Chances are per message, delays in seconds."""

    delay_max: float = 0.02
    breaks: float = 0.0
    """Chance that the connection breaks, before the message arrives or after."""
    lost: float = 0.0
    """Chance that a datagram does not arrive."""
    doubled: float = 0.0
    """Chance that it arrives twice."""
    overtaken: float = 0.0
    """Chance that it is late, and later ones arrive first."""
    copied: float = 0.0
    """Chance that a call of the service arrives again, up to seconds later, as from a proxy."""
    delay_min: float = 0.0
    """The shortest delay of a message."""


class Host:
    """A process on the network: it runs, is paused, or is gone."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_paused = False
        self.is_down = False
        self.mail: list[Action] = []

    def deliver(self, action: Action) -> None:
        """Run the handler of a message now or, if the process is paused, when it runs again."""
        if self.is_down:
            return
        if self.is_paused:
            self.mail.append(action)
        else:
            action()

    def wake(self) -> None:
        """Resume, and handle the messages that arrived meanwhile."""
        self.is_paused = False
        mail, self.mail = self.mail, []
        for action in mail:
            self.deliver(action)


class Pipe:
    """One direction of a connection: a queue of messages, of which each arrival takes the first.

    So the order is kept, whether a cut held messages back or they were still in flight.
    """

    def __init__(
        self, network: Network, source: Host, target: Host, take: Callable[[Any], object]
    ) -> None:
        self._network = network
        self._simulation = network.simulation
        self._way = (source.name, target.name)
        self._random = network.stream(self._way)
        self._target = target
        self.take = take
        """Called at the other end with each message that was carried."""
        self._last = 0.0
        self._queue: deque[tuple[Action | None, object]] = deque()
        self._held = 0
        """How many arrivals wait until the direction is open."""
        self.broken = False

    def carry(self, what: object) -> None:
        """Send a message, which is passed to ``take`` at the other end."""
        network = self._network
        self._queue.append((None, what))
        if self._held or (network.cuts and self._way in network.cuts):
            self._hold()
            return
        simulation = self._simulation
        when = simulation.now + network.delay_min + network.delay_span * self._random() ** 3
        if network.slowed:
            when += network.slowed.get(self._way, 0.0)
        if when < self._last:
            when = self._last
        else:
            self._last = when
        simulation.call_at(when, self._arrive, None)

    def send(self, action: Action) -> None:
        """Send an action, which runs at the other end."""
        self._queue.append((action, None))
        if self._held or self._network.is_cut(self._way):
            self._hold()
        else:
            self._set_out()

    def _set_out(self) -> None:
        network = self._network
        self._last = max(self._last, self._simulation.now + network.delay(self._way, self._random))
        self._simulation.call_at(self._last, self._arrive, None)

    def _arrive(self, _: None) -> None:
        if self.broken:
            return
        network, target = self._network, self._target
        if self._held or (network.cuts and self._way in network.cuts):
            self._hold()
            return
        action, what = self._queue.popleft()
        if action is None and not target.is_paused and not target.is_down:
            self.take(what)
        else:
            target.deliver(action or partial(self._hand_over, what))

    def _hand_over(self, what: object) -> None:
        self.take(what)

    def _hold(self) -> None:
        if not self._held:
            self._network.holding(self._way, self)
        self._held += 1

    def let_go(self) -> None:
        """Send what was held back: the direction is open again."""
        held, self._held = self._held, 0
        for _ in range(held):
            self._set_out()


class Network:
    """All directions between hosts: which are cut or slow, and how messages fare."""

    def __init__(self, simulation: Simulation, conditions: Conditions) -> None:
        self.simulation = simulation
        self._random = simulation.random
        self.change(conditions)
        self.slowed: dict[Way, float] = {}
        """Extra seconds that a message takes, by direction that is slow."""
        self.cuts: dict[Way, int] = {}
        """How many cuts block each direction that is cut."""
        self._holding: dict[Way, list[Pipe]] = {}
        self._last: dict[Way, float] = {}

    def change(self, conditions: Conditions) -> None:
        """Apply these conditions to messages from now on."""
        self.conditions = conditions
        self.delay_min = conditions.delay_min  # these are read for every message
        self.delay_span = conditions.delay_max - conditions.delay_min

    def stream(self, way: Way) -> Draw:
        """Return the source of random numbers for messages in this direction."""
        simulation = self.simulation
        return simulation.stream(" ".join(("way", *way))) if simulation.is_keyed else self._random

    def pipe(self, source: Host, target: Host, take: Callable[[Any], object]) -> Pipe:
        """Create one direction of a new connection."""
        return Pipe(self, source, target, take)

    def delay(self, way: Way, random: Draw) -> float:
        """Draw a message's delay, which is mostly short. ``Pipe.carry`` repeats this inline."""
        return self.delay_min + self.delay_span * random() ** 3 + self.slowed.get(way, 0.0)

    def happens(self, chance: float, way: Way) -> bool:
        """Draw whether something happens to a message in a direction."""
        return chance > 0 and self.stream(way)() < chance

    def datagram(self, source: Host, target: Host, action: Action, what: str = "") -> None:
        """Send a datagram, which may be lost, doubled or overtaken; ``what`` is for observers."""
        conditions, way = self.conditions, (source.name, target.name)
        random = self.stream(way)
        copies = 2 if self.happens(conditions.doubled, way) else 1
        for _ in range(copies):
            when = self.simulation.now + self.delay(way, random)
            if self.happens(conditions.overtaken, way):
                when += 5 * conditions.delay_max * random()
            else:
                when = self._last[way] = max(when, self._last.get(way, 0.0))
            if not self.happens(conditions.lost, way):
                self.simulation.call_at(when, self._land, (way, target, action))

    def _land(self, datagram: tuple[Way, Host, Action]) -> None:
        way, target, action = datagram
        if way not in self.cuts:
            target.deliver(action)

    # Cuts

    def is_cut(self, way: Way) -> bool:
        return way in self.cuts

    def cut(self, ways: list[Way]) -> None:
        """Block these directions."""
        for way in ways:
            self.cuts[way] = self.cuts.get(way, 0) + 1

    def heal(self, ways: list[Way]) -> None:
        """End one cut of each of these directions; where it was the last, send what was held."""
        for way in ways:
            self.cuts[way] -= 1
            if not self.cuts[way]:
                del self.cuts[way]
                for pipe in self._holding.pop(way, ()):
                    pipe.let_go()

    def holding(self, way: Way, pipe: Pipe) -> None:
        """Register a pipe that holds messages back until this direction is open."""
        self._holding.setdefault(way, []).append(pipe)
