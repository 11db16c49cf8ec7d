"""The unchanged engines on a simulated network: every promise holds, in every climate.

A failure is made as small as it can be, and names the command that plays it again.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fencelock.judge import History, verdict
from fencelock.sim.network import Conditions, Network, Way
from fencelock.web.bundle import held
from tests.sim import survey
from tests.sim.backends import BACKENDS
from tests.sim.flaws import FLAWS, planted
from tests.sim.harness import PLAYED, Run
from tests.sim.page import ObservedRun
from tests.sim.plan import CLIMATES, CUTS, Plan, Visit, draw_plan
from tests.sim.runs import Broken, command, examine, faults, main

ROOT = Path(__file__).parents[2]
PYTHONS = [f"python3.{minor}" for minor in (11, 12, 13, 14)]
SEEDS = range(10)
MANY_SEEDS = {"store": range(10, 60), "redis": range(10, 50), "redlock": range(10, 25)}


@pytest.mark.parametrize("climate", CLIMATES)
@pytest.mark.parametrize("backend", BACKENDS)
def test_every_promise_holds_in_every_climate(backend: str, climate: str) -> None:
    hold_every_promise(backend, climate, SEEDS)


@pytest.mark.parametrize("climate", CLIMATES)
@pytest.mark.parametrize("backend", BACKENDS)
def test_every_promise_holds_for_many_seeds(backend: str, climate: str) -> None:
    hold_every_promise(backend, climate, MANY_SEEDS[backend])


def hold_every_promise(backend: str, climate: str, seeds: range) -> None:
    grants = sum(examine(backend, climate, seed).grants for seed in seeds)
    assert grants > 3 * len(seeds), "a run in which nothing happens shows nothing"


@pytest.mark.parametrize("backend", BACKENDS)
def test_after_a_long_wait_nobody_believes_in_a_short_lease_for_too_long(backend: str) -> None:
    """While one waits, clocks run apart by more than a short lease can spare."""
    visit = Visit(0.0, 0.3, None, 0.6, renews=False, joins=True, renew_ttl=None)
    clients: dict[str, tuple[Visit, ...]] = {f"c{number}": (visit,) * 8 for number in range(4)}
    for seed in SEEDS:
        plan = Plan(seed, "calm", CLIMATES["calm"].conditions, clients, {})
        found = Run(backend, plan).play().verdict()
        assert found.passed, f"seed {seed}:\n{found}"


@pytest.mark.parametrize("backend", BACKENDS)
def test_every_fault_strikes(backend: str) -> None:
    """A climate whose faults never reach anybody would show nothing."""
    struck: set[str] = set()
    for climate in CLIMATES:
        for seed in range(10):
            run = Run(backend, draw_plan(climate, seed)).play()
            servers = {host.name for host in run.backend.hosts}
            for event in run.history:
                if event.kind == "note":
                    whom = "server" if event.client in servers else "client"
                    struck.add(f"{whom} {event.verb} {event.detail}".rstrip())
                elif event.client.endswith("b"):
                    struck.add("client restart")
            struck |= {"amnesia"} if "amnesia" in run.plan.kinds() else set()
    cuts = {f"client partition {kind}" for kind in CUTS if kind != "cut_node"}
    steps = {"server clock" if word.startswith("server clock") else word for word in struck}
    assert steps >= cuts | {
        "client pause",
        "client crash",
        "client restart",
        "client lost",
        "client expired revoked",
        "server pause",
        "server crash",
        "server restart",
        "server partition cut_node",
        "server clock",
        "amnesia",
    }


@pytest.mark.parametrize("backend", BACKENDS)
def test_messages_are_lost_doubled_and_overtaken_and_connections_break(
    backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    odds = Conditions(breaks=0.031, lost=0.052, doubled=0.053, overtaken=0.104)
    happened: set[float] = set()
    happens = Network.happens

    def seen(self: Network, chance: float, way: Way) -> bool:
        if happens(self, chance, way):
            happened.add(chance)
            return True
        return False

    monkeypatch.setattr(Network, "happens", seen)
    for seed in range(10):
        Run(backend, draw_plan("flaky", seed)._replace(conditions=odds)).play()
    connections = set() if backend == "store" else {odds.breaks}
    assert happened >= {odds.lost, odds.doubled, odds.overtaken} | connections


@pytest.mark.parametrize("name", FLAWS)
def test_a_planted_flaw_is_found(name: str) -> None:
    flaw, said = FLAWS[name], set[str]()
    with planted(name):
        for seed in range(flaw.seeds):
            said |= faults(flaw.backend, draw_plan(flaw.climate, seed))
            if said & flaw.says:
                return
    pytest.fail(f"the judge said {said or 'nothing'} in {flaw.seeds} seeds, and not {flaw.says}")


@pytest.mark.parametrize("backend", BACKENDS)
def test_without_a_guard_a_paused_holder_loses_an_update(backend: str) -> None:
    """And with the same seeds and a guard it does not: see the climates above."""
    for seed in range(60):
        run = Run(backend, draw_plan("naps", seed), guarded=False).play()
        found = verdict(run.history, run.promises._replace(guarded=True)).violations
        if any(violation.checker == "no_lost_update" for violation in found):
            return
    pytest.fail("no update was lost")


def test_a_failure_is_made_smaller_and_says_how_to_play_it_again() -> None:
    with planted("half_is_enough"), pytest.raises(Broken) as caught:
        for seed in range(20):
            examine("redlock", "storm", seed)
    replay = str(caught.value).splitlines()[-1]
    assert replay.startswith("replay: PYTHONPATH=src python -m tests.sim.runs redlock storm ")
    (page,) = [line for line in str(caught.value).splitlines() if line.startswith("page: ")]
    path = Path(page.removeprefix("page: "))
    kept: Any = held(path.read_text(encoding="utf-8"))
    path.unlink()
    trace = kept["parts"][0]["trace"]
    assert "one_holder" in {one["checker"] for one in trace["verdict"] if one["violations"]}
    assert dict(trace["run"]["facts"])["command"] == replay.removeprefix("replay: ")
    words = replay.split()
    seed, only = int(words[7]), words[9].split(",")
    full = draw_plan("storm", seed)
    assert set(only) < set(full.parts())
    with planted("half_is_enough"):
        assert faults("redlock", full.only(only))
        for part in only:  # nothing in it can be left out
            fewer = full.only([other for other in only if other != part])
            assert not fewer.clients or not faults("redlock", fewer)


def test_a_replay_prints_the_history_and_the_verdict(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    saved = tmp_path / "history.jsonl"
    assert main(["redis", "pauses", "3", "--save", str(saved)]) == 0
    printed = capsys.readouterr().out
    assert "never two holders" in printed
    assert "steps" in printed
    run = Run("redis", draw_plan("pauses", 3)).play()
    assert History.load(saved).events == run.history.events
    seen = tmp_path / "page.html"
    assert main(["redis", "pauses", "3", "--html", str(seen)]) == 0
    kept: Any = held(seen.read_text(encoding="utf-8"))
    facts = dict(kept["parts"][0]["trace"]["run"]["facts"])
    assert facts["digest"] == run.simulation.digest()
    assert facts["command"] == "PYTHONPATH=src python -m tests.sim.runs redis pauses 3"
    flaw = FLAWS["half_is_enough"]
    assert main([flaw.backend, flaw.climate, "0", "--defect", "half_is_enough"]) == 1
    assert "! one_holder" in capsys.readouterr().out


def test_a_survey_counts_what_it_played_and_names_what_failed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert survey.main(["store", "--seeds", "3", "4"]) == 0
    head, row = capsys.readouterr().out.splitlines()
    assert dict(zip(head.split(), row.split()[1:], strict=False))["histories"] == str(len(CLIMATES))
    with planted("half_is_enough"):
        assert survey.main(["redlock", "--seeds", "0", "1"]) == 1
    assert "replay: PYTHONPATH=src python -m tests.sim.runs redlock" in capsys.readouterr().out


@pytest.mark.parametrize("backend", PLAYED)
def test_a_run_that_is_observed_is_the_same_run(backend: str) -> None:
    """Its messages and servers are seen, and nothing else happens for it."""
    for climate in ("naps", "flaky", "reboots"):
        run, seen = Run(backend, draw_plan(climate, 1)), ObservedRun(backend, draw_plan(climate, 1))
        assert run.play().history.events == seen.play().history.events
        assert run.simulation.digest() == seen.simulation.digest()
        assert seen.recorder.messages
        holders = {state["holder"] for states in seen.states.values() for _, state in states}
        assert holders - {None, "somebody"} <= {client.name for client in seen.clients}
        assert len(holders) > 2


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_same_seed_gives_the_same_history(backend: str) -> None:
    first, again, other = (Run(backend, draw_plan("storm", seed)).play() for seed in (1, 1, 2))
    assert first.history.events == again.history.events
    assert first.simulation.digest() == again.simulation.digest()
    assert first.simulation.digest() != other.simulation.digest()


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_every_python_and_every_order_of_hashes_gives_the_same_history(
    backend: str, python: str
) -> None:
    here = sys.version_info[:2] == tuple(int(part) for part in python[6:].split("."))
    python = sys.executable if here else python
    if shutil.which(python) is None:
        pytest.skip(f"no {python} on PATH")
    needs = "import hiredis, lupa, redis"
    if subprocess.run([python, "-c", needs], capture_output=True).returncode:
        pytest.skip(f"{python} has no hiredis, lupa or redis")
    replay = [python, "-W", "error", "-m", "tests.sim.runs", backend, "storm", "5", "--digest"]
    environment = {**os.environ, "PYTHONPATH": "src", "PYTHONHASHSEED": "4000000000"}
    run = subprocess.run(replay, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip() == Run(backend, draw_plan("storm", 5)).play().simulation.digest()


def test_the_command_of_a_whole_plan_names_no_parts() -> None:
    assert command("store", draw_plan("calm", 4)).endswith("tests.sim.runs store calm 4")
