"""When the watchdog sends what: arithmetic over a lease's end."""

from __future__ import annotations

import signal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencelock.cli.run.kill_plan import MARGIN_MIN_S, KillPlan, Watch, margin

TERM, KILL, USR1 = signal.SIGTERM, signal.SIGKILL, signal.SIGUSR1
USUAL = KillPlan(TERM, True, 5.0)


def test_nothing_is_due_while_the_end_is_far() -> None:
    watch = Watch(USUAL)
    assert (watch.look(0.0), watch.next_at()) == ([], None)
    watch.until = 30.0
    assert (watch.look(20.0), watch.next_at()) == ([], 30.0 - 5.0 - MARGIN_MIN_S)
    watch.until = 40.0  # renewed
    assert (watch.look(26.0), watch.ended) == ([], False)


def test_term_comes_a_grace_before_the_end_and_kill_a_margin_before() -> None:
    watch = Watch(USUAL)
    watch.until = 30.0
    assert watch.look(24.95) == [TERM]
    assert watch.ended
    assert watch.next_at() == pytest.approx(30.0 - MARGIN_MIN_S)
    assert watch.look(29.0) == []
    assert watch.look(29.9) == [KILL]
    assert watch.look(30.0) == []
    assert watch.next_at() is None


def test_a_loss_gives_the_grace_but_never_past_the_end() -> None:
    watch = Watch(USUAL)
    watch.until = 30.0
    assert watch.lose(10.0) == [TERM]
    assert watch.kill_at == 15.0
    assert watch.lose(11.0) == []
    watch = Watch(USUAL)
    watch.until = 30.0
    assert watch.lose(28.0) == [TERM]
    assert watch.kill_at == pytest.approx(30.0 - MARGIN_MIN_S)


def test_a_loss_that_is_noticed_late_still_gives_the_grace() -> None:
    watch = Watch(USUAL)
    watch.until = 30.0
    assert watch.look(100.0) == [TERM]
    assert watch.look(105.0) == [KILL]


@pytest.mark.parametrize(
    ("plan", "at_loss", "later"),
    [
        (KillPlan(None, True, 0.0), [KILL], []),
        (KillPlan(None, False, 0.0), [], []),
        (KillPlan(USR1, False, 5.0), [USR1], []),
        (KillPlan(TERM, True, 0.0), [TERM, KILL], []),
        (KillPlan(TERM, True, 5.0), [TERM], [KILL]),
    ],
)
def test_each_plan_sends_its_signals(plan: KillPlan, at_loss: list[int], later: list[int]) -> None:
    watch = Watch(plan)
    watch.until = 1000.0
    assert watch.lose(0.0) == at_loss
    assert watch.look(999.0) == later
    assert watch.look(9999.0) == []


def test_an_orphan_of_a_nested_wrapper_has_no_time_left() -> None:
    watch = Watch(USUAL._replace(nested=True))
    watch.until = 1000.0
    assert watch.orphaned(0.0) == [KILL]
    assert watch.next_at() is None
    plain = Watch(USUAL)
    plain.until = 1000.0
    assert plain.orphaned(0.0) == [TERM]


@given(
    grace=st.floats(0, 10),
    until=st.floats(0, 100),
    looks=st.lists(st.floats(0, 0.05), min_size=1, max_size=200),
    lost_at=st.none() | st.integers(0, 200),
)
def test_whatever_happens_kill_comes_once_and_before_the_end(
    grace: float, until: float, looks: list[float], lost_at: int | None
) -> None:
    """Looked at often enough from early enough, all is over a margin before the end."""
    watch = Watch(KillPlan(TERM, True, grace))
    watch.until = until
    now = until - MARGIN_MIN_S - grace - 1.0
    sent: list[tuple[float, int]] = []
    for turn, step in enumerate(looks):
        signals = watch.lose(now) if turn == lost_at else watch.look(now)
        sent += [(now, number) for number in signals]
        now += step
    kills = [at for at, number in sent if number == KILL]
    assert len(kills) <= 1
    assert [number for _, number in sent] in ([], [TERM], [TERM, KILL])
    if now > until + 0.1:
        assert kills
        assert kills[0] <= until - MARGIN_MIN_S + 0.05 + 1e-6


def test_words_say_what_was_done() -> None:
    assert USUAL.words() == "the command was sent TERM and gets KILL in 5s"
    assert KillPlan(None, True, 0.0).words() == "the command was killed"
    assert KillPlan(None, False, 0.0).words() == "the command goes on without it"
    assert KillPlan(USR1, False, 1.0).words() == "the command was sent USR1"


def test_the_margin_grows_with_the_ttl_within_bounds() -> None:
    assert [margin(ttl) for ttl in (0.5, 2.0, 10.0, 30.0, 600.0)] == [0.1, 0.1, 0.5, 1.0, 1.0]
