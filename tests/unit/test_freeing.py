"""Giving a lock back when the first answer is lost: what the second one means."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fencelock import OutcomeUnknown, Unavailable
from fencelock.engines.memory import MemoryEngine
from fencelock.logic.freeing import free, free_again
from fencelock.logic.tenure import Tenure
from fencelock.model import Grant, granted
from fencelock.worlds.threads import drive


class _Answers(MemoryEngine):
    """Gives its answers to a release one after the other; None is one that is lost."""

    def __init__(self, *answers: bool | None) -> None:
        self._answers: Iterator[bool | None] = iter(answers)

    async def release(self, grant: Grant) -> bool:
        answer = next(self._answers)
        if answer is None:
            raise OutcomeUnknown("no answer")
        return answer


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
    tenure = Tenure(granted("seat", "me", 7, 30.0, 0.0), "", True, None, None, 0)
    assert drive(free(_Answers(*answers), tenure, began)) is freed


def test_the_end_of_a_limited_hold_is_an_end_too() -> None:
    tenure = Tenure(granted("seat", "me", 7, 30.0, 0.0), "", True, 10.0, None, 0)
    assert drive(free(_Answers(None, False), tenure, 9.0)) is True
    assert drive(free(_Answers(None, False), tenure, 11.0)) is False


def test_what_was_not_freed_is_owed_until_it_is() -> None:
    tenure = Tenure(granted("seat", "me", 7, 30.0, 0.0), "", True, None, None, 0)
    with pytest.raises(Unavailable):  # nothing happened: that is the caller's to know
        drive(free_again(_Answers(True), tenure, 5.0, Unavailable("no way to it")))
    assert tenure.owed
    with pytest.raises(OutcomeUnknown, match="frees itself within 30 s"):
        drive(free(_Answers(None, None, None), tenure, 5.0))
    assert tenure.owed
    assert drive(free(_Answers(True), tenure, 5.0)) is True
    assert not tenure.owed
