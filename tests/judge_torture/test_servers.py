"""Tortures of real servers: the locks keep their promises, whatever befalls a client or its link.

A few seconds, over one server. ``make torture`` is the long version, over all of them.
"""

from __future__ import annotations

from typing import Any

import pytest

from fencelock.judge import Event, History, verdict
from fencelock.judge.torture.adapters import FencelockAdapter
from fencelock.judge.torture.peers import open_adapter
from fencelock.judge.torture.report import conclusion, facts, rows, words
from fencelock.judge.torture.rulings import updates
from fencelock.judge.torture.run import Progress, Run, Settings, promised, session_of, with_session
from fencelock.judge.torture.runner import PREFIX, torture
from fencelock.lab.tortures import parts_of
from fencelock.worlds import clock
from tests.servers.redis import Redis
from tests.servers.service import Service
from tests.servers.shared import shared
from tests.servers.zookeeper import ZooKeeper

SAFE = {
    "never two holders",
    "fences strictly grow",
    "no acknowledged update is lost",
    "no stale operation is accepted",
    "never more units of a semaphore than its limit",
    "never two holders of one slot",
    "fences grow in each slot",
    "nobody reads or writes beside a writer",
}


def redis() -> Redis:
    return Redis()


def service() -> Service:
    return Service()


def broken(run: Run) -> set[str]:
    """The questions of safety that were answered with no; a busy machine may be late for others."""
    return {row.question for row in rows(run) if row.outcome == "violated"} & SAFE


def left(url: str) -> list[str]:
    """The keys of the torture that stay until somebody removes them."""
    with shared(redis).line() as line:
        line.ask("SELECT", url.rpartition("/")[2])
        keys: list[str] = line.ask("KEYS", f"*{PREFIX}*")
        return [key for key in keys if line.ask("PTTL", key) == -1]


def test_every_fault_reaches_a_server_and_breaks_nothing() -> None:
    url = shared(redis).fresh_url()
    run = torture(Settings(url, seconds=4.0, ttl=0.4, clients=4, seed=7))
    assert broken(run) == set()
    assert run.deaths == []
    assert run.not_applicable == {}
    assert {fault for fault, count in run.faults.items() if count} >= {"pause", "kill", "partition"}
    assert run.tenures > 5
    assert updates(run.counters.guarded.values()).lost == 0
    assert left(url) == []
    verbs = {event.verb for event in run.history if event.kind == "note"}
    assert {"pause", "resume", "crash", "restart", "partition", "heal"} <= verbs


def test_every_fault_reaches_a_service_and_breaks_nothing() -> None:
    """The clients of a lock service are tortured as those of any other engine."""
    url = f"{shared(service).url}?prefix=torture:"
    run = torture(Settings(url, seconds=4.0, ttl=1.0, clients=4, seed=7))
    assert broken(run) == set()
    assert run.deaths == []
    assert run.not_applicable == {}
    assert {fault for fault, count in run.faults.items() if count} >= {"pause", "kill", "partition"}
    assert run.tenures > 5
    assert updates(run.counters.guarded.values()).lost == 0


@pytest.mark.parametrize("what", [{"semaphore": 2}, {"rw": True}], ids=["semaphore", "rw"])
def test_every_fault_reaches_a_share_and_breaks_nothing(what: dict[str, Any]) -> None:
    url = shared(redis).fresh_url()
    run = torture(Settings(url, seconds=4.0, ttl=0.4, clients=5, seed=7, **what))
    assert broken(run) == set()
    assert len({row.question for row in rows(run)} & SAFE) >= 4
    assert run.deaths == []
    assert {fault for fault, count in run.faults.items() if count} >= {"pause", "kill", "partition"}
    assert run.tenures > 5
    assert updates(run.counters.guarded.values()).lost == 0
    assert left(url) == []
    held = {(one.role, one.slot) for one in run.history.operations("acquire") if one.fence}
    shares = {("semaphore", 0), ("semaphore", 1)} if run.settings.semaphore else {("write", None)}
    assert held >= shares
    counters = {name.partition("#")[2] for name in run.counters.guarded}
    assert counters == ({"0", "1"} if run.settings.semaphore else {""}), "each slot has its own"


def test_the_session_that_carries_all_leases_of_a_client_is_known() -> None:
    """A killed client keeps its locks for as long."""
    url = with_session(shared(ZooKeeper).fresh_url(), 6.0)
    with FencelockAdapter(url).client as client:
        assert session_of(client._core.engine) == 8.0


def test_an_engine_that_ends_meanwhile_is_no_pass() -> None:
    """Nothing was broken, and nobody can say whether something is left behind."""
    with Redis() as server:

        def end(progress: Progress) -> None:
            if progress.tenures or progress.phase == "comes to rest":
                server.kill()

        run = torture(Settings(server.url, seconds=1.0, ttl=0.4, clients=2, faults=("kill",)), end)
    assert broken(run) == set()
    assert run.unheard
    outcome = {row.question: row.outcome for row in rows(run)}
    assert outcome["nothing is left behind"] == "undecided"
    assert facts(run)["unheard"] == run.unheard


@pytest.mark.parametrize("library", ["redis-py", "python-redis-lock"])
def test_a_peer_does_the_same_work_and_is_shown_beside(library: str) -> None:
    pytest.importorskip("redis" if library == "redis-py" else "redis_lock")
    url = shared(redis).fresh_url()
    settings = Settings(url, seconds=1.0, ttl=0.4, clients=3, faults=("pause", "kill"))
    ours = torture(settings)
    theirs = torture(settings._replace(library=library))
    told = facts(theirs)
    assert (told["library"], told["guarded"]) == (library, None)
    assert theirs.tenures > 0
    lost = updates(theirs.counters.plain.values()).lost
    question = "no acknowledged update is lost"
    outcome = {row.question: row.outcome for row in rows(theirs)}
    assert outcome[question] == ("happened" if lost else "passed")
    assert outcome["fences strictly grow"] == "not applicable"
    shown = parts_of([ours, theirs], "today")
    assert {part.title.partition(":")[0] for part in shown} == {"fencelock", library}
    assert {part.trace.data["title"] for part in shown} == {
        "Torture of fencelock, a mutex", f"Torture of {library}, a mutex",
    }  # fmt: skip
    assert "this library has no fence" in "\n".join(line for _, line in words(theirs))
    assert left(url) == []


def test_a_lock_that_ended_at_its_ttl_is_not_held_after_it() -> None:
    """redis-py's lock is not extended here: its end is by arrangement, and no second holder."""
    pytest.importorskip("redis")
    url = shared(redis).fresh_url()
    one, other = (open_adapter("redis-py", url) for _ in range(2))
    origin = clock.now()
    first = one.acquire("a", 0.2, 1.0)
    assert first is not None
    granted = clock.now() - origin
    second = other.acquire("a", 0.2, 30.0)
    assert second is not None
    assert second.check() == ""
    assert first.check() == "the key is another's"
    assert not first.release()
    again = clock.now() - origin
    one.close()
    other.close()
    until = first.until - origin
    assert 0.2 <= until <= granted + 0.2

    def judged(moment: float) -> set[str]:
        """What the judge says, had the second been granted at this moment."""
        events = [
            Event(0.0, "a", "invoke", "acquire", 1, "n"),
            Event(granted, "a", "ok", "acquire", 1, "n", until=until),
            Event(granted, "b", "invoke", "acquire", 2, "n"),
            Event(moment, "b", "ok", "acquire", 2, "n", until=moment + 0.2),
            Event(moment + 9.0, "a", "invoke", "release", 3, "n"),
        ]
        history = History(sorted(events, key=lambda event: event.at))
        promises = promised(None, 0.2)._replace(slack=0.01)
        return {one.checker for one in verdict(history, promises).violations}

    assert judged(again) == set()
    assert judged((granted + until) / 2) >= {"one_holder", "linearizable"}


def test_of_another_library_no_promise_is_said_to_be_broken() -> None:
    """It gave none: what happened is told in figures and in words."""
    pytest.importorskip("redis")
    url = shared(redis).fresh_url()
    settings = Settings(url, "redis-py", seconds=2.0, ttl=0.3, clients=4, faults=("pause",))
    run = torture(settings)
    assert run.faults["pause"]
    plain = updates(run.counters.plain.values())
    assert "violated" not in {row.outcome for row in rows(run)}
    assert conclusion(run).startswith(f"{plain.lost} of {plain.acknowledged} updates were lost")
    assert "violated" not in {outcome for outcome, _ in words(run)}
    for part in parts_of([run], "today"):
        assert "broken" not in {one["outcome"] for one in part.trace.verdict}
        (lost,) = [one for one in part.trace.verdict if one["checker"] == "no_lost_update"]
        assert len(lost["violations"]) + lost["more"] == len(run.counters.losses)
        assert bool(lost["violations"]) is bool(plain.lost)
