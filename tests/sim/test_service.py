"""The lock service on a simulated network: clients, two nodes and a store keep every promise.

A client vanishes in a poll or at a grant (H75); a node is killed and comes back (H76), freezes and
answers late (H77), is cut off from the store while the other is not (H78); its clock steps (H79);
a call is sent again, doubled and delayed (H80).
"""

from __future__ import annotations

import pytest

from tests.sim.flaws import planting
from tests.sim.harness import Run
from tests.sim.plan import CLIMATES, OF_SERVICE, draw_plan
from tests.sim.runs import Broken, examine, faults, main
from tests.sim.service_flaws import SERVICE_FLAWS

SEEDS, MANY_SEEDS = 6, range(6, 60)
ALL = CLIMATES | OF_SERVICE


@pytest.mark.parametrize("climate", ALL)
def test_every_promise_of_the_service_holds(climate: str) -> None:
    grants = sum(examine("service", climate, seed).grants for seed in range(SEEDS))
    assert grants > 3 * SEEDS, "a run in which nothing happens shows nothing"


@pytest.mark.parametrize("climate", ALL)
def test_every_promise_of_the_service_holds_for_many_seeds(climate: str) -> None:
    for seed in MANY_SEEDS:
        examine("service", climate, seed)


@pytest.mark.parametrize("name", SERVICE_FLAWS)
def test_a_planted_flaw_of_the_service_is_found(name: str) -> None:
    """And the very run in which it is found is clean without it."""
    flaw, said = SERVICE_FLAWS[name], set[str]()
    for seed in range(flaw.seeds):
        plan = draw_plan(flaw.climate, seed)
        with planting(flaw):
            said |= faults(flaw.backend, plan)
        if said & flaw.says:
            assert faults(flaw.backend, plan) == set()
            return
    pytest.fail(f"the judge said {said or 'nothing'} in {flaw.seeds} seeds, and not {flaw.says}")


FOUND = {
    "a node took back what another had handed over": [("cuts", 4), ("freezes", 4)],
    "nobody polled for a waiter whose grant came too late": [("pauses", 5), ("cuts", 5)],
    "who was withdrawn while it was asked for stood in the queue": [
        ("cancels", 60),
        ("cancels", 68),
    ],
    "a client believed what a poll brought while it withdrew": [("freezes", 12), ("freezes", 15)],
}


@pytest.mark.parametrize("what", FOUND)
def test_a_seed_that_broke_a_promise_of_the_service_holds_it_now(what: str) -> None:
    for climate, seed in FOUND[what]:
        examine("service", climate, seed)


def test_all_that_befalls_a_service_does_happen() -> None:
    """Of each node and of the store; and nodes are cut off from the store, and calls are copied."""
    struck: set[str] = set()
    for climate in ("cuts", "reboots", "freezes", "clocks", "crashes"):
        for seed in range(8):
            run = Run("service", draw_plan(climate, seed)).play()
            servers = {host.name for host in run.backend.hosts}
            for event in run.history:
                if event.kind == "note":
                    whom = event.client if event.client in servers else "client"
                    struck.add(f"{whom} {event.verb}")
    nodes = ("node-0", "node-1", "store")
    faults = ("pause", "resume", "crash", "restart", "partition", "heal", "clock")
    assert struck >= {f"{node} {fault}" for node in nodes for fault in faults}
    assert struck >= {"client crash", "client partition", "client pause"}


def test_the_same_seed_gives_the_same_history_of_the_service() -> None:
    first, again, other = (Run("service", draw_plan("storm", seed)).play() for seed in (1, 1, 2))
    assert first.history.events == again.history.events
    assert first.simulation.digest() == again.simulation.digest()
    assert first.simulation.digest() != other.simulation.digest()


def test_a_failure_of_the_service_says_how_to_play_it_again(
    capsys: pytest.CaptureFixture[str],
) -> None:
    flaw = SERVICE_FLAWS["renew_by_itself"]
    with planting(flaw), pytest.raises(Broken) as caught:
        for seed in range(flaw.seeds):
            examine("service", flaw.climate, seed)
    words = str(caught.value).splitlines()[-1].split()[5:]
    assert words[:2] == ["service", flaw.climate]
    assert main(words) == 0
    assert main([*words, "--defect", "renew_by_itself"]) == 1
    assert "! nobody_sleeps" in capsys.readouterr().out
