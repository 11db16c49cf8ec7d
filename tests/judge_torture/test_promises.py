"""What a torture is held to, and the small parts that decide what is true of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest

from fencelock.engines.url import parse
from fencelock.errors import Misconfigured, UsageError
from fencelock.judge import Event, History, verdict
from fencelock.judge.torture.nemesis import FAULTS, Nemesis, read_faults
from fencelock.judge.torture.peers import PEERS, check_library
from fencelock.judge.torture.run import is_session_bound, promised
from fencelock.model import Traits
from fencelock.world import GRACE_S

STRONG = Traits("correctness", "network", fence=True, fifo=True, push=True, durable=True)


def test_a_lock_without_a_fence_is_held_to_what_needs_none() -> None:
    ours, theirs = promised(STRONG, 1.0), promised(None, 1.0)
    assert (ours.exclusive, ours.fence, ours.guarded, ours.fifo) == (True, True, True, True)
    assert (theirs.exclusive, theirs.fence, theirs.guarded, theirs.fifo) == (
        (True, False, False, False)
    )
    assert (ours.grace, ours.undone_within) == (GRACE_S + 0.25, 5.0)
    assert (theirs.grace, theirs.undone_within) == (None, None)


@pytest.mark.parametrize(
    ("url", "bound"),
    [
        ("postgresql://h/db", False),
        ("postgresql://h/db?mode=advisory", True),
        ("postgresql://h/db?mode=row", True),
        ("mysql://h/db?mode=advisory", True),
        ("mariadb://h/db?mode=lease", False),
        ("redis://h/0", False),
    ],
)
def test_a_session_that_ends_frees_its_lock_at_once(url: str, bound: bool) -> None:
    assert is_session_bound(parse(url, {})) is bound


def grants(*ends: Event) -> History:
    """Two grants that overlap for 0.4 s: the holder hears of its loss by a renewal."""
    events = [
        Event(0.0, "a", "invoke", "acquire", 1, "n"),
        Event(0.1, "a", "ok", "acquire", 1, "n", 7),
        Event(0.2, "b", "invoke", "acquire", 2, "n"),
        *ends,
        Event(1.0, "b", "ok", "acquire", 2, "n", 8),
        Event(1.4, "a", "note", "told", 0, "n", 7),
        Event(1.5, "b", "invoke", "release", 3, "n", 8),
        Event(1.6, "b", "ok", "release", 3, "n", 8),
    ]
    return History(events)


def test_only_a_lock_that_is_bound_to_a_session_has_time_until_its_renewal() -> None:
    """The same history: broken for a lease, and what is promised for a session that was cut."""
    cut = Event(0.9, "a", "note", "expired", detail="its sessions may have ended")
    assert {one.checker for one in verdict(grants(), promised(STRONG, 1.5)).violations} == {
        "one_holder",
        "linearizable",
    }
    assert verdict(grants(cut), promised(STRONG, 1.5, bound=True)).passed
    assert not verdict(grants(), promised(STRONG, 1.5, bound=True)).passed, "it was not cut off"


def test_faults_are_dealt_in_rounds() -> None:
    def dealt(seed: int, count: int) -> Sequence[str]:
        nemesis = Nemesis([], {}, tuple(FAULTS), seed, lambda: 0.0)
        return [nemesis._deal() for _ in range(count)]

    assert Counter(dealt(1, 5)) == {"pause": 2, "kill": 1, "lose": 1, "partition": 1}
    assert dealt(1, 50) == dealt(1, 50), "one seed is one order"
    assert dealt(1, 50) != dealt(2, 50)


def test_faults_are_read_once_each_and_in_their_order() -> None:
    assert read_faults("kill, pause,kill") == ("kill", "pause")
    with pytest.raises(UsageError, match="there is no fault 'rain'"):
        read_faults("rain")


def test_a_library_that_is_missing_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    check_library("redis-py", "redis")
    monkeypatch.setitem(PEERS, "redis-py", PEERS["redis-py"]._replace(package="no_such_package"))
    with pytest.raises(Misconfigured, match="pip install redis"):
        check_library("redis-py", "redis")
