"""The simulated network: ordered connections and loose datagrams between hosts that may be cut off.

What is sent on a connection arrives in order, late, or never when the connection breaks. A cut
holds back what is under way in its direction, as retransmission does, and lets it go when it is
healed: a request may land long after its sender gave up. Datagrams may also be lost, doubled and
overtaken. Whatever reaches a paused process is handled when it runs again.
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
    """What may befall a message. Chances are per message."""

    delay_max: float = 0.02
    breaks: float = 0.0
    """The connection breaks, before the message arrives or after."""
    lost: float = 0.0
    """A datagram does not arrive."""
    doubled: float = 0.0
    """It arrives twice."""
    overtaken: float = 0.0
    """It is late, and others come first."""
    copied: float = 0.0
    """A call of the service comes a second time, up to seconds later, as from a proxy."""
    delay_min: float = 0.0
    """No message takes less than that."""


class Host:
    """A process on the network: it runs, is paused, or is gone."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_paused = False
        self.is_down = False
        self.mail: list[Action] = []

    def deliver(self, action: Action) -> None:
        """Let the process handle what has arrived, now or when it runs again."""
        if self.is_down:
            return
        if self.is_paused:
            self.mail.append(action)
        else:
            action()

    def wake(self) -> None:
        """Go on, and handle what has come meanwhile."""
        self.is_paused = False
        mail, self.mail = self.mail, []
        for action in mail:
            self.deliver(action)


class Pipe:
    """One direction of a connection: what is sent stands in line, and each arrival takes the first.

    So the order is kept, whatever of it was held back by a cut and whatever was still under way.
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
        """Is given what was carried to the other end."""
        self._last = 0.0
        self._line: deque[tuple[Action | None, object]] = deque()
        self._held = 0
        """Arrivals that wait until the way is open."""
        self.broken = False

    def carry(self, what: object) -> None:
        """Bring something to the other end."""
        network = self._network
        self._line.append((None, what))
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
        simulation.hand(when, self._arrive, None)

    def send(self, action: Action) -> None:
        """Have something happen at the other end."""
        self._line.append((action, None))
        if self._held or self._network.is_cut(self._way):
            self._hold()
        else:
            self._set_out()

    def _set_out(self) -> None:
        network = self._network
        self._last = max(self._last, self._simulation.now + network.delay(self._way, self._random))
        self._simulation.hand(self._last, self._arrive, None)

    def _arrive(self, _: None) -> None:
        if self.broken:
            return
        network, target = self._network, self._target
        if self._held or (network.cuts and self._way in network.cuts):
            self._hold()
            return
        action, what = self._line.popleft()
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
        """The way is open again."""
        held, self._held = self._held, 0
        for _ in range(held):
            self._set_out()


class Network:
    """All ways between hosts."""

    def __init__(self, simulation: Simulation, conditions: Conditions) -> None:
        self.simulation = simulation
        self._random = simulation.random
        self.change(conditions)
        self.slowed: dict[Way, float] = {}
        """How much longer a message takes on each way that is slow."""
        self.cuts: dict[Way, int] = {}
        """How many cuts there are on each way that is cut."""
        self._holding: dict[Way, list[Pipe]] = {}
        self._last: dict[Way, float] = {}

    def change(self, conditions: Conditions) -> None:
        """Let messages fare like this from now on."""
        self.conditions = conditions
        self.delay_min = conditions.delay_min  # these are read for every message
        self.delay_span = conditions.delay_max - conditions.delay_min

    def stream(self, way: Way) -> Draw:
        """Where that is drawn which befalls messages on this way."""
        simulation = self.simulation
        return simulation.stream(" ".join(("way", *way))) if simulation.is_keyed else self._random

    def pipe(self, source: Host, target: Host, take: Callable[[Any], object]) -> Pipe:
        """One direction of a new connection."""
        return Pipe(self, source, target, take)

    def delay(self, way: Way, random: Draw) -> float:
        """Draw how long a message is under way: short most of the time. A pipe does the same."""
        return self.delay_min + self.delay_span * random() ** 3 + self.slowed.get(way, 0.0)

    def happens(self, chance: float, way: Way) -> bool:
        """Draw whether something happens on a way."""
        return chance > 0 and self.stream(way)() < chance

    def datagram(self, source: Host, target: Host, action: Action, what: str = "") -> None:
        """Send what may be lost, doubled or overtaken; ``what`` names it for those who look on."""
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
                self.simulation.hand(when, self._land, (way, target, action))

    def _land(self, datagram: tuple[Way, Host, Action]) -> None:
        way, target, action = datagram
        if way not in self.cuts:
            target.deliver(action)

    # Cuts

    def is_cut(self, way: Way) -> bool:
        return way in self.cuts

    def cut(self, ways: list[Way]) -> None:
        """Let nothing through from one host to another."""
        for way in ways:
            self.cuts[way] = self.cuts.get(way, 0) + 1

    def heal(self, ways: list[Way]) -> None:
        """End a cut; what was held back goes on its way."""
        for way in ways:
            self.cuts[way] -= 1
            if not self.cuts[way]:
                del self.cuts[way]
                for pipe in self._holding.pop(way, ()):
                    pipe.let_go()

    def holding(self, way: Way, pipe: Pipe) -> None:
        """A pipe holds something back until this way is open."""
        self._holding.setdefault(way, []).append(pipe)
