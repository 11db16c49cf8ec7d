"""What the clients work on: a lost update is counted, and an old fence is refused."""

from __future__ import annotations

from fencelock.judge import History, Promises, verdict
from fencelock.judge.torture.counters import SharedCounters


def test_an_unguarded_register_loses_what_a_late_writer_did_not_see() -> None:
    counters = SharedCounters(lambda: 1.0)
    assert counters.do("a", 0.0, "read", "n", None, None) == (True, 0)
    for value in range(3):  # b does its work three times while a is frozen
        counters.do("b", 0.0, "write", "n", None, value)
    assert counters.do("a", 0.0, "write", "n", None, 0) == (True, 1)
    plain = counters.plain["n"]
    assert (plain.writes, plain.lost, plain.value) == (4, 3, 1)
    assert [(loss.client, loss.detail) for loss in counters.losses] == [
        ("a", "3 updates of others are lost")
    ]
    assert counters.events == [], "only the guarded one is judged"


def test_a_guarded_register_refuses_an_old_fence_even_for_a_read() -> None:
    counters = SharedCounters(lambda: 1.0)
    assert counters.do("a", 0.0, "read", "n", 7, None).accepted
    assert counters.do("b", 0.0, "read", "n", 8, None).accepted
    assert not counters.do("a", 0.0, "write", "n", 7, 0).accepted
    assert not counters.do("a", 0.0, "read", "n", 7, None).accepted
    assert counters.do("b", 0.0, "write", "n", 8, 0) == (True, 1)
    guarded = counters.guarded["n"]
    assert (guarded.writes, guarded.lost, guarded.refused) == (1, 0, 2)


def test_a_reader_may_be_older_than_a_reader_and_not_than_a_writer() -> None:
    counters = SharedCounters(lambda: 1.0)

    def do(fence: int, role: str) -> bool:
        return counters.do("a", 0.0, "read", "n", fence, None, role).accepted

    assert do(5, "write")
    assert do(8, "read")
    assert do(7, "read")
    assert not do(4, "read"), "below whoever may have written"
    assert not do(7, "write"), "below a reader"
    assert do(9, "write")
    assert not do(8, "read")
    assert [event.role for event in counters.events[::2]] == [
        "write", "read", "read", "read", "write", "write", "read",
    ]  # fmt: skip


def test_the_judge_understands_what_the_registers_record() -> None:
    """The same late write, accepted by a guard that is broken, is found in the record."""
    moments = iter(range(1, 100))
    counters = SharedCounters(lambda: float(next(moments)))

    def late_write() -> None:
        for client, fence, seen in (("a", 7, None), ("b", 8, None), ("b", 8, 0), ("a", 7, 0)):
            counters.do(client, 1e9, "read" if seen is None else "write", "n", fence, seen)

    def found() -> set[str]:
        history = History.merged([History(counters.events)])
        return {one.checker for one in verdict(history, Promises()).violations}

    late_write()
    assert found() == set()
    counters.guarded["n"]._admits = lambda fence, reading=False: True  # type: ignore[method-assign]
    counters.guarded["n"].value = 0
    counters.events.clear()
    late_write()
    assert found() == {"no_lost_update", "nothing_stale"}
