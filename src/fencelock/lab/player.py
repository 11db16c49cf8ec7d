"""The player of documents: the unmodified engines on the simulator, and a trace of all events.

Nothing here reads a clock, a file or the environment: equal documents give equal traces.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from .. import __version__, observe
from ..errors import Misconfigured, UsageError
from ..judge import History, Promises, Violation, verdict
from ..sim.network import Conditions, Host
from ..sim.world import Endless, Simulation, SimWorld, no_collection
from . import document as documents
from .actor import Process
from .clients import Client, FencelockClient, LocalClient, NoClient
from .document import Actor, Document
from .fault_injection import FaultInjector
from .message_text import WATCH, describe
from .recorder import ObservedNetwork, Recorder
from .resource import Resource
from .servers import Servers, start
from .spans import spans_of
from .trace import VERSION, Trace, digest_of

STEPS_MAX = 200_000
LIVE_STEPS_MAX = 10_000
"""The limit when a person waits: a scenario takes hundreds, and this many take about a second."""
FIRST_FENCE = 33
JUDGED_CHECKERS = (
    "one_holder", "no_lost_update", "fences_grow", "told_in_time", "once_per_window",
    "skipped_when_done",
)  # fmt: skip
"""The checkers of the judge that are applied to a play."""
UNSOUND = {"store": {"amnesia"}, "service": {"amnesia"}, "zookeeper": {"pace"}}
"""Faults under which an engine promises less; the leases of other engines end by wall clocks."""
SLACK_S = 1e-6


def play(document: object, *, steps_max: int = STEPS_MAX) -> Trace:
    """Play a document, with its switches at their first choices; raise UsageError if it is wrong or
    takes too many steps."""
    return _Play(documents.read(document), steps_max).played()


class _Play:
    """One document, being played."""

    def __init__(self, document: Document, steps_max: int) -> None:
        self._document = document
        self._steps_max = steps_max
        self._simulation = Simulation(
            document.seed, draws="keyed", steps_max=steps_max, time_max=document.until + 1.0
        )
        self._history = History(clock=lambda: self._simulation.now)
        self._recorder = Recorder(self._simulation)
        least, most = document.delay
        conditions = Conditions(delay_max=most, delay_min=least)
        self._network = ObservedNetwork(self._simulation, conditions, self._recorder, describe)
        self._servers: Servers = start(
            document.engine, self._network, document.servers, document.lock, document.options
        )
        self._servers.on_revoked = self._on_revoked
        self._resource = Resource(document.resource, document.guard, document.value)
        self._processes = {actor.name: self._process(actor) for actor in document.actors}
        sources = self._recorder.sources
        for name in self._processes:
            sources[name] = partial(self._state_of, name)
        for number, host in enumerate(self._servers.hosts):
            sources[host.name] = partial(self._servers.state, number)
        sources[document.resource] = self._resource.state
        self._faults = FaultInjector(
            document,
            self._simulation,
            self._network,
            self._servers,
            self._processes,
            self._process,
            self._history,
            self._recorder,
        )

    def _state_of(self, name: str) -> dict[str, Any]:
        return self._processes[name].state()

    def _process(self, actor: Actor) -> Process:
        world, host = self._simulation.world(actor.name), Host(actor.name)
        client = self._client(actor, world, host)
        return Process(
            actor, world, host, client, self._network, self._resource, self._history, self._recorder
        )

    def _client(self, actor: Actor, world: SimWorld, host: Host) -> Client:
        match actor.client:
            case "fencelock":
                return FencelockClient(self._servers, world, host, partial(self._lost, actor.name))
            case "textbook":
                try:
                    from .textbook import TextbookClient
                except ModuleNotFoundError as error:
                    raise Misconfigured(
                        f"a textbook client needs the package {error.name}: pip install "
                        '"fencelock[lab]"'
                    ) from None
                return TextbookClient(self._servers, world, host, actor)
            case "local":
                return LocalClient()
            case "none":
                return NoClient()

    def _on_revoked(self, name: str) -> None:
        if name in self._processes:
            self._processes[name].revoked()

    def _lost(self, name: str, fence: int) -> None:
        self._processes[name].lost(fence)

    def played(self) -> Trace:
        document, simulation = self._document, self._simulation
        with observe.Muted(), no_collection(), simulation:
            self._recorder.look()
            for fault in document.faults:
                simulation.at(fault.at, partial(self._faults.strike, fault))
            for process in self._processes.values():
                process.begin()
            try:
                simulation.at(document.until, bool)
                simulation.run(until=self._is_over)
            except Endless as error:
                raise UsageError(
                    f"the play has not come to {document.until:g} s within {self._steps_max} steps "
                    f"({error}): let it end earlier, or let its scripts do less"
                ) from None
            return self._trace()

    def _is_over(self) -> bool:
        """Return whether the end has come, before each step; record states between two moments."""
        if self._simulation.ready:
            return False
        self._recorder.settle()
        return self._simulation.now >= self._document.until

    # The trace

    def _promises(self) -> Promises:
        document, kinds = self._document, {fault.kind for fault in self._document.faults}
        sane = not kinds & UNSOUND.get(document.engine, {"amnesia", "step", "pace"})
        own = all(actor.client in ("fencelock", "none") for actor in document.actors)
        calls = 8 * document.delay[1]
        calm = sane and "revoke" not in kinds
        return Promises(
            fence=own,
            slack=SLACK_S,
            told_within=None if not own else 0.0 if calm else calls,
            told_ttls=0.0 if calm else 1.0,
        )

    def _trace(self) -> Trace:
        document, recorder = self._document, self._recorder
        shown = self._shown()
        events = [_event(one, shown) for one in recorder.events]
        states = {
            lane: [[_time(at), state] for at, state in seen]
            for lane, seen in recorder.states.items()
        }
        rulings = self._rulings()
        data: dict[str, Any] = {
            "title": document.title,
            "until": document.until,
            "lanes": self._lanes(),
            "messages": [
                one | {"sent": _time(one["sent"]), "arrived": _maybe(one["arrived"])}
                for one in recorder.messages
            ],
            "states": states,
            "spans": spans_of(
                self._history, document, states, self._servers.keepers(), self._faults.marked
            ),
            "events": events,
            "steps": [{"at": one.at, "say": self._filled(one.say, one.at, shown)}
                      for one in document.steps],
            "fences": {str(fence): number for fence, number in shown.items()},
            "verdict": rulings,
            "outcome": self._outcome(rulings),
            "expect": None if document.expect is None else dict(document.expect),
        }  # fmt: skip
        return Trace(
            data
            | {"digest": digest_of(data), "versions": {"trace": VERSION, "fencelock": __version__}}
        )

    def _lanes(self) -> list[dict[str, Any]]:
        document = self._document
        lanes: list[dict[str, Any]] = [
            {"name": one.name, "kind": "client", "client": one.client} for one in document.actors
        ]
        kept = self._servers.keepers()
        lanes += [
            {"name": name, "kind": "server"} | ({} if name in kept else {"keeps": False})
            for name in document.servers
        ]
        return [*lanes, {"name": document.resource, "kind": "resource"}]

    def _shown(self) -> dict[int, int]:
        """Return small numbers for fences, in their order: the first is 33."""
        seen = {one.fence for one in self._history.operations("acquire") if one.fence}
        return {fence: number for number, fence in enumerate(sorted(seen), FIRST_FENCE)}

    def _filled(self, say: str, at: float, shown: Mapping[int, int]) -> str:
        for place in documents.FENCE_OF.findall(say):
            name = place.partition(".")[0]
            granted = [
                one.fence
                for one in self._history.operations("acquire")
                if one.client == name and one.outcome == "ok" and one.end <= at
            ]
            number = str(shown.get(granted[-1], "none")) if granted else "none"
            say = say.replace(f"{{{place}}}", number)
        return say

    def _rulings(self) -> list[dict[str, Any]]:
        found = verdict(self._history, self._promises())
        return [
            {
                "checker": one.checker,
                "question": one.question,
                "outcome": one.outcome,
                "why": one.why,
                "violations": [
                    {
                        "at": _time(self._broken_at(each)),
                        "words": each.message,
                    }
                    for each in one.violations
                ],
            }
            for one in found.rulings
            if one.checker in JUDGED_CHECKERS
        ]

    def _broken_at(self, violation: Violation) -> float:
        if violation.at is not None:
            return violation.at
        return max(self._history[index].at for index in violation.events)

    def _outcome(self, rulings: list[dict[str, Any]]) -> dict[str, Any]:
        events, resource = self._recorder.events, self._resource

        def who(*kinds: str) -> list[str]:
            return [one["lane"] for one in events if one["kind"] in kinds]

        freed = {one["lane"]: one["kind"] == "released" for one in events
                 if one["kind"] in ("released", "released late")}  # fmt: skip
        return {
            "register": resource.text,
            "writes": resource.writes,
            "refused": resource.refused,
            "broken": [one["checker"] for one in rulings if one["outcome"] == "broken"],
            "granted": who("granted"),
            "told": who("told"),
            "released": freed,
            "stopped": who("stopped", "error", "refused", "cancelled"),
            "retries": {one.name: one.retries for one in self._processes.values() if one.retries},
            "woken": [one["to"] for one in self._recorder.messages if WATCH in one["what"]],
        }


def _time(at: float) -> float:
    return round(at, 6)


def _maybe(at: float | None) -> float | None:
    return None if at is None else _time(at)


def _event(event: Mapping[str, Any], shown: Mapping[int, int]) -> dict[str, Any]:
    words = str(event["words"])
    for name in ("fence", "highest"):
        words = words.replace(f"{{{name}}}", str(shown.get(event.get(name, 0), "none")))
    return {**event, "at": _time(event["at"]), "words": words}
