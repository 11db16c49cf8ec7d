"""What will happen in a run, drawn from a seed before it begins: visits of clients, and faults.

A plan is plain data, so that a run that fails can be made smaller: clients and faults are left out
one by one for as long as it still fails. How long messages take, and whose turn it is, is drawn
while the run goes on, from the same seed.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from fencelock._client.lock_options import READ, WRITE, semaphore_share
from fencelock.model import Share
from fencelock.sim.network import Conditions

T = TypeVar("T")

NAME = "seat"
NAMES = (NAME, "table", "window")
"""Of which several are locked together."""

TTLS = (0.3, 1.0, 3.0)
HORIZON_S = 4.0  # faults come within this time
REQUEST_TIMEOUT_S = 0.5  # of a client that waits for an answer
FLAKY = Conditions(breaks=0.03, lost=0.05, doubled=0.05, overtaken=0.1)


LATCHES = 5  # as many as a client has visits, at the most
RECIPES = ("lock", "semaphore", "rwlock", "election", "once", "several", "barrier", "latch")
"""What is played; the mutex alone, unless another is named."""


class Climate(NamedTuple):
    """Which faults may come, and how many."""

    faults: tuple[str, ...] = ()
    many: int = 0
    conditions: Conditions = Conditions()
    request_timeout: float = REQUEST_TIMEOUT_S


CUTS = ("cut", "cut_up", "cut_down", "cut_node", "cut_part")
CLIMATES = {
    "calm": Climate(),
    "cancels": Climate(("cancel",), 8),
    "pauses": Climate(("pause",), 5),
    "naps": Climate(("pause",), 20),
    "crashes": Climate(("crash", "restart", "pause"), 3),
    "revokes": Climate(("revoke",), 5),
    "cuts": Climate(CUTS, 5),
    "flaky": Climate(("cancel",), 2, FLAKY),
    "slow": Climate(("cancel", "pause"), 3, Conditions(delay_max=0.6)),
    "reboots": Climate(("reboot", "freeze"), 4),
    "freezes": Climate(("freeze",), 10),
    "frozen": Climate(("stop", "stop", "cancel"), 6, request_timeout=3.0),
    "amnesia": Climate(("amnesia", "pause"), 3),
    "clocks": Climate(("step", "wall", "pause"), 5),
    "storm": Climate(
        ("pause", "crash", "restart", "cancel", "freeze", "reboot", *CUTS),
        9,
        FLAKY._replace(delay_max=0.05, breaks=0.01),
    ),
}


OF_SERVICE = {"copies": Climate(("cancel",), 3, Conditions(copied=0.3))}
"""Where there is a service, besides."""


class Latch(NamedTuple):
    """What a client does at a latch."""

    number: int
    """Which latch of several."""
    limit: int
    """How often it is to be counted down."""
    counts: bool
    awaits: bool
    by: str
    """Who counts; nothing for one that counts for itself."""


class Visit(NamedTuple):
    """One wish of a client to hold the lock."""

    after: float
    ttl: float
    timeout: float | None
    hold: float
    renews: bool
    joins: bool
    """The next visit begins while this one goes on."""
    renew_ttl: float | None
    """Renewed by hand in the middle, with this ttl; 0 for the same."""
    share: Share | None = None
    """How much of the name it wants, where several may hold it."""
    downgrades: bool = False
    """A writer becomes a reader in the middle."""
    fails: bool = False
    """Work that is done once in a window ends with an error."""
    names: tuple[str, ...] = ()
    """Several locks that are wanted together."""
    latch: Latch | None = None
    """What it has to do with a latch."""


class Fault(NamedTuple):
    """One thing that goes wrong."""

    kind: str
    at: float
    place: int
    """Which client, or which node, counted around."""
    seconds: float
    chance: float
    """What is left to decide."""


class Plan(NamedTuple):
    """All that is decided before a run. Each part has a name, by which it can be kept alone."""

    seed: int
    climate: str
    conditions: Conditions
    clients: dict[str, tuple[Visit, ...]]
    faults: dict[str, Fault]
    request_timeout: float = REQUEST_TIMEOUT_S
    recipe: str = "lock"

    def kinds(self) -> set[str]:
        return {fault.kind for fault in self.faults.values()}

    def parts(self) -> list[str]:
        return [*self.clients, *self.faults, *(["net"] if _is_flaky(self.conditions) else [])]

    def only(self, parts: Sequence[str]) -> Plan:
        """The same plan with these parts of it alone."""
        calm = Conditions(delay_max=self.conditions.delay_max)
        return self._replace(
            conditions=self.conditions if "net" in parts else calm,
            clients={name: visits for name, visits in self.clients.items() if name in parts},
            faults={name: fault for name, fault in self.faults.items() if name in parts},
        )


def draw_plan(climate: str, seed: int, recipe: str = "lock") -> Plan:
    """Draw a plan; the faults of a seed are the same whatever is played."""
    chosen = (CLIMATES | OF_SERVICE)[climate]
    draw = random.Random(seed * 1000 + 7).random
    clients = {
        f"c{number}": tuple(_visit(draw) for _ in range(2 + int(draw() * 4)))
        for number in range(2 + int(draw() * 3))
    }
    faults = {
        f"f{number}": Fault(
            _any_of(draw, chosen.faults),
            draw() * HORIZON_S,
            int(draw() * 60),
            draw() * 2.0,
            draw(),
        )
        for number in range(chosen.many)
    }
    plan = Plan(seed, climate, chosen.conditions, clients, faults, chosen.request_timeout, recipe)
    return plan if recipe == "lock" else _shared(plan)


def _shared(plan: Plan) -> Plan:
    """The same plan for a recipe: two more clients come, and each visit wants something of it."""
    draw = random.Random(plan.seed * 1000 + 11).random
    limit = 1 + int(draw() * 3)
    clients = dict(plan.clients)
    for number in range(2):
        visits = tuple(_visit(draw) for _ in range(2 + int(draw() * 4)))
        clients[f"c{len(plan.clients) + number}"] = visits
    limits = [1 + int(draw() * 5) for _ in range(LATCHES)] if plan.recipe == "latch" else [limit]
    return plan._replace(
        clients={
            name: tuple(
                _wish(draw, plan.recipe, limits, place, visit) for place, visit in enumerate(visits)
            )
            for name, visits in clients.items()
        }
    )


def _wish(
    draw: Callable[[], float], recipe: str, limits: list[int], place: int, visit: Visit
) -> Visit:
    writes, downgrades, fails = draw() < 0.4, draw() < 0.4, draw() < 0.3
    limit = limits[place % len(limits)]
    if recipe == "semaphore":
        return visit._replace(share=semaphore_share(limit))
    if recipe == "rwlock":
        return visit._replace(share=WRITE if writes else READ, downgrades=writes and downgrades)
    if recipe == "once":
        return visit._replace(hold=visit.hold * 0.3, fails=fails)
    if recipe == "several":
        first, some = int(draw() * 3), 1 + int(draw() * 3)
        step = 1 if downgrades else 2  # in whichever order: they are three
        names = tuple(NAMES[(first + step * number) % 3] for number in range(some))
        return visit._replace(hold=visit.hold * 0.4, names=names)
    if recipe == "barrier":
        timeout = _any_of(draw, (0.5, 2.0, 4.0, 8.0))
        return visit._replace(timeout=timeout, share=semaphore_share(limit + 1))
    if recipe == "latch":
        by = _any_of(draw, ("", "", "", "one", "two"))
        latch = Latch(place, limit, counts=draw() < 0.8, awaits=draw() < 0.7, by=by)
        return visit._replace(timeout=_any_of(draw, (0.0, 0.5, 4.0, 8.0)), latch=latch)
    return visit


def _visit(draw: Callable[[], float]) -> Visit:
    ttl = _any_of(draw, TTLS)
    return Visit(
        after=draw() * 0.3,
        ttl=ttl,
        timeout=_any_of(draw, (0.0, 0.5, 4.0, None)),
        hold=draw() * 2.5 * min(ttl, 1.0),
        renews=draw() < 0.8,
        joins=draw() < 0.3,
        renew_ttl=_any_of(draw, (0.0, *TTLS)) if draw() < 0.2 else None,
    )


def _any_of(draw: Callable[[], float], choices: Sequence[T]) -> T:
    return choices[int(draw() * len(choices))]


def _is_flaky(conditions: Conditions) -> bool:
    return conditions != Conditions(delay_max=conditions.delay_max)


def shrink(plan: Plan, fails: Callable[[Plan], bool]) -> Plan:
    """Leave out what is not needed for a failure, one part after the other, until nothing is."""
    parts = plan.parts()
    smaller = True
    while smaller:
        smaller = False
        for part in reversed(list(parts)):
            fewer = [other for other in parts if other != part]
            candidate = plan.only(fewer)
            if candidate.clients and fails(candidate):
                parts, smaller = fewer, True
    return plan.only(parts)
