"""The faults of a torture: chosen by a seed, injected into real processes.

At every moment at least one client is undisturbed, so that the work goes on. Each fault is undone
after a while, and all of them when the nemesis ends. Half of the pauses wait for the worst moment:
a client has just checked its lock, and its write is on the way.
"""

from __future__ import annotations

import heapq
import random
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import count

from ...errors import UsageError
from ..history import Event
from .client_process import ClientProcess
from .network import Network

FAULTS: dict[str, str] = {
    "pause": "freeze a client past its ttl (SIGSTOP, then SIGCONT)",
    "kill": "kill a client (SIGKILL) and start it again",
    "lose": "lose the answer to a request, and its connection",
    "partition": "cut a client off from the engine for a while",
}
ON_THE_WIRE = {"lose", "partition"}
AIMED = 0.5  # the share of pauses that wait for the worst moment
OFTEN = {"pause": 2}  # faults that are dealt more than once: no lock can foresee a pause
PACE_TTLS = (0.2, 1.2)  # from one fault to the next


def read_faults(text: str) -> tuple[str, ...]:
    """Parse a comma-separated list of faults."""
    chosen = tuple(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))
    unknown = [word for word in chosen if word not in FAULTS]
    if unknown or not chosen:
        what = f"there is no fault {unknown[0]!r}" if unknown else "no fault is named"
        raise UsageError(f"{what}; known: {', '.join(FAULTS)}")
    return chosen


class Nemesis:
    """Injects one fault after the other until ``end`` is called."""

    def __init__(
        self,
        clients: Sequence[ClientProcess],
        networks: Mapping[str, Network],
        faults: Sequence[str],
        seed: int,
        now: Callable[[], float],
    ) -> None:
        self._clients = clients
        self._networks = networks
        self._faults = faults
        self._deck: list[str] = []
        self._chance = random.Random(seed)
        self._now = now
        self._suffering: set[str] = set()
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()
        self._aim = threading.Lock()
        self._armed = 0.0
        """Seconds to freeze the next client that is about to write; 0 if no pause waits for one."""
        self._next_at = 0.0
        self.counts: Counter[str] = Counter()
        self.events: list[Event] = []
        for client in clients:
            client.on_checked = self._strike

    def step(self) -> None:
        """Undo the faults that have lasted long enough, and inject the next one when it is time."""
        now = self._now()
        with self._aim:
            while self._due and self._due[0][0] <= now:
                heapq.heappop(self._due)[2]()
            if now < self._next_at or not self._faults:
                return
            ttl = self._ttl()
            self._next_at = now + self._chance.uniform(*PACE_TTLS) * ttl
            peaceful = self._peaceful()
            if len(peaceful) > 1 and ttl:
                getattr(self, f"_{self._deal()}")(self._chance.choice(peaceful), ttl)

    def end(self) -> None:
        """Undo all faults, and inject no more."""
        with self._aim:
            self._faults = ()
            self._armed = 0.0
            while self._due:
                heapq.heappop(self._due)[2]()

    def _deal(self) -> str:
        """Return the next fault, dealt from a shuffled deck, so that none is left out for long."""
        if not self._deck:
            self._deck = [fault for fault in self._faults for _ in range(OFTEN.get(fault, 1))]
            self._chance.shuffle(self._deck)
        return self._deck.pop()

    def _peaceful(self) -> list[ClientProcess]:
        return [client for client in self._clients if client.name not in self._suffering]

    def _ttl(self) -> float:
        """Return the longest ttl that the engine has granted; 0 before the first lease."""
        return max(client.ttl for client in self._clients)

    def _pause(self, client: ClientProcess, ttl: float) -> None:
        length = self._chance.uniform(1.1, 1.8) * ttl
        if self._chance.random() < AIMED:
            self._armed = length
        else:
            self._freeze(client, length, "at any moment")

    def _strike(self, client: ClientProcess) -> None:
        """Freeze a client that is about to write, if a pause waits for one.

        The thread that reads the client's output calls this.
        """
        if not self._aim.acquire(blocking=False):
            return
        try:
            if self._armed and client.name not in self._suffering and len(self._peaceful()) > 1:
                length, self._armed = self._armed, 0.0
                self._freeze(client, length, "between its check and its write")
        finally:
            self._aim.release()

    def _freeze(self, client: ClientProcess, length: float, when: str) -> None:
        client.freeze()
        self._note(client, "pause", when)
        self.counts["pause"] += 1

        def resume() -> None:
            self._note(client, "resume")
            client.thaw()

        self._undo(client, length, resume)

    def _kill(self, client: ClientProcess, ttl: float) -> None:
        client.halt()  # so that all that it did is before the note, and its end after
        self._note(client, "crash")
        client.kill()
        self.counts["kill"] += 1

        def restart() -> None:
            self._note(client, "restart")
            client.start()

        self._undo(client, self._chance.uniform(0, 0.5) * ttl, restart)

    def _lose(self, client: ClientProcess, ttl: float) -> None:
        network = self._networks[client.name]
        before = network.lost
        network.lose(self._chance)
        self._note(client, "partition", "the next answer is lost")

        def heal() -> None:
            self.counts["lose"] += network.lost - before
            network.heal()
            self._note(client, "heal")

        self._undo(client, self._chance.uniform(0.5, 1) * ttl, heal)

    def _partition(self, client: ClientProcess, ttl: float) -> None:
        network, silently = self._networks[client.name], self._chance.random() < 0.5
        network.part(silently)
        self._note(client, "partition", "in silence" if silently else "with resets")
        self.counts["partition"] += 1

        def heal() -> None:
            network.heal()
            self._note(client, "heal")

        self._undo(client, self._chance.uniform(0.3, 2) * ttl, heal)

    def _undo(self, client: ClientProcess, after: float, undo: Callable[[], None]) -> None:
        self._suffering.add(client.name)

        def relieve() -> None:
            undo()
            self._suffering.discard(client.name)

        heapq.heappush(self._due, (self._now() + after, next(self._order), relieve))

    def _note(self, client: ClientProcess, verb: str, detail: str = "") -> None:
        self.events.append(Event(self._now(), client.name, "note", verb, detail=detail))
