"""A run: clients and servers on a faulty network, what goes wrong there, and a history of it all.

    run = Run("redlock", draw_plan("storm", 7))
    run.play()
    run.verdict()

What is played is the recipe of the plan: a mutex, or a semaphore, a read/write lock, an election,
work that is done once in a window, several locks at once, a barrier or latches.

The history is judged by the checkers of `fencelock.judge`, as real runs are. The observer sees what
no client can, the servers' own records, and tells at once when a lock is given away that somebody
still believes in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from fencelock._client.lock_options import WRITE, LockSpec, make_lock_spec, semaphore_share
from fencelock._client.pending import ECHO_S, PASS_S
from fencelock.judge import History, Promises, Ruling, Verdict, verdict
from fencelock.recipes.barrier import slots_name
from fencelock.service.tickets import KEEP_S
from fencelock.sim.backends import Backend
from fencelock.sim.network import Conditions, Network
from fencelock.sim.resource import REGISTER, Register
from fencelock.sim.service import ServiceBackend
from fencelock.sim.tasks import Flag
from fencelock.sim.world import Simulation, no_collection
from fencelock.sim.zookeeper import ZooKeeperBackend
from fencelock.world import GRACE_S
from tests.sim.backends import BACKENDS
from tests.sim.client import Client
from tests.sim.nemesis import FAULTS
from tests.sim.observer import WITNESSED, Observer, SharesObserver
from tests.sim.plan import CUTS, NAME, NAMES, TTLS, Fault, Plan, Visit

PLAYED: dict[str, type[Backend]] = {
    **BACKENDS,
    "service": ServiceBackend,
    "zookeeper": ZooKeeperBackend,
}
STEPS_MAX = 200_000
TIME_MAX_S = 200.0  # whoever waits for longer than that waits for ever
KINDS = {"semaphore": "semaphore", "rwlock": "rwlock", "barrier": "semaphore"}
WAITING = ("several", "barrier", "latch")
"""Recipes in which clients could wait for each other."""
REQUEST_TIMEOUT_S = (
    20.0  # of a newcomer, when dead waiters may stand in the queue and are called first
)
SETTLE_S = 8.0  # after the last fault: every lease that nobody keeps is over


class Run:
    """One plan, played by one backend."""

    def __init__(self, backend: str, plan: Plan, guarded: bool = True) -> None:
        self.name = backend
        self.plan = plan
        self.simulation = Simulation(plan.seed, steps_max=STEPS_MAX)
        self.history = History(clock=lambda: self.simulation.now)
        self.network = self._network(self.simulation)
        kind = KINDS.get(plan.recipe, "lock")
        name = slots_name(NAME, self.limit) if plan.recipe == "barrier" else NAME
        self.backend: Backend = PLAYED[backend](self.network, plan.request_timeout, kind, name)
        self.guarded = guarded
        self._registers: dict[str, Register] = {}
        self.is_prompt = not self.is_flaky and plan.conditions.delay_max <= 0.05
        self.is_kind = self.is_prompt and not plan.kinds() - {"cancel", "pause", "wall", "revoke"}
        """Everybody can clean up after itself."""
        self.promises = self._promised()
        self.clients: list[Client] = []
        self.present = 0
        self.all_gone = Flag()
        self.all_gone.set()
        self.observers = {name: self._observer(self.backend)}
        for other in NAMES[1:] if plan.recipe == "several" else ():
            self.observers[other] = self._observer(self.backend.observing(other))
        if plan.recipe in WAITING or backend == "service":
            self.simulation.at(TIME_MAX_S, self.all_gone.set)
        for name, visits in plan.clients.items():
            self.enter(name, visits)

    def _network(self, simulation: Simulation) -> Network:
        return Network(simulation, self.plan.conditions)

    def _observer(self, backend: Backend) -> Observer:
        observer = (Observer if backend.kind == "lock" else SharesObserver)(self, backend)
        backend.watch(self._watcher(observer))
        return observer

    def _watcher(self, observer: Observer) -> Callable[[], object]:
        """What is called when a server has served something."""
        return observer.look

    @property
    def grants(self) -> int:
        """How many the servers have given."""
        return sum(observer.grants for observer in self.observers.values())

    @property
    def is_flaky(self) -> bool:
        conditions = self.plan.conditions
        return conditions != Conditions(conditions.delay_max, copied=conditions.copied)

    @property
    def limit(self) -> int:
        """How many units there are, of what is played."""
        shares = [visit.share for visits in self.plan.clients.values() for visit in visits]
        return shares[0].limit if shares and shares[0] else 1

    def register(self, slot: int | None = None) -> Register:
        """What the lock protects, or a slot of it does."""
        return self.register_of(REGISTER if slot is None else f"{REGISTER}#{slot}")

    def register_of(self, name: str) -> Register:
        """A register by its name."""
        return self._registers.setdefault(name, Register(self.guarded, name))

    def _promised(self) -> Promises:
        """What this backend promises under these faults."""
        kinds = self.plan.kinds()
        steady = self.name in (
            "store",
            "service",
            "zookeeper",
        )  # no clock of theirs that steps counts
        sane = not kinds & ({"amnesia"} if steady else {"amnesia", "step"})
        calls = 8 * self.plan.conditions.delay_max
        return Promises(
            exclusive=sane,
            fifo=self.backend.fifo and self.is_prompt and sane,
            forsakes=False,
            guarded=self.guarded,
            remembers=sane,
            once=sane and not kinds & {"wall", "step"},
            ttl=TTLS[-1] * 1.01,
            slack=1e-6,
            told_within=0.0 if sane and "revoke" not in kinds else calls,
            told_ttls=0.0 if sane and "revoke" not in kinds else 1.0,
            woken_within=(
                self.backend.detection_bound_s + calls if self.is_prompt and sane else None
            ),
            freed_within=calls if self.is_kind else REQUEST_TIMEOUT_S / 2,
            grace=1.01 if self.plan.recipe == "several" else GRACE_S * 1.01,
            undone_within=self._undone_within(),
        )

    def _undone_within(self) -> float | None:
        """How soon an attempt that is said to have failed leaves nothing: at once where requests
        arrive in the order in which they were sent, also those that nobody waits for any more."""
        if self.is_flaky and self.name in ("store", "service"):
            return None  # datagrams arrive twice
        apart = self.name == "service" and not self.is_kind  # of two nodes, either may be late
        if self.is_prompt and not apart and not self.plan.kinds() & set(CUTS):
            return 0.0
        kept = KEEP_S if apart else 0.0  # by a node that was late, for whoever may poll there again
        return kept + ECHO_S + PASS_S + 8 * self.plan.conditions.delay_max

    def enter(self, name: str, visits: tuple[Visit, ...]) -> Client:
        client = Client(self, name, visits)
        self.clients.append(client)
        self.present += 1
        self.all_gone.clear()
        self.simulation.start(client.live(), client.world, "life")
        return client

    def play(self) -> Run:
        """Play it to its end."""
        with no_collection(), self.simulation:
            for name, fault in self.plan.faults.items():
                self.simulation.at(fault.at, partial(self._strike, name, fault))
            self.simulation.run(until=self.all_gone)
            self._end()
        return self

    def verdict(self) -> Verdict:
        """What the checkers and the observer say."""
        found = verdict(self.history, self.promises)
        return Verdict((*found.rulings, *self._witnessed()))

    def _witnessed(self) -> Iterator[Ruling]:
        for name, question in WITNESSED.items():
            seen = [one for observer in self.observers.values() for one in observer.found]
            found = tuple(one for one in seen if one.checker == name)
            yield Ruling(name, question, "broken" if found else "held", "", found)

    def leave(self) -> None:
        """A client comes no more."""
        self.present -= 1
        if not self.present:
            self.all_gone.set()

    def _end(self) -> None:
        """All have gone or crashed: a newcomer finds the lock free."""
        now = self.simulation.now
        last = max((fault.at + fault.seconds for fault in self.plan.faults.values()), default=now)
        wait = 0.25 + 4 * self.network.conditions.delay_max if self.is_kind else SETTLE_S
        self.simulation.run(until=max(now, last + 0.1) + wait)
        self.network.change(Conditions())
        if self.is_kind:
            for observer in self.observers.values():
                observer.nothing_left()
        client = Client(self, "newcomer", ())
        self.clients.append(client)

        async def visit() -> None:
            await client.core.open()
            timeout = 0.0 if self.is_kind else REQUEST_TIMEOUT_S
            holds = [await client.acquire(spec, timeout) for spec in self._all_of_it()]
            for hold in filter(None, holds):
                await client.release(hold.tenure)
            await client.core.close()

        self.simulation.play(visit(), client.world)
        for name, register in self._registers.items():
            op = self.history.invoke("observer", "read", name)
            self.history.end("ok", "observer", "read", op, name, value=register.value)

    def _all_of_it(self) -> list[LockSpec]:
        """What a newcomer asks for, to have all that there is."""
        spec = make_lock_spec(self.backend.name, 1.0, None, True, None, None, False, None, None)
        if self.backend.kind == "semaphore":
            return [spec._replace(share=semaphore_share(self.limit))] * self.limit
        if self.plan.recipe == "several":
            return [spec._replace(name=name) for name in NAMES]
        return [spec._replace(share=WRITE if self.plan.recipe == "rwlock" else None)]

    # Faults

    def _strike(self, name: str, fault: Fault) -> None:
        if self.present:
            FAULTS[fault.kind](self, fault)

    def later(self, seconds: float, action: Callable[[], object]) -> None:
        """Do something after a while."""
        self.simulation.at(self.simulation.now + seconds, action)

    def client(self, fault: Fault) -> Client:
        """Whom a fault of a client befalls."""
        return self.clients[fault.place % len(self.clients)]

    def node(self, fault: Fault) -> Any:
        """Which server a fault befalls."""
        return self.backend.hosts[fault.place % len(self.backend.hosts)]
