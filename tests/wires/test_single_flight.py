"""One call runs for all who need the same result at the same time."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Hashable

import pytest

from fencelock import Unavailable
from fencelock.wires.single_flight import SingleFlight, _Flight
from fencelock.wires.single_flight_aio import AioSingleFlight
from fencelock.worlds.aio import AioWorld
from fencelock.worlds.threads import ThreadsWorld, drive
from tests.faults.flavors import SOON

COUNT = 20


def test_tasks_have_it_done_once() -> None:
    async def main() -> None:
        flights, done, gate = SingleFlight(AioWorld()), list[int](), asyncio.Event()

        async def work() -> None:
            await gate.wait()
            done.append(1)

        tasks = [asyncio.create_task(flights.do("lease", work)) for _ in range(COUNT)]
        await asyncio.sleep(0)
        assert not any(task.done() for task in tasks)
        gate.set()
        await asyncio.wait_for(asyncio.gather(*tasks), SOON)
        assert len(done) == 1
        await flights.do("lease", work)
        assert len(done) == 2, "what is over is done anew"

    asyncio.run(main())


def test_different_things_do_not_wait_for_each_other() -> None:
    async def main() -> None:
        flights, gate = SingleFlight(AioWorld()), asyncio.Event()

        async def work() -> None: ...

        slow = asyncio.create_task(flights.do(1, gate.wait))
        await asyncio.sleep(0)
        await asyncio.wait_for(flights.do(2, work), SOON)
        gate.set()
        await slow

    asyncio.run(main())


def test_an_error_is_everybodys() -> None:
    """With a dead server nobody waits for the time of all others."""

    async def main() -> None:
        flights, tries, gate = SingleFlight(AioWorld()), list[int](), asyncio.Event()

        async def work() -> None:
            tries.append(1)
            await gate.wait()
            raise Unavailable("nobody answers")

        tasks = [asyncio.create_task(flights.do("lease", work)) for _ in range(COUNT)]
        await asyncio.sleep(0)
        gate.set()
        told = await asyncio.gather(*tasks, return_exceptions=True)
        assert len(tries) == 1
        assert {type(error) for error in told} == {Unavailable}
        assert {str(error) for error in told} == {"nobody answers"}
        assert len({id(error) for error in told}) == COUNT, "each has an error of its own"

    asyncio.run(main())


def test_who_is_cancelled_leaves_it_to_the_others() -> None:
    async def main() -> None:
        flights, gate = SingleFlight(AioWorld()), asyncio.Event()
        first = asyncio.create_task(flights.do("lease", gate.wait))
        await asyncio.sleep(0)
        others = [asyncio.create_task(flights.do("lease", gate.wait)) for _ in range(2)]
        await asyncio.sleep(0)
        others[0].cancel()
        first.cancel()
        await asyncio.wait_for(others[1], SOON)  # it looks, finds nothing, and tries again
        assert flights._flights == {}
        with pytest.raises(asyncio.CancelledError):
            await first

    asyncio.run(main())


def test_threads_have_it_done_once() -> None:
    flights, done, gate = SingleFlight(ThreadsWorld()), list[int](), threading.Event()

    async def work() -> None:
        assert gate.wait(SOON)
        done.append(1)

    threads = [
        threading.Thread(target=lambda: drive(flights.do("lease", work)), daemon=True)
        for _ in range(COUNT)
    ]
    for thread in threads:
        thread.start()
    while (flight := flights._flights["lease"]()) is None or len(flight.followers) < COUNT - 1:
        threading.Event().wait(0.01)
    del flight
    gate.set()
    for thread in threads:
        thread.join(SOON)
    assert not any(thread.is_alive() for thread in threads)
    assert len(done) == 1


def test_a_thread_that_is_interrupted_on_its_way_out_keeps_nobody_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    flights, begun, gate = SingleFlight(ThreadsWorld()), threading.Event(), threading.Event()
    end = flights._end

    async def wait() -> None:
        begun.set()
        assert gate.wait(SOON)

    def interrupted(key: Hashable, flight: _Flight) -> None:
        if threading.current_thread() is leader:
            raise KeyboardInterrupt
        end(key, flight)

    def leads() -> None:
        with pytest.raises(KeyboardInterrupt):
            drive(flights.do("lease", wait))

    async def work() -> None: ...

    monkeypatch.setattr(flights, "_end", interrupted)
    leader = threading.Thread(target=leads, daemon=True)
    leader.start()
    assert begun.wait(SOON)
    follower = threading.Thread(target=lambda: drive(flights.do("lease", work)), daemon=True)
    follower.start()
    while (flight := flights._flights["lease"]()) is not None and not flight.followers:
        threading.Event().wait(0.01)
    del flight
    gate.set()
    for thread in (leader, follower):
        thread.join(SOON)
        assert not thread.is_alive()
    drive(flights.do("lease", work))
    assert flights._flights == {}


def test_a_shared_task_goes_on_without_the_one_who_began_it() -> None:
    async def main() -> None:
        flights, gate = AioSingleFlight[int]("fencelock-test"), asyncio.Event()

        async def work() -> int:
            await gate.wait()
            return 7

        async def need_it() -> tuple[int, bool]:
            task, began = flights.join("server", work)
            await asyncio.wait((task,))
            return task.result(), began

        first = asyncio.create_task(need_it())
        await asyncio.sleep(0)
        second = asyncio.create_task(need_it())
        await asyncio.sleep(0)
        first.cancel()
        gate.set()
        assert await asyncio.wait_for(second, SOON) == (7, False)
        assert await need_it() == (7, True), "what is over is done anew"

    asyncio.run(main())


def test_shared_tasks_are_cancelled_together() -> None:
    async def main() -> None:
        flights, gate = AioSingleFlight[bool]("fencelock-test"), asyncio.Event()
        task, _ = flights.join("server", lambda: gate.wait())
        await asyncio.sleep(0)
        flights.cancel()
        await asyncio.wait_for(flights.join_all(), SOON)
        assert task.cancelled()
        assert flights._tasks == {}
        await flights.join_all()

    asyncio.run(main())


def test_an_error_that_nobody_waited_for_is_not_reported(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        flights = AioSingleFlight[None]("fencelock-test")

        async def work() -> None:
            raise Unavailable("nobody answers")

        task, _ = flights.join("server", work)
        await flights.join_all()
        del task

    asyncio.run(main())
    assert caplog.records == []
