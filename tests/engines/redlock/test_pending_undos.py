"""A node whose word on an earlier attempt is outstanding does not count for its owner."""

from __future__ import annotations

from fencelock import OutcomeUnknown, Unavailable
from fencelock.engines.redlock.fanout import Broadcast
from fencelock.engines.redlock.pending_undos import OLD_S, SWEEP, PendingUndos


def undo(*answers: object, kept_until: float = 10.0) -> Broadcast:
    sent = Broadcast(len(answers), b"", lambda _: True, kept_until)
    sent.answers = [*answers]
    return sent


def test_nodes_that_have_not_answered_do_not_count() -> None:
    undos = PendingUndos()
    undos.add("me", undo(1, None, OutcomeUnknown("it broke"), Unavailable("not sent"), 0), 0.0)
    assert "me" in undos
    assert undos.nodes("me") == {1, 2}
    assert undos.nodes("another") == set()


def test_a_late_answer_ends_the_doubt() -> None:
    undos, late = PendingUndos(), undo(1, None, 0)
    undos.add("me", late, 0.0)
    late.answer(1, 1)
    assert undos.nodes("me") == set()
    undos.add("me", undo(1, 1, 1), 0.0)
    assert "me" not in undos


def test_a_later_answer_does_not_vouch_for_an_earlier_request() -> None:
    """The connection broke in between: what was sent on it may be served after all."""
    undos = PendingUndos()
    undos.add("me", undo(OutcomeUnknown("it broke"), 1, 1), 0.0)
    undos.add("me", undo(1, 1, 1), 0.0)
    assert undos.nodes("me") == {0}
    undos.forget("me")
    assert "me" not in undos


def test_doubts_that_are_over_are_forgotten() -> None:
    undos = PendingUndos()
    for number in range(SWEEP):
        undos.add(f"old {number}", undo(None, 1, 1), 0.0)
    now = 10.0 + OLD_S + 1
    undos.add("new", undo(None, 1, 1, kept_until=now + 10), now)
    assert "old 0" not in undos
    assert undos.nodes("new") == {0}
