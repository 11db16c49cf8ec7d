"""What recipes refuse, what they do in doubt, and how they look: on the engine in memory."""

from __future__ import annotations

import asyncio
import copy
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import fencelock
from fencelock import aio, sync, testing
from fencelock.testing import faulty

MONTH_S = 30 * 86_400.0


@pytest.fixture
def client(request: pytest.FixtureRequest) -> Any:
    with fencelock.connect(f"memory://{request.node.name}") as client:
        yield client


async def until(condition: Callable[[], bool]) -> None:
    deadline = asyncio.get_running_loop().time() + 20
    while asyncio.get_running_loop().time() < deadline:
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("what was waited for did not come")


# Arguments


@pytest.mark.parametrize("every", [0, 0.5, -1, True, "5m", float("nan"), float("inf"), None])
def test_a_window_has_a_length(client: fencelock.Client, every: Any) -> None:
    with pytest.raises(fencelock.UsageError, match="every must be"):
        client.once("job", every=every)


@pytest.mark.parametrize(
    ("describe", "longest"),
    [
        (lambda client, name: client.barrier(name, 2), 504),
        (lambda client, name: client.latch(name, 2), 506),
        (lambda client, name: client.once(name, every=60), 507),
        (lambda client, name: client.election(name), 512),
    ],
    ids=["barrier", "latch", "once", "election"],
)
def test_names_are_as_long_as_the_page_says(
    client: fencelock.Client, describe: Callable[[fencelock.Client, str], Any], longest: int
) -> None:
    assert describe(client, "x" * longest).name == "x" * longest
    with pytest.raises(fencelock.UsageError, match="at most 512 bytes"):
        describe(client, "x" * (longest + 1))


@pytest.mark.parametrize(
    ("meta", "shown"),
    [
        ({"a": "x" * 4087}, False),  # 4096 bytes as JSON: there is no room for a word of ours
        ({"recipe": "pancakes"}, False),
        ({"zone": "b"}, True),
    ],
    ids=["full", "taken", "usual"],
)
def test_an_election_leaves_the_words_of_its_caller_alone(
    client: fencelock.Client, meta: dict[str, str], shown: bool
) -> None:
    election = client.election("jobs", meta=meta)
    with election as term:
        assert meta.items() <= term.meta.items()
        assert (client.inspect("jobs").leader is not None) is shown
        leader = election.leader()
        assert leader is not None
        assert leader.fence == term.fence


@pytest.mark.parametrize("count", [0, -1, True, 1.5, "3", 10**9])
def test_parties_and_counts_are_whole_numbers(client: fencelock.Client, count: Any) -> None:
    with pytest.raises(fencelock.UsageError, match="parties must be an integer from 1 to"):
        client.barrier("start", count)
    with pytest.raises(fencelock.UsageError, match="count must be an integer from 1 to"):
        client.latch("ready", count)


@pytest.mark.parametrize("keep", [0, True, "1d", float("nan")])
def test_counts_are_kept_for_a_time(client: fencelock.Client, keep: Any) -> None:
    with pytest.raises(fencelock.UsageError, match="keep must be"):
        client.latch("ready", 1, keep=keep)


def test_a_timedelta_is_told_how_to_become_seconds(client: fencelock.Client) -> None:
    day: Any = timedelta(days=1)
    with pytest.raises(fencelock.UsageError, match=r"pass every\.total_seconds\(\)"):
        client.once("job", every=day)
    with pytest.raises(fencelock.UsageError, match=r"pass keep\.total_seconds\(\)"):
        client.latch("ready", 1, keep=day)


def test_a_name_leaves_room_for_the_kind_of_the_recipe(client: fencelock.Client) -> None:
    with pytest.raises(fencelock.UsageError, match="at most 512 bytes"):
        client.latch("x" * 512, 1)
    with pytest.raises(fencelock.UsageError, match="must not be empty"):
        client.barrier("", 2)
    assert client.latch("x" * 500, 1).remaining() == 1


def test_an_engine_that_forgets_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from fencelock.engines.memory import MemoryEngine

    forgetful = MemoryEngine.traits._replace(remembers=False)
    monkeypatch.setattr(MemoryEngine, "traits", forgetful)
    for flavor in (sync, aio):
        client: Any = flavor.connect("memory://forgetful")
        with pytest.raises(fencelock.Unsupported, match="remembers nothing"):
            client.once("job", every=60)
        with pytest.raises(fencelock.Unsupported, match="remembers nothing"):
            client.latch("ready", 1)
        with pytest.raises(fencelock.Unsupported, match="remembers nothing"):
            client.barrier("start", 1)
        assert client.election("boss").name == "boss"


# Looks


def test_recipes_are_described_and_not_copied(client: fencelock.Client) -> None:
    things: list[Any] = [
        client.election("a"),
        client.once("a", every=60),
        client.barrier("a", 2),
        client.latch("a", 2),
    ]
    kinds = ["Election", "Once", "Barrier", "Latch"]
    assert [repr(thing) for thing in things] == [f"<fencelock.{kind} 'a'>" for kind in kinds]
    assert [thing.name for thing in things] == ["a"] * 4
    assert repr(aio.connect("memory://").latch("a", 1)) == "<fencelock.aio.Latch 'a'>"
    for thing in things:
        with pytest.raises(TypeError, match="cannot be copied"):
            copy.copy(thing)


def test_they_are_loaded_when_they_are_first_used() -> None:
    import subprocess
    import sys

    code = """
import sys, fencelock
client = fencelock.connect("memory://")
assert not any("recipes" in name for name in sys.modules)
assert fencelock.Election is type(client.election("a"))
assert "asyncio" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


# Decorators


def test_a_decorated_function_runs_once_in_its_window(client: fencelock.Client) -> None:
    @client.once("job", every=MONTH_S)
    def report(day: int, lease: fencelock.Lease) -> tuple[int, int]:
        "What it says."
        return day, lease.fence

    first: Any = report(3)  # type: ignore[call-arg]
    assert first[0] == 3
    assert report(4) is None  # type: ignore[call-arg]
    assert report.__doc__ == "What it says."
    with pytest.raises(TypeError):
        report()  # type: ignore[call-arg]


def test_a_decorated_coroutine_runs_once_in_its_window() -> None:
    async def main() -> None:
        async with aio.connect("memory://decorated") as client:
            job = client.once("job", every=MONTH_S)

            @job
            async def fail() -> None:
                raise ZeroDivisionError

            @job
            async def report(day: int) -> int:
                return day

            with pytest.raises(ZeroDivisionError):
                await fail()
            assert await asyncio.gather(*(report(day) for day in range(1, 5))) == [
                1,
                None,
                None,
                None,
            ]

    asyncio.run(main())


def test_what_cannot_be_decorated_is_told_how_to(client: fencelock.Client) -> None:
    async def later() -> None: ...

    with pytest.raises(fencelock.UsageError, match=r"fencelock\.aio\.connect\(…\)\.once"):
        client.once("job", every=60)(later)


# Doubts


def test_work_that_could_not_be_written_down_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fencelock.recipes.once.RELEASE_S", 0.05)
    faults = faulty.Faults()
    with faulty.connect("memory://doubts", faults) as client:
        with pytest.raises(fencelock.OutcomeUnknown, match="another may do it again"):
            with client.once("job", every=MONTH_S) as turn:
                assert turn
                faults.outage("remember")
        assert not client.holders("job")
        faults.heal()
        with client.once("job", every=MONTH_S) as turn:
            assert turn


def test_a_short_outage_at_the_end_of_the_work_costs_nothing() -> None:
    faults = faulty.Faults()
    with faulty.connect("memory://short", faults) as client:
        with client.once("job", every=MONTH_S) as turn:
            assert turn
            faults.outage("remember")
            threading.Timer(0.05, faults.heal).start()
        with client.once("job", every=MONTH_S) as turn:
            assert turn is None
        assert len(faults.seen("remember", "refused")) > 1


def test_a_term_that_was_not_announced_is_a_term() -> None:
    faults = faulty.Faults()
    with faulty.connect("memory://unannounced", faults) as client:
        faults.outage("announce")
        with client.election("boss") as term:
            assert term
        assert client.election("boss").leader() is None


def test_run_waits_an_outage_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fencelock._client.policy.RETRY_MAX_S", 0.01)
    faults, fences = faulty.Faults(), list[int]()
    with faulty.connect("memory://outage", faults) as client:

        def work(term: fencelock.Lease) -> int:
            fences.append(term.fence)
            if len(fences) == 1:
                testing.lose(term)
                faults.outage("acquire")
                threading.Timer(0.1, faults.heal).start()
            return term.fence

        assert client.election("boss").run(work) == fences[1] > fences[0]
        assert len(faults.seen("acquire", "refused")) > 1


def test_observing_bears_a_short_outage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fencelock._client.policy.RETRY_MAX_S", 0.01)
    faults = faulty.Faults()
    with faulty.connect("memory://observed", faults) as client:
        leaders = client.election("boss", ttl=20).observe()
        faults.outage("inspect")
        threading.Timer(0.05, faults.heal).start()
        assert next(leaders) is None
        assert faults.seen("inspect", "refused")
        faults.outage("inspect")
        brief = client.election("boss", ttl=0.05).observe()
        with pytest.raises(fencelock.Unavailable):
            next(brief)


# Frozen, closed, cancelled


def test_a_leader_that_froze_learns_of_it_and_campaigns_again() -> None:
    client, clock = testing.client()
    rival = clock.connect()
    terms: list[int] = []

    def work(term: fencelock.Lease) -> str:
        terms.append(term.fence)
        if len(terms) == 1:
            clock.advance(31)  # frozen for longer than the ttl
            successor = rival.election("boss").campaign(timeout=0)
            assert successor.fence > term.fence
            assert not term
            leader = rival.election("boss").leader()
            assert leader is not None
            assert leader.fence == successor.fence
            terms.append(successor.fence)
            successor.release()
            term.check()  # raises
        return "led"

    assert client.election("boss", ttl=30).run(work) == "led"
    assert terms == sorted({*terms})
    assert len(terms) == 3
    client.close()
    rival.close()


def test_work_that_returns_after_its_term_was_lost_leads_again() -> None:
    """A loop that ends when the term does has not done its work."""
    client, clock = testing.client()
    calls: list[int] = []

    def work(term: fencelock.Lease) -> int:
        calls.append(term.fence)
        while term:
            if len(calls) == 3:
                break
            clock.advance(31)
        return len(calls)

    assert client.election("boss", ttl=30).run(work) == 3
    client.close()


def test_a_stale_fence_of_a_lost_term_is_not_raised() -> None:
    client, clock = testing.client()
    calls: list[int] = []

    def work(term: fencelock.Lease) -> str:
        calls.append(term.fence)
        if len(calls) == 1:
            clock.advance(31)
            raise fencelock.StaleFence("the guard refused", offered=1, highest=2)
        return "led"

    assert client.election("boss", ttl=30).run(work) == "led"
    client.close()


def test_the_windows_of_a_test_go_by_its_clock() -> None:
    client, clock = testing.client()
    turns = []
    for _ in range(4):
        with client.once("job", every=300) as turn:
            turns.append(turn is not None)
        clock.run(150)
    assert turns == [True, False, True, False]
    client.close()


def test_a_cancelled_campaign_leaves_no_leader() -> None:
    async def main() -> None:
        faults = faulty.Faults()
        client = await faulty.connect_aio("memory://cancelled", faults)
        faults.hang("announce")
        task = asyncio.ensure_future(client.election("boss").campaign())
        await until(lambda: bool(faults.seen("announce")))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        faults.heal()
        assert await client.election("boss").leader() is None
        await client.close()

    asyncio.run(main())


def test_a_cancelled_party_leaves_the_barrier() -> None:
    async def main() -> None:
        async with aio.connect("memory://cancelled party") as client:
            barrier = client.barrier("start", 2)
            party = asyncio.ensure_future(barrier.wait())
            await until(lambda: bool(client._core.keeper.held()))
            party.cancel()
            with pytest.raises(asyncio.CancelledError):
                await party
            assert not (await client.inspect("barrier:start")).holders

    asyncio.run(main())


def test_work_cancelled_at_its_end_is_written_down_first() -> None:
    async def main() -> None:
        faults = faulty.Faults()
        client = await faulty.connect_aio("memory://written", faults)

        async def work() -> None:
            async with client.once("job", every=MONTH_S) as turn:
                assert turn
                faults.delay("remember", before=0.05)

        task = asyncio.ensure_future(work())
        await until(lambda: bool(faults.seen("remember")))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not await client.holders("job")
        async with client.once("job", every=MONTH_S) as turn:
            assert turn is None
        await client.close()

    asyncio.run(main())


def test_an_observer_that_stops_is_told_no_more(client: fencelock.Client) -> None:
    from fencelock.engines.memory import MemoryEngine

    leaders: Any = client.election("boss").observe()
    assert next(leaders) is None
    engine = client._core.engine
    assert isinstance(engine, MemoryEngine)
    assert [name for name, _ in engine.store.observers] == ["boss"]
    leaders.close()
    assert engine.store.observers == []


def test_one_election_object_leads_by_campaign_alone(client: fencelock.Client) -> None:
    election = client.election("boss", ttl=30)
    election.campaign()
    leader = election.leader()
    assert leader is not None
    assert election.resign() is True
    assert election.resign() is False
    assert election.leader() is None


def test_a_success_outlives_its_process_where_the_engine_does(tmp_path: Path) -> None:
    """In memory it does not: a forked child, and another process, see nothing of it."""
    import subprocess
    import sys

    code = f"""
import fencelock
client = fencelock.connect("memory://process")
with client.once("job", every={MONTH_S}) as turn:
    print(turn is not None)
"""
    for _ in range(2):
        ran = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        )
        assert ran.stdout.split() == ["True"]


# Windows of other lengths

LENGTHS_S = (60, 3600, 86_400, 3600.5, 30)


def test_a_job_whose_window_was_changed_runs_by_the_new_one(client: fencelock.Client) -> None:
    """The number of a minute is higher than that of any day of this century."""
    done = list[float]()
    for every in LENGTHS_S:
        with client.once("report", every=every, timeout=0) as turn:
            if turn:
                done.append(every)
    assert done == list(LENGTHS_S)


def test_a_task_whose_window_was_changed_runs_by_the_new_one() -> None:
    async def main() -> list[float]:
        done = list[float]()
        async with aio.connect("memory://lengths") as client:
            for every in LENGTHS_S:
                async with client.once("report", every=every, timeout=0) as turn:
                    if turn:
                        done.append(every)
        return done

    assert asyncio.run(main()) == list(LENGTHS_S)
