"""What ends during a renewal is left alone, and what goes wrong ends nothing else."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import Any

import pytest

from fencelock import observe
from fencelock._client import keeper as keepers
from fencelock.errors import LeaseLost, Unavailable
from fencelock.model import Gone, Grant
from fencelock.sim.tasks import Flag
from fencelock.world import Job, sleep
from tests.unit.keeper.desk import END, TTL, Desk


@pytest.mark.parametrize("answer", ["renewed", "gone", "failed"])
@pytest.mark.parametrize("end", ["retire", "drop"])
def test_a_tenure_that_ends_during_a_flight_is_left_alone(
    desk: Desk, end: str, answer: str
) -> None:
    events: list[observe.Event] = []
    unsubscribe = observe.subscribe(events.append)
    desk.engine.takes = 0.2
    hold = desk.hold()
    desk.run(TTL / 3 + 0.1)
    assert desk.engine.flying == 1
    grant = hold.grant
    if end == "retire":
        assert desk.keeper.retire(hold)
        assert not desk.keeper.retire(hold)
    else:
        desk.keeper.drop(hold)
    if answer == "gone" and end == "retire":
        desk.engine.gone["a"] = Gone("expired", "released")
    elif answer == "failed":
        desk.engine.failure = Unavailable()
    desk.run(3 * TTL)
    unsubscribe()
    assert hold.loss is None
    assert len(desk.engine.calls) == 1
    assert len(desk.keeper) == 0
    if end == "retire":
        assert hold.grant is grant
        assert [event.kind for event in events] == []


def test_a_tenure_that_ends_before_its_request_is_sent_is_not_in_it(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keepers, "BATCH_MAX", 1)
    desk.engine.takes = 0.1
    desk.hold("first")
    second = desk.hold("second")
    desk.run(TTL / 3 + 0.05)
    desk.keeper.retire(second)
    desk.run(2 * TTL)
    assert {name for _, names in desk.engine.calls for name in names} == {"first"}


def test_closing_ends_the_keeper_and_what_is_under_way(desk: Desk) -> None:
    desk.engine.takes = 0.5
    desk.hold()
    desk.run(TTL / 3 + 0.1)
    desk.simulation.play(desk.keeper.close(desk.world.now() + 5.0), desk.world)
    assert desk.simulation.now == pytest.approx(TTL / 3 + 0.5)
    assert desk.engine.flying == 0
    wake_ups = desk.wake_ups()
    desk.run(10 * TTL)
    assert desk.wake_ups() == wake_ups


def test_closing_does_not_wait_for_ever(desk: Desk) -> None:
    desk.engine.hung = Flag()
    desk.hold()
    desk.run(TTL / 2)
    desk.simulation.play(desk.keeper.close(desk.world.now() + 5.0), desk.world)
    assert desk.simulation.now == pytest.approx(TTL / 2 + 5.0)


# Surviving.


@pytest.mark.parametrize("failure", [ValueError("a bug"), OSError(24, "EMFILE"), MemoryError()])
def test_the_keeper_survives_any_error_of_the_engine(desk: Desk, failure: Exception) -> None:
    hold = desk.hold()
    desk.engine.failure = failure
    desk.run(TTL / 2)
    desk.engine.failure = None
    desk.run(5 * TTL)
    assert hold.loss is None
    assert hold.renewals >= 14


def test_the_keeper_survives_an_engine_that_answers_too_little(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def renew(grants: Sequence[Grant]) -> list[Grant | Gone]:
        return []

    with monkeypatch.context() as patch:
        patch.setattr(desk.engine, "renew", renew)
        hold = desk.hold()
        desk.run(TTL / 2)
    desk.run(TTL)
    assert hold.loss is None
    assert hold.renewals >= 3


def test_the_keeper_survives_what_on_lost_does(desk: Desk) -> None:
    async def fail_later(loss: LeaseLost) -> None:
        await sleep(desk.world, 0.1)
        raise ValueError("later")

    def fail(loss: LeaseLost) -> None:
        raise ValueError("at once")

    heard: list[LeaseLost] = []
    events: list[observe.Event] = []
    unsubscribe = observe.subscribe(events.append)
    for n, on_lost in enumerate((fail, fail_later, heard.append)):
        desk.hold(f"lost-{n}", renews=False, on_lost=on_lost)
    kept = desk.hold("kept")
    desk.run(5 * TTL)
    unsubscribe()
    assert len(heard) == 1
    assert kept.loss is None
    assert [event.kind for event in events].count("callback_failed") == 2
    assert [event.kind for event in events].count("lost") == 3


@pytest.mark.parametrize("label", ["fencelock-renewal", "fencelock-on-lost"])
def test_the_keeper_survives_that_no_thread_can_be_had(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, label: str
) -> None:
    spawn = desk.world.spawn

    def refuse(work: Coroutine[Any, Any, None], name: str) -> Job:
        if name == label:
            work.close()
            raise RuntimeError("can't start new thread")
        return spawn(work, name)

    doomed = desk.hold("doomed", renews=False, on_lost=lambda loss: None)
    kept = desk.hold("kept", ttl=2 * TTL)
    with monkeypatch.context() as patch:
        patch.setattr(desk.world, "spawn", refuse)
        assert desk.told_at(doomed) == END
        desk.run(0.5)
    desk.run(5 * TTL)
    assert kept.loss is None
    assert kept.renewals >= 5


def test_a_hook_that_fails_keeps_nobody_else_from_being_told(desk: Desk) -> None:
    def fail() -> None:
        raise RuntimeError("the loop is closed")

    heard: list[LeaseLost] = []
    first = desk.hold("first", renews=False, on_lost=heard.append)
    first.hook = fail
    second = desk.hold("second", renews=False, on_lost=heard.append)
    assert desk.told_at(first) == END
    assert desk.told_at(second) == END
    desk.run(1.0)
    assert [loss.name for loss in heard] == ["first", "second"]


def test_a_keeper_that_could_not_start_is_started_by_the_next_lease(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(work: Coroutine[Any, Any, None], name: str) -> Job:
        work.close()
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(desk.world, "spawn", refuse)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            desk.hold("first")
    hold = desk.hold("second")
    desk.run(2 * TTL)
    assert hold.renewals >= 5
