"""Giving a lock back when the first answer is lost: what the second one means."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fencelock import Misconfigured, OutcomeUnknown, Unavailable, observe
from fencelock._client import release
from fencelock._client.hold_state import HoldState
from fencelock._client.lease_lifecycle import PRESUMED
from fencelock._client.pending import Pending
from fencelock.engine import Address
from fencelock.engines.memory import MemoryEngine
from fencelock.model import Grant, granted
from fencelock.testing.faults import Faults
from fencelock.worlds.threads import ThreadsWorld, drive


class _Answers(MemoryEngine):
    """Gives its answers to a release one after the other; None is one that is lost."""

    def __init__(self, *answers: bool | Exception | None, commits: bool = False) -> None:
        super().__init__(ThreadsWorld(), Address("memory"))
        self.commits = commits
        self.pending = Pending(self.world, self)
        self._answers: Iterator[bool | Exception | None] = iter(answers)

    async def release(self, grant: Grant) -> bool:
        answer = next(self._answers, Unavailable("it has fallen silent"))
        if answer is None:
            raise OutcomeUnknown("no answer")
        if isinstance(answer, Exception):
            raise answer
        return answer


async def free(engine: _Answers, hold: HoldState, began: float | None = None) -> bool:
    engine.world.now = lambda: 5.0 if began is None else began  # type: ignore[method-assign]
    return await release.free(engine.world, engine, engine.pending, hold, engine.world.now())


@pytest.mark.parametrize(
    ("answers", "began", "freed"),
    [
        ((True,), 5.0, True),
        ((False,), 5.0, False),
        ((None, True), 5.0, True),
        ((None, False), 5.0, True),  # the first request was heard
        ((None, None, False), 5.0, True),
        ((None, False), 31.0, False),  # it ran out before, and another may hold the lock since
        ((None, None, False), 31.0, False),
        ((None, True), 31.0, True),  # nobody came
    ],
)
def test_not_yours_after_a_lost_answer_means_freed_only_if_it_was_ours(
    answers: tuple[bool | None, ...], began: float, freed: bool
) -> None:
    hold = HoldState(granted("seat", "me", 7, 30.0, 0.0), "", True, None, None, 0)
    assert drive(free(_Answers(*answers), hold, began)) is freed


@pytest.mark.parametrize("what", ["answered", "its reply was lost", "revoked before"])
def test_a_release_that_is_not_proved_to_be_ours_says_so(what: str) -> None:
    events: list[observe.Event] = []
    faults = Faults()
    client = faults.client()
    lease = client.lock("seat", ttl=30).acquire()
    if what == "its reply was lost":
        faults.lose_reply("release")
    elif what == "revoked before":
        assert client.revoke("seat", "maintenance")
        faults.switches.lose_requests(1, "release")
    unsubscribe = observe.subscribe(events.append)
    try:
        assert lease.release() is True
    finally:
        unsubscribe()
        faults.close()
    detail = "" if what == "answered" else PRESUMED
    assert [(event.kind, event.detail) for event in events] == [("released", detail)]


def test_the_end_of_a_limited_hold_is_an_end_too() -> None:
    hold = HoldState(granted("seat", "me", 7, 30.0, 0.0), "", True, 10.0, None, 0)
    assert drive(free(_Answers(None, False), hold, 9.0)) is True
    assert drive(free(_Answers(None, False), hold, 11.0)) is False


@pytest.mark.parametrize("answers", [(None, None, None), (Unavailable("gone"),), (None,)])
def test_what_was_not_confirmed_goes_on_in_the_background(
    answers: tuple[Exception | None, ...],
) -> None:
    """An Unavailable after a try without an answer proves nothing, and what goes on may happen."""
    hold = HoldState(granted("seat", "me", 7, 30.0, 0.0), "", True, None, None, 0)
    engine = _Answers(*answers)
    with pytest.raises(OutcomeUnknown, match="frees itself within 30 s"):
        drive(free(engine, hold))
    assert hold.owed
    assert [(owed.name, owed.what) for owed in engine.pending.owed()] == [("seat", "release")]
    engine.pending.stop()


def test_a_release_that_is_asked_again_settles_what_goes_on() -> None:
    hold = HoldState(granted("seat", "me", 7, 30.0, 0.0), "", True, None, None, 0)
    engine = _Answers(Unavailable("gone"))
    engine.pending.stop()  # nobody but the caller tries again
    with pytest.raises(OutcomeUnknown):
        drive(free(engine, hold))
    engine._answers = iter([True])
    assert drive(free(engine, hold)) is True
    assert not hold.owed
    assert engine.pending.owed() == ()


def test_a_refusal_that_asking_again_cannot_change_is_raised() -> None:
    hold = HoldState(granted("seat", "me", 7, 30.0, 0.0), "", True, None, None, 0)
    engine = _Answers(Misconfigured("no rights any more"))
    with pytest.raises(Misconfigured):
        drive(free(engine, hold))
    assert engine.pending.owed() == ()


def test_a_commit_that_did_not_happen_is_not_tried_again_behind_the_callers_back() -> None:
    hold = HoldState(granted("seat", "me", 7, 30.0, 0.0), "", True, None, None, 0)
    engine = _Answers(Unavailable("gone"), True, commits=True)
    with pytest.raises(Unavailable):
        drive(free(engine, hold))
    assert engine.pending.owed() == ()
