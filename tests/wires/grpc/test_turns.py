"""Threads that share a connection read for each other, and hand that on whatever happens."""

from __future__ import annotations

import threading
from functools import partial

import pytest

from fencelock.wires.grpc import client_threads
from fencelock.wires.grpc.client_threads import FrameSocket
from fencelock.wires.grpc.status import RpcError
from tests.faults.flavors import SOON
from tests.wires.grpc.callers import Callers
from tests.wires.grpc.peer import CALLS_MAX, HEADERS, answer
from tests.wires.grpc.script import Script
from tests.wires.grpc.server import GrpcServer


def test_all_threads_get_their_answers() -> None:
    def work(number: int) -> None:
        for count in range(50):
            message = b"%d of %d" % (count, number)
            assert callers.call("linger", message) == message

    with GrpcServer() as server:
        callers = Callers(server.address)
        jobs = [callers.run(partial(work, number)) for number in range(16)]
        for job in jobs:
            job.result(60)
        assert server.acted.total() == 16 * 50
        assert set(server.acted.values()) == {1}
        callers.client.close()


def test_whoever_has_its_answer_lets_another_read() -> None:
    with Script() as script:
        callers = Callers(script.address)
        side = script.accept()
        side.greet()
        first, second, third = callers.begin(side, SOON, SOON, SOON)
        for number, call in ((1, first), (3, second), (5, third)):
            side.says(answer(number, b"%d" % number))
            assert call.result(SOON) == b"%d" % number
        callers.client.close()


def test_the_one_who_reads_hears_for_all() -> None:
    with Script() as script:
        callers = Callers(script.address)
        side = script.accept()
        side.greet()
        first, second, third = callers.begin(side, SOON, SOON, SOON)
        side.says(answer(5, b"5"), answer(3, b"3"))
        assert (third.result(SOON), second.result(SOON)) == (b"5", b"3")
        side.says(answer(1, b"1"))
        assert first.result(SOON) == b"1"
        callers.client.close()


@pytest.mark.parametrize("others", [0, 1], ids=["who read from the first", "who read later"])
def test_whoever_reads_when_its_time_is_up_lets_another_read(others: int) -> None:
    with Script() as script:
        callers = Callers(script.address)
        side = script.accept()
        side.greet()
        *before, late, last = callers.begin(side, *[SOON] * others, 1.0, SOON)
        for number, call in enumerate(before):
            side.says(answer(2 * number + 1, b"first"))
            assert call.result(SOON) == b"first"
        with pytest.raises(RpcError, match="DEADLINE_EXCEEDED"):
            late.result(SOON)
        side.says(answer(2 * others + 3, b"last"))
        assert last.result(SOON) == b"last"
        callers.client.close()


def test_whoever_gives_up_as_its_turn_comes_lets_another_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first has its answer and wakes the second, which has just stopped waiting."""
    gave_up, told = threading.Event(), threading.Event()

    class Slow(FrameSocket):
        def cancel(self, call: object) -> None:
            gave_up.set()
            assert told.wait(SOON)
            super().cancel(call)  # type: ignore[arg-type]

    monkeypatch.setattr(client_threads, "FrameSocket", Slow)
    with Script() as script:
        callers = Callers(script.address)
        side = script.accept()
        side.greet()
        first, second, third = callers.begin(side, SOON, 1.0, SOON)
        assert gave_up.wait(SOON)
        side.says(answer(1, b"first"))
        assert first.result(SOON) == b"first"  # and the second was told to read
        told.set()
        with pytest.raises(RpcError, match="DEADLINE_EXCEEDED"):
            second.result(SOON)
        side.says(answer(5, b"third"))
        assert third.result(SOON) == b"third"
        callers.client.close()


def test_a_look_at_the_line_lets_another_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that begins while somebody looks whether the line is alive, and then goes away."""
    monkeypatch.setattr(client_threads, "FRESH_S", 0)
    with Script() as script:
        callers = Callers(script.address)
        side = script.accept()
        catch_up, looked, go_on = callers.client._catch_up, threading.Event(), threading.Event()

        def slow(flags: int) -> None:
            catch_up(flags)
            looked.set()
            assert go_on.wait(SOON)

        monkeypatch.setattr(callers.client, "_catch_up", slow)
        look = callers.run(callers.client.is_alive)
        assert looked.wait(SOON)
        call = callers.start("any")
        assert side.next(HEADERS).number == 1
        callers.until(lambda: callers.waiting() == 1)
        go_on.set()
        assert look.result(SOON)
        side.says(answer(1, b"answer"))
        assert call.result(SOON) == b"answer"
        callers.client.close()


def test_a_thread_that_waits_for_its_turn_is_among_those_who_read() -> None:
    """The server takes one call at a time, and the one that it took is given up."""
    with Script() as script:
        callers = Callers(script.address)
        side = script.accept()
        side.greet((CALLS_MAX, 1))
        first = callers.start("any")
        assert side.next(HEADERS).number == 1
        side.says(answer(1, b"first"))
        assert first.result(SOON) == b"first"
        late = callers.start("any", 0.5)
        assert side.next(HEADERS).number == 3
        last = callers.start("any")
        callers.until(lambda: callers.waiting() == 1)
        with pytest.raises(RpcError, match="DEADLINE_EXCEEDED"):
            late.result(SOON)
        assert side.next(HEADERS).number == 5
        side.says(answer(5, b"last"))
        assert last.result(SOON) == b"last"
        callers.client.close()
