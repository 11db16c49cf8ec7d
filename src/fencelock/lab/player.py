"""The player of documents: the unmodified engines on the simulator, and a trace of all events.

Nothing here reads a clock, a file or the environment: equal documents give equal traces.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from .. import __version__, observe
from ..errors import FencelockError, Misconfigured, UsageError
from ..judge import History, Promises, Violation, verdict
from ..sim import faults
from ..sim.network import Conditions, Host, Way
from ..sim.world import Endless, Simulation, SimWorld, no_collection
from . import document as documents
from .actor import Process
from .clients import Client, FencelockClient, LocalClient, NoClient
from .document import Actor, Document, Fault
from .message_text import WATCH, describe
from .recorder import ObservedNetwork, Recorder
from .resource import Resource
from .servers import Servers, start
from .spans import spans_of
from .trace import VERSION, Trace, digest_of

STEPS_MAX = 200_000
LIVE_STEPS_MAX = 10_000
"""The limit when a person waits: a scenario takes hundreds, and this many take about a second."""
OPERATOR = "operator"
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
        self._operator: FencelockClient | None = None
        sources = self._recorder.sources
        for name in self._processes:
            sources[name] = partial(self._state_of, name)
        for number, host in enumerate(self._servers.hosts):
            sources[host.name] = partial(self._servers.state, number)
        sources[document.resource] = self._resource.state
        self._faults: Mapping[str, Callable[[Fault], None]] = {
            "pause": self._pause, "crash": self._crash, "restart": self._restart,
            "cancel": self._cancel, "revoke": self._revoke, "step": self._step, "pace": self._pace,
            "freeze": self._freeze, "reboot": self._reboot, "amnesia": self._reboot,
            "cut": self._cut, "slow": self._slow, "lose reply": self._lose_reply,
        }  # fmt: skip
        self._marked: list[tuple[str, str, float, float]] = []
        """The spans of faults: the lane, the kind, from when to when."""
        self._frozen: dict[str, Fault] = {}
        """The servers that are frozen, each with the fault that froze it."""

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
                simulation.at(fault.at, partial(self._strike, fault))
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

    # Faults

    def _strike(self, fault: Fault) -> None:
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
            self._marked = [
                (one, what, begin, min(end, now) if (one, what) == (lane, "frozen") else end)
                for one, what, begin, end in self._marked
            ]
        self._marked.append((lane, kind, now, min(now + seconds, self._document.until)))

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
            process = self._processes[fault.whom] = self._process(before.actor)
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
                self._history, document, states, self._servers.keepers(), self._marked
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


def _between(fault: Fault) -> str:
    return f"{', '.join(fault.sources)} to {', '.join(fault.targets)}"


def _time(at: float) -> float:
    return round(at, 6)


def _maybe(at: float | None) -> float | None:
    return None if at is None else _time(at)


def _event(event: Mapping[str, Any], shown: Mapping[int, int]) -> dict[str, Any]:
    words = str(event["words"])
    for name in ("fence", "highest"):
        words = words.replace(f"{{{name}}}", str(shown.get(event.get(name, 0), "none")))
    return {**event, "at": _time(event["at"]), "words": words}
