"""Ctrl-C strikes a thread that shares its connection; and what is left when all is closed."""

from __future__ import annotations

import gc
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial

import pytest

from fencelock.wires.grpc.client_threads import FrameSocket
from fencelock.wires.grpc.status import RpcError
from tests.faults.flavors import SOON, Lab, run
from tests.wires.grpc.callers import Callers
from tests.wires.grpc.connections import connection_to
from tests.wires.grpc.peer import DATA, HEADERS, answer, settings
from tests.wires.grpc.script import Script
from tests.wires.grpc.server import GrpcServer


def _strike(when: Callable[[], None]) -> Future[None]:
    """Send Ctrl-C to this thread, the main one, once something holds."""
    main = threading.get_ident()

    def strike() -> None:
        when()
        signal.pthread_kill(main, signal.SIGINT)

    return Callers.run(strike)


def _ended_but_not_unsent(call: Future[bytes]) -> None:
    with pytest.raises(RpcError) as refused:
        call.result(SOON)
    assert (refused.value.code, refused.value.unsent) == ("UNAVAILABLE", False)


def _interrupted(*_: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("where", ["before it hears", "after it heard"])
def test_a_reader_that_is_interrupted_ends_the_line(
    where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Something may have been read and not been heard, so that no frame after it can be."""
    with Script() as script:
        callers = Callers(script.address)
        side = script.accept()
        calls = callers.begin(side, SOON, SOON, SOON)
        received = callers.client._socket.received

        def interrupted(data: bytes) -> None:
            if where == "after it heard":
                received(data)
            raise KeyboardInterrupt

        monkeypatch.setattr(callers.client._socket, "received", interrupted)
        side.says(settings())
        with pytest.raises(KeyboardInterrupt):
            calls[0].result(SOON)
        for call in calls[1:]:
            _ended_but_not_unsent(call)
        assert not callers.client.is_alive()
        side.until_closed()


def test_ctrl_c_in_the_thread_that_reads_ends_the_line() -> None:
    with Script() as script:
        callers = Callers(script.address)
        side = script.accept()

        def when() -> None:
            side.next(HEADERS)
            callers.until(lambda: callers.client._reader)
            others.append(callers.start("any"))
            callers.until(lambda: callers.waiting() == 1)

        others: list[Future[bytes]] = []
        strike = _strike(when)
        with pytest.raises(KeyboardInterrupt):
            callers.call("any")
            strike.result(SOON)
        strike.result(SOON)
        _ended_but_not_unsent(others[0])
        assert not callers.client.is_alive()
        side.until_closed()


def test_ctrl_c_in_a_thread_that_waits_is_no_matter_for_others() -> None:
    with Script() as script:
        callers = Callers(script.address)
        side = script.accept()
        (other,) = callers.begin(side, SOON)
        strike = _strike(partial(callers.until, lambda: callers.waiting() == 1))
        with pytest.raises(KeyboardInterrupt):
            callers.call("any")
            strike.result(SOON)
        strike.result(SOON)
        side.says(answer(3, b"nobody waits for it"), answer(1, b"answer"))
        assert other.result(SOON) == b"answer"
        late = callers.start("any")
        while (number := side.next(DATA).number) != 5:
            assert number < 5
        side.says(answer(5, b"late"))
        assert late.result(SOON) == b"late"
        callers.client.close()


@pytest.mark.parametrize("times", ["once", "twice"])
def test_whoever_is_interrupted_as_it_sends_ends_the_line(
    times: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody knows how much of a frame was sent, so no other may follow."""
    with Script() as script:
        callers = Callers(script.address)
        side = script.accept()
        (other,) = callers.begin(side, SOON)

        with monkeypatch.context() as patch:
            patch.setattr(FrameSocket, "_flush", _interrupted)
            if times == "twice":
                patch.setattr(FrameSocket, "_break", _interrupted)
            with pytest.raises(KeyboardInterrupt):
                callers.call("any")
        with pytest.raises(RpcError) as late:
            callers.call("any")
        assert late.value.unsent
        _ended_but_not_unsent(other)
        assert not callers.client.is_alive()
        side.until_closed()
        callers.client.close()


def test_a_turn_that_was_not_given_back_ends_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that reads is interrupted, and then on its way out; its traceback is kept."""
    with Script() as script:
        callers = Callers(script.address)
        side = script.accept()
        first, second = callers.begin(side, SOON, SOON)
        monkeypatch.setattr(callers.client, "_give_turn_back", _interrupted)
        side.says(answer(1, b"first"))
        with pytest.raises(KeyboardInterrupt):
            first.result(SOON)
        _ended_but_not_unsent(second)
        monkeypatch.undo()
        assert not callers.client.is_alive()
        side.until_closed()


def test_a_turn_that_was_not_given_back_is_seen_before_a_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with Script() as script:
        callers = Callers(script.address)
        side = script.accept()
        (call,) = callers.begin(side, SOON)
        with monkeypatch.context() as patch:
            patch.setattr(callers.client, "_give_turn_back", _interrupted)
            side.says(answer(1, b"answer"))
            with pytest.raises(KeyboardInterrupt):
                call.result(SOON)
        assert not callers.client.is_alive()
        side.until_closed()


def test_who_was_not_woken_reads_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    with Script() as script:
        callers = Callers(script.address)
        side = script.accept()
        first, second = callers.begin(side, SOON, SOON)
        monkeypatch.setattr(callers.client, "_appoint", _interrupted)
        side.says(answer(1, b"first"))
        with pytest.raises(KeyboardInterrupt):
            first.result(SOON)
        monkeypatch.undo()
        side.says(answer(3, b"second"))
        assert second.result(SOON) == b"second"
        callers.client.close()


def _sockets() -> int:
    """How many sockets this process has open."""
    count = 0
    for number in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # the folder itself was among them
            count += os.readlink(f"/proc/self/fd/{number}").startswith("socket:")
    return count


def _threads() -> int:
    return sum("fencelock" in thread.name for thread in threading.enumerate())


@pytest.mark.parametrize("end", ["closed", "stopped"])
def test_nothing_is_left_when_all_is_closed(flavor: str, end: str) -> None:
    async def scenario(lab: Lab) -> None:
        async with connection_to(lab, server.address) as connection:
            ends: list[int] = []
            streams = [
                connection.stream("flow", lambda _: None, lambda: ends.append(1)) for _ in range(3)
            ]
            for stream in streams:
                stream.send(b"hello")
            jobs = [lab.start(connection.call("linger", b"%d" % number)) for number in range(20)]
            for job in jobs:
                await job.result()
            if end == "stopped":
                server.stop()
            else:
                for stream in streams:
                    stream.close()
            await lab.until(lambda: len(ends) == 3)
        await lab.until(lambda: _threads() == threads)

    with GrpcServer() as server:
        sockets, threads = _sockets(), _threads()
        run(flavor, scenario)
        Callers.until(lambda: _sockets() <= sockets)
        gc.collect()  # a connection that was left open would be an error here
