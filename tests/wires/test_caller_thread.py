"""A thread that calls a driver for all others."""

from __future__ import annotations

import threading
from functools import partial

from fencelock.wires.caller_thread import CallerThread
from fencelock.wires.thread_flag import ThreadFlag

LONG = 60.0


def test_it_runs_what_is_submitted_in_order_and_in_one_thread() -> None:
    caller, ran, ended = CallerThread("caller"), list[tuple[int, str]](), ThreadFlag()

    def run(number: int) -> None:
        ran.append((number, threading.current_thread().name))

    for number in range(100):
        caller.submit(partial(run, number))
    caller.submit(ended.set)
    assert ended.wait(LONG)
    assert ran == [(number, "caller") for number in range(100)]
    caller.end()


def test_what_fails_keeps_nothing_else_from_running() -> None:
    caller, ended = CallerThread("caller"), ThreadFlag()
    caller.submit(lambda: 1 / 0)
    caller.submit(ended.set)
    assert ended.wait(LONG)
    caller.end()


def test_the_last_is_run_after_the_others_and_nothing_after_it() -> None:
    caller, ran, ended = CallerThread("caller"), list[str](), ThreadFlag()
    caller.submit(lambda: ran.append("first"))

    def last() -> None:
        ran.append("last")
        ended.set()

    caller.end(last)
    caller.submit(lambda: ran.append("too late"))
    assert ended.wait(LONG)
    assert ran == ["first", "last"]


def test_one_that_never_began_starts_no_thread_to_end() -> None:
    before = threading.active_count()
    CallerThread("caller").end(lambda: 1 / 0)
    assert threading.active_count() == before
