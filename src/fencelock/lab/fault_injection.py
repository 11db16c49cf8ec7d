"""The faults of a play: what happens to clients, servers and messages, and what is told of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from ..errors import FencelockError
from ..judge import History
from ..sim import faults
from ..sim.network import Host, Way
from ..sim.world import Simulation
from .actor import Process
from .clients import FencelockClient
from .document import Actor, Document, Fault
from .recorder import ObservedNetwork, Recorder
from .servers import Servers

OPERATOR = "operator"


class FaultInjector:
    """Lets the faults of a document happen to the processes, the servers and the network.

    A restart puts a new process into ``processes``, made by ``make_process``.
    """

    def __init__(
        self,
        document: Document,
        simulation: Simulation,
        network: ObservedNetwork,
        servers: Servers,
        processes: dict[str, Process],
        make_process: Callable[[Actor], Process],
        history: History,
        recorder: Recorder,
    ) -> None:
        self._document = document
        self._simulation = simulation
        self._network = network
        self._servers = servers
        self._processes = processes
        self._make_process = make_process
        self._history = history
        self._recorder = recorder
        self._operator: FencelockClient | None = None
        self._faults: Mapping[str, Callable[[Fault], None]] = {
            "pause": self._pause, "crash": self._crash, "restart": self._restart,
            "cancel": self._cancel, "revoke": self._revoke, "step": self._step, "pace": self._pace,
            "freeze": self._freeze, "reboot": self._reboot, "amnesia": self._reboot,
            "cut": self._cut, "slow": self._slow, "lose reply": self._lose_reply,
        }  # fmt: skip
        self.marked: list[tuple[str, str, float, float]] = []
        """The spans of faults: the lane, the kind, from when to when."""
        self._frozen: dict[str, Fault] = {}
        """The servers that are frozen, each with the fault that froze it."""

    def strike(self, fault: Fault) -> None:
        """Let a fault happen now."""
        self._faults[fault.kind](fault)
        self._recorder.look()

    def _later(self, seconds: float, action: Callable[[], object]) -> None:
        def act() -> None:
            action()
            self._recorder.look()

        if not math.isinf(seconds):
            self._simulation.at(self._simulation.now + seconds, act)

    def _note(self, lane: str, verb: str, words: str, detail: str = "") -> None:
        self._history.note(lane, verb, detail=detail)
        self._recorder.tell(lane, verb, words)

    def _mark(self, lane: str, kind: str, seconds: float) -> None:
        now = self._simulation.now
        if kind == "down":  # what is down is not frozen any more
            self.marked = [
                (one, what, begin, min(end, now) if (one, what) == (lane, "frozen") else end)
                for one, what, begin, end in self.marked
            ]
        self.marked.append((lane, kind, now, min(now + seconds, self._document.until)))

    def _pause(self, fault: Fault) -> None:
        process = self._processes[fault.whom]
        if process.host.is_paused or process.host.is_down:
            return

        def resume() -> None:
            if not process.host.is_down:
                self._note(process.name, "resume", "goes on")
                faults.resume(process.world, process.host)

        self._note(process.name, "pause", "is frozen")
        self._mark(process.name, "frozen", fault.seconds)
        faults.pause(process.world, process.host)
        self._later(fault.seconds, resume)

    def _crash(self, fault: Fault) -> None:
        process = self._processes[fault.whom]
        if process.host.is_down:
            return
        self._note(process.name, "crash", "is killed")
        lasts = math.inf if fault.kind == "crash" else fault.seconds
        self._mark(process.name, "down", lasts)
        process.line = None
        faults.crash(process.world, process.host, process.client.crash())

    def _restart(self, fault: Fault) -> None:
        self._crash(fault)

        def restart() -> None:
            before = self._processes[fault.whom]
            process = self._processes[fault.whom] = self._make_process(before.actor)
            process.retries = before.retries
            self._note(process.name, "restart", "begins anew")
            process.begin()

        self._later(fault.seconds, restart)

    def _cancel(self, fault: Fault) -> None:
        process = self._processes[fault.whom]
        if process.task is not None:
            self._recorder.tell(process.name, "cancel", "its script is to be cancelled")
            process.task.cancel()

    def _revoke(self, fault: Fault) -> None:
        simulation = self._simulation
        if self._operator is None:
            world, host = simulation.world(OPERATOR), Host(OPERATOR)
            self._operator = FencelockClient(self._servers, world, host, lambda fence: None)
            self._operator_world = world

        async def revoke(operator: FencelockClient) -> None:
            try:
                await operator.revoke(self._document.lock)
            except FencelockError as error:
                self._recorder.tell(OPERATOR, "error", f"revoke: {error}")

        self._recorder.tell(OPERATOR, "revoke", "takes the lock from its holder")
        simulation.start(revoke(self._operator), self._operator_world, "revoke")

    def _host(self, name: str) -> Any:
        return self._servers.hosts[self._document.servers.index(name)]

    def _step(self, fault: Fault) -> None:
        self._host(fault.whom).ahead += fault.by
        self._note(fault.whom, "clock", f"its clock steps by {fault.by:+g} s", f"{fault.by:+g} s")

    def _pace(self, fault: Fault) -> None:
        host = self._host(fault.whom)
        self._recorder.tell(fault.whom, "pace", f"its clock runs at {fault.by:g} of true time")
        host.slew(fault.by)
        self._later(fault.seconds, partial(host.slew, 1.0))

    def _freeze(self, fault: Fault) -> None:
        host = self._host(fault.whom)
        if host.is_paused or host.is_down:
            return

        def thaw() -> None:
            if self._frozen.get(host.name) is fault:  # else it went down meanwhile
                del self._frozen[host.name]
                self._note(host.name, "resume", "goes on")
                host.wake()

        self._frozen[host.name] = fault
        self._note(host.name, "pause", "is frozen")
        self._mark(host.name, "frozen", fault.seconds)
        host.is_paused = True
        self._later(fault.seconds, thaw)

    def _reboot(self, fault: Fault) -> None:
        host, forgets = self._host(fault.whom), fault.kind == "amnesia"
        if host.is_down:
            return

        def restart() -> None:
            self._note(host.name, "restart", "is back, empty" if forgets else "is back")
            host.restart(forgets=forgets)

        self._frozen.pop(host.name, None)
        self._note(host.name, "crash", "goes down")
        self._mark(host.name, "down", fault.seconds)
        host.crash()
        self._later(fault.seconds, restart)

    def _ways(self, fault: Fault) -> list[Way]:
        ways = faults.ways(fault.sources, fault.targets)
        return ways if fault.one_way else ways + faults.ways(fault.targets, fault.sources)

    def _cut(self, fault: Fault) -> None:
        ways, words = self._ways(fault), _between(fault)

        def heal() -> None:
            self._note(fault.sources[0], "heal", f"{words}: messages pass again")
            self._network.heal(ways)

        self._note(fault.sources[0], "partition", f"{words}: nothing passes", "cut")
        for one in fault.sources:
            self._mark(one, "cut", fault.seconds)
        self._network.cut(ways)
        self._later(fault.seconds, heal)

    def _slow(self, fault: Fault) -> None:
        ways, slowed = self._ways(fault), self._network.slowed

        def change(by: float) -> None:
            for way in ways:
                slowed[way] = slowed.get(way, 0.0) + by

        words = f"{_between(fault)}: messages take {fault.by:g} s longer"
        self._recorder.tell(fault.sources[0], "slow", words)
        change(fault.by)
        self._later(fault.seconds, partial(change, -fault.by))

    def _lose_reply(self, fault: Fault) -> None:
        for way in faults.ways(fault.sources, fault.targets):
            self._network.losing[way] = self._network.losing.get(way, 0) + 1
        self._recorder.tell(fault.sources[0], "lose reply", f"{_between(fault)}: the next is lost")


def _between(fault: Fault) -> str:
    return f"{', '.join(fault.sources)} to {', '.join(fault.targets)}"
