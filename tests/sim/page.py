"""A simulated run as a page of the lab: clients, servers, what they send, and what the judge says.

A run is played again for it, with observers that draw nothing at random: its history is the same.
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from typing import Any

from fencelock import __version__
from fencelock.lab.histories import Part, Report, page_of, parts
from fencelock.lab.message_text import describe
from fencelock.lab.recorder import ObservedNetwork, Recorder
from fencelock.sim.network import Network
from fencelock.sim.world import Simulation
from tests.sim.harness import Run
from tests.sim.observer import Observer
from tests.sim.plan import Plan

ROUND = 6


class ObservedRun(Run):
    """A run whose messages and servers are watched."""

    def __init__(self, backend: str, plan: Plan, guarded: bool = True) -> None:
        self.states: dict[str, list[tuple[float, dict[str, Any]]]] = {}
        super().__init__(backend, plan, guarded)
        self._look()

    def _network(self, simulation: Simulation) -> Network:
        self.recorder = Recorder(simulation)
        told = describe if self.name in ("redis", "redlock") else _measured
        return ObservedNetwork(simulation, self.plan.conditions, self.recorder, told)

    def _watcher(self, observer: Observer) -> Callable[[], object]:
        def look() -> None:
            observer.look()
            self._look()

        return look

    def _look(self) -> None:
        """Write down what each server keeps, if that has changed."""
        kept = self.backend.owners() if self.backend.kind == "lock" else []
        queue = [self._client_of(owner) for owner in self.backend.queue()]
        for number, host in enumerate(self.backend.hosts):
            owner = kept[number] if number < len(kept) else ""
            state: dict[str, Any] = {
                "holder": self._client_of(owner) if owner else None,
                "queue": queue,
                "up": not host.is_down,
                "frozen": host.is_paused,
            }
            if owner and len(kept) == 1 and (until := self.backend.kept_until()):
                state["until"] = round(until, ROUND)
            seen = self.states.setdefault(host.name, [])
            if not seen or seen[-1][1] != state:
                seen.append((self.simulation.now, state))

    def _client_of(self, owner: str) -> str:
        known = [observer.client_of(owner) for observer in self.observers.values()]
        return next(filter(None, known), "somebody")


def _measured(what: object) -> str:
    """What is sent in a protocol that has no words here."""
    return f"{len(what)} bytes" if isinstance(what, bytes) else type(what).__name__


def parts_of(backend: str, plan: Plan, command: str, date: str, guarded: bool = True) -> list[Part]:
    """Play a plan and cut what happened into parts."""
    run = ObservedRun(backend, plan, guarded)
    run.play()
    found = run.verdict()
    broken = len(found.violations)
    report = Report(
        run.history,
        found.rulings,
        f"{backend}, {plan.climate}, seed {plan.seed}"
        + ("" if plan.recipe == "lock" else f", {plan.recipe}"),
        facts=[
            ("engine", f"{backend}, simulated"),
            ("seed", str(plan.seed)),
            ("date", date),
            ("versions", f"fencelock {__version__}, Python {platform.python_version()}"),
            ("command", command),
            ("digest", run.simulation.digest()),
        ],
        figures=[
            f"{run.grants} grants", f"{len(plan.faults)} faults", f"{run.simulation.steps} steps",
        ],
        conclusion="every promise that was judged held" if not broken else "a promise was broken",
        servers=[host.name for host in run.backend.hosts],
        states=run.states,
        messages=[_rounded(one) for one in run.recorder.messages],
    )  # fmt: skip
    return parts(report)


def page(backend: str, plan: Plan, command: str, date: str, guarded: bool = True) -> str:
    """One file of HTML."""
    return page_of(parts_of(backend, plan, command, date, guarded))


def _rounded(message: dict[str, Any]) -> dict[str, Any]:
    times = {key: message[key] for key in ("sent", "arrived")}
    return message | {key: at if at is None else round(at, ROUND) for key, at in times.items()}
