"""A node whose word on an earlier attempt is outstanding does not count for its owner."""

from __future__ import annotations

from fencelock import OutcomeUnknown, Unavailable
from fencelock.engines.redis.doubts import OLD_S, SWEEP, Doubts
from fencelock.engines.redis.round import Round


def undo(*answers: object, kept_until: float = 10.0) -> Round:
    round = Round(len(answers), b"", lambda _: True, kept_until)
    round.answers = [*answers]
    return round


def test_nodes_that_have_not_answered_do_not_count() -> None:
    doubts = Doubts()
    doubts.add("me", undo(1, None, OutcomeUnknown("it broke"), Unavailable("not sent"), 0), 0.0)
    assert "me" in doubts
    assert doubts.places("me") == {1, 2}
    assert doubts.places("another") == set()


def test_a_late_answer_ends_the_doubt() -> None:
    doubts, late = Doubts(), undo(1, None, 0)
    doubts.add("me", late, 0.0)
    late.answer(1, 1)
    assert doubts.places("me") == set()
    doubts.add("me", undo(1, 1, 1), 0.0)
    assert "me" not in doubts


def test_a_later_answer_does_not_vouch_for_an_earlier_request() -> None:
    """The connection broke in between: what was sent on it may be served after all."""
    doubts = Doubts()
    doubts.add("me", undo(OutcomeUnknown("it broke"), 1, 1), 0.0)
    doubts.add("me", undo(1, 1, 1), 0.0)
    assert doubts.places("me") == {0}
    doubts.forget("me")
    assert "me" not in doubts


def test_doubts_that_are_over_are_forgotten() -> None:
    doubts = Doubts()
    for number in range(SWEEP):
        doubts.add(f"old {number}", undo(None, 1, 1), 0.0)
    now = 10.0 + OLD_S + 1
    doubts.add("new", undo(None, 1, 1, kept_until=now + 10), now)
    assert "old 0" not in doubts
    assert doubts.places("new") == {0}
