"""One simulated run over the memory engine: clients in processes of their own, behind a network.

The protocol is the real one: Core over the memory engine, which stands in a process of its own
here, with a clock of its own, at the other end of a network that delays and loses. What a client
does and what befalls it is drawn from the seed; `FAULT_PROFILES` says what may befall it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from fencelock._client.client import CLOSE_S, Core
from fencelock._client.hold_state import HoldState
from fencelock._client.lock_options import make_lock_spec
from fencelock.engine import Address
from fencelock.engines.memory import MemoryEngine
from fencelock.engines.units import FORGET_S
from fencelock.errors import FencelockError, LeaseLost
from fencelock.model import Busy, Grant, Request
from fencelock.sim.store import queue_of, record_of
from fencelock.sim.world import Simulation, SimWorld, Task
from fencelock.world import GRACE_S, sleep
from tests.sim.fault_profiles import FaultProfile
from tests.sim.judge import NAME, Judge, JudgedStore, Violation
from tests.sim.remote import Remote

R = TypeVar("R")
T = TypeVar("T")

TTLS = (0.3, 1.0, 3.0)
STEPS_MAX = 50_000


class Hold:
    """A lease, in so far as core needs one."""

    def __init__(self, tenure: HoldState) -> None:
        self._hold = tenure

    @property
    def tenure(self) -> HoldState:
        return self._hold


class Client:
    """One process with one client, which several tasks of it use to visit the lock."""

    def __init__(self, run: MemoryRun, name: str) -> None:
        self._run = run
        pace = 1 + (run.simulation.random() - 0.5) * 0.006  # two such clocks stay within the drift
        self.world = run.simulation.world(name, ahead=run.simulation.random() * 1e5, pace=pace)
        self.core: Core[Hold] = Core(self.world, self._engine, self._lease)
        self.tenures: list[HoldState] = []
        self.resumed_at = 0.0
        self.visits: list[Task] = []

    def _engine(self) -> Remote:
        return Remote(self._run, self.world)

    def _lease(self, core: Core[Hold], tenure: HoldState) -> Hold:
        self.tenures.append(tenure)
        return Hold(tenure)

    def pause(self, seconds: float) -> None:
        """Freeze the process for a while."""
        self.world.pause()
        self._run.simulation.at(self._run.simulation.now + seconds, self._resume)

    def _resume(self) -> None:
        self.resumed_at = self._run.simulation.now
        self.world.resume()

    async def live(self) -> None:
        """Come a few times, two at once now and then; close the client when all have gone."""
        for _ in range(2 + int(self.world.random() * 4)):
            await sleep(self.world, self.world.random() * 0.3)
            self.visits.append(self._run.simulation.start(self._visit(), self.world, "visit"))
            if self.world.random() < 0.7:
                await self.world.wait(self.visits[-1].ended, None)
        for visit in self.visits:
            await self.world.wait(visit.ended, None)
        await self.core.close()

    async def _visit(self) -> None:
        draw = self.world.random
        ttl = _any_of(self.world, TTLS)
        timeout = _any_of(self.world, (0.0, 0.5, 4.0, None))
        max_hold = ttl * (0.5 + 2 * draw()) if draw() < 0.2 else None
        spec = make_lock_spec(NAME, ttl, None, draw() < 0.8, max_hold, None, False, None, None)
        try:
            hold = await self.core.attempt(spec, timeout)
            if isinstance(hold, Hold):
                try:
                    await self._work(hold.tenure, draw() * 1.6 * ttl)
                finally:
                    await self.core.lifecycle.release(hold.tenure)
        except FencelockError as error:
            self._run.simulation.note(self.world.name, type(error).__name__)

    async def _work(self, tenure: HoldState, seconds: float) -> None:
        """Use the lease for a while, renew it by hand now and then; stop when it is lost."""
        try:
            for _ in range(4):
                await sleep(self.world, seconds / 4)
                self.core.lifecycle.check(tenure)
                if self.world.random() < 0.15:
                    await self.core.lifecycle.renew(tenure, _any_of(self.world, (None, *TTLS)))
        except LeaseLost:
            self._run.simulation.note(self.world.name, "stopped")


def _any_of(world: SimWorld, choices: Sequence[T]) -> T:
    return choices[int(world.random() * len(choices))]


class MemoryRun:
    """One run: a profile and a seed, and everything follows."""

    def __init__(self, profile: FaultProfile, seed: int) -> None:
        self.profile = profile
        self.simulation = Simulation(seed, steps_max=STEPS_MAX)
        self.server = self.simulation.world("engine", ahead=5e4)
        self.clients: list[Client] = []
        self.judge = Judge(self)
        self.store = JudgedStore(self)
        self.engine = MemoryEngine(self.server, Address("memory"), self.store)
        self._owners: dict[str, Client] = {}
        count = 2 + int(self.simulation.random() * 3)
        self.clients += [Client(self, f"client-{n}") for n in range(count)]

    def happens(self, chance: float) -> bool:
        """Draw whether something happens."""
        return chance > 0 and self.simulation.random() < chance

    def delay(self) -> float:
        """Draw how long a message is under way: short most of the time."""
        return self.profile.delay_max * self.simulation.random() ** 3

    def client_of(self, owner: str) -> Client:
        """Whose attempt an owner id is."""
        return self._owners[owner]

    async def acquire(self, request: Request) -> Grant | Busy:
        """The engine's acquire, with the judge told what it answered."""
        host = request.meta.split('"')[3]
        self._owners[request.owner] = next(c for c in self.clients if c.world.name == host)
        answer = await self.engine.acquire(request)
        if isinstance(answer, Grant):
            self.judge.granted(request.owner)
        elif request.queue:
            self.judge.queued(request.owner)
        return answer

    def run(self) -> None:
        """Play it to its end; the judge raises Violation."""
        with self.simulation:
            for client in self.clients:
                self.simulation.start(client.live(), client.world, "life")
            nemesis = self.simulation.world("nemesis")
            self.simulation.start(self._disturb(nemesis), nemesis)
            self.simulation.run(until=self._is_over)
            self._close()

    def _is_over(self) -> bool:
        self.judge.look()
        if self.happens(self.profile.cancels):
            for visit in self._any_client().visits[-1:]:
                visit.cancel()
                self.simulation.at(self.simulation.now + self.delay(), visit.cancel)  # and again
        return all(client.core.closed or client.world.is_crashed for client in self.clients)

    def _any_client(self) -> Client:
        return self.clients[int(self.simulation.random() * len(self.clients))]

    async def _disturb(self, nemesis: SimWorld) -> None:
        for _ in range(self.profile.pauses):
            await sleep(nemesis, nemesis.random())
            self._any_client().pause(nemesis.random() * 1.5)
        for _ in range(self.profile.crashes):
            await sleep(nemesis, nemesis.random())
            self._any_client().world.crash()
        for _ in range(self.profile.revokes):
            await sleep(nemesis, nemesis.random())
            await self._revoke()

    async def _revoke(self) -> None:
        """Take the lock from its holder."""
        record = record_of(self.store, NAME)
        if record is not None:
            self.judge.revoked.add(record.owner)
            await self.engine.revoke(NAME, "the nemesis wished so")

    def _close(self) -> None:
        """All have gone or crashed: a newcomer finds the lock free, at once or within a ttl."""
        ending = self.profile.slowest_call + CLOSE_S + 1.0  # what was begun is taken back meanwhile
        self.simulation.run(until=self.simulation.now + ending)
        is_slow = self.profile.slowest_call > GRACE_S  # and closing a client may be too short
        if self.profile.is_kind and not (is_slow and any(c.core.owed() for c in self.clients)):
            self.judge.nothing_left()
        self.simulation.run(until=self.simulation.now + TTLS[-1])
        self._newcomer(self.judge.request_timeout())
        self.simulation.run(until=self.simulation.now + FORGET_S)
        self._newcomer(self.judge.request_timeout())
        if queue_of(self.store, "lock", NAME):
            raise Violation("the dead stand in the queue for ever")

    def _newcomer(self, request_timeout: float) -> None:
        self.profile = FaultProfile()
        client = Client(self, f"newcomer-{len(self.clients)}")
        self.clients.append(client)
        spec = make_lock_spec(NAME, 1.0, None, True, None, None, False, None, None)

        async def visit() -> None:
            hold = await client.core.attempt(spec, request_timeout)
            if isinstance(hold, Busy):
                raise Violation(f"a newcomer did not get the lock in {request_timeout:.3f} s")
            await client.core.lifecycle.release(hold.tenure)
            await client.core.close()

        self.simulation.play(visit(), client.world)
