"""What every world promises, in all three of them: threads, asyncio, simulated."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeVar

import pytest

from fencelock.sim.world import Simulation
from fencelock.world import World, sleep
from fencelock.worlds.aio import AioWorld
from fencelock.worlds.threads import ThreadsWorld, drive

T = TypeVar("T")
Play = Callable[[Callable[[World], Coroutine[Any, Any, T]]], T]

SOON, NEVER = 0.02, 60.0


def in_threads(work: Callable[[World], Coroutine[Any, Any, T]]) -> T:
    return drive(work(ThreadsWorld()))


def in_asyncio(work: Callable[[World], Coroutine[Any, Any, T]]) -> T:
    async def main() -> T:
        return await work(AioWorld())

    return asyncio.run(main())


def in_simulation(work: Callable[[World], Coroutine[Any, Any, T]]) -> T:
    with Simulation(0) as simulation:
        world = simulation.world("one")
        return simulation.play(work(world), world)


@pytest.fixture(params=[in_threads, in_asyncio, in_simulation], ids=lambda play: play.__name__)
def play(request: pytest.FixtureRequest) -> Play[Any]:
    chosen: Play[Any] = request.param
    return chosen


def test_a_wait_hears_the_flag(play: Play[bool]) -> None:
    async def work(world: World) -> bool:
        signal = world.signal()

        async def set_later() -> None:
            await sleep(world, SOON)
            signal.set()

        job = world.spawn(set_later(), "setter")
        assert await world.wait(signal, None)
        assert await world.wait(signal, world.now() - 1), "a flag that is set beats the deadline"
        signal.clear()
        assert not signal.is_set()
        return await job.join(None)

    assert play(work)


def test_a_wait_ends_at_its_deadline(play: Play[None]) -> None:
    async def work(world: World) -> None:
        began = world.now()
        assert not await world.wait(world.signal(), began + SOON)
        assert world.now() >= began + SOON
        assert not await world.wait(world.signal(), began)

    play(work)


def test_gather_makes_all_calls_at_once_and_keeps_their_order(play: Play[None]) -> None:
    async def work(world: World) -> None:
        first_may_end, log = world.signal(), list[str]()

        async def first() -> str:
            await world.wait(first_may_end, None)
            log.append("first")
            return "a"

        async def second() -> str:
            log.append("second")
            first_may_end.set()
            return "b"

        assert await world.gather([first, second], world.now() + NEVER) == ["a", "b"]
        assert log == ["second", "first"]
        assert await world.gather([], world.now() + NEVER) == []

    play(work)


def test_gather_takes_an_exception_for_an_answer(play: Play[None]) -> None:
    async def work(world: World) -> None:
        async def fail() -> str:
            raise ConnectionError("gone")

        async def answer() -> str:
            return "here"

        answers = await world.gather([fail, answer], world.now() + NEVER)
        assert isinstance(answers[0], ConnectionError)
        assert answers[1] == "here"

    play(work)


def test_gather_does_not_wait_beyond_its_deadline(play: Play[None]) -> None:
    async def work(world: World) -> None:
        gate, ended = world.signal(), world.signal()

        async def quick() -> str:
            return "here"

        async def slow() -> str:
            await world.wait(gate, world.now() + NEVER)
            ended.set()
            return "late"

        thunks: list[Callable[[], Awaitable[str]]] = [quick, slow]
        answers = await world.gather(thunks, world.now() + SOON * 10)
        assert answers == ["here", None]
        gate.set()
        assert await world.wait(ended, world.now() + NEVER), "the slow call goes on by itself"
        assert answers == ["here", None], "what was returned does not change any more"

    play(work)


def test_gather_ends_when_it_is_enough(play: Play[None]) -> None:
    async def work(world: World) -> None:
        gate = world.signal()
        seen: list[list[int | Exception | None]] = []

        async def node(number: int) -> int:
            if number > 1:
                await world.wait(gate, world.now() + NEVER)
            return number

        def majority(answers: Sequence[int | Exception | None]) -> bool:
            seen.append(list(answers))
            return sum(answer is not None for answer in answers) >= 2

        thunks = [lambda number=number: node(number) for number in range(3)]
        assert await world.gather(thunks, world.now() + NEVER, majority) == [0, 1, None]
        assert all(any(answer is not None for answer in answers) for answers in seen)
        gate.set()

    play(work)


@pytest.mark.parametrize("plain", [False, True])
def test_a_shield_passes_results_and_errors_on(play: Play[None], plain: bool) -> None:
    async def work(world: World) -> None:
        async def answer() -> int:
            await sleep(world, 0.001)
            return 42

        async def fail() -> int:
            raise KeyError("oh")

        assert await world.shield(answer(), plain) == 42
        with pytest.raises(KeyError, match="oh"):
            await world.shield(fail(), plain)

    play(work)


def test_join_waits_for_the_end_of_a_job_or_for_its_deadline(play: Play[None]) -> None:
    async def work(world: World) -> None:
        gate, log = world.signal(), list[str]()

        async def job() -> None:
            await world.wait(gate, None)
            log.append("done")

        running = world.spawn(job(), "job")
        assert not await running.join(world.now() + SOON)
        assert not await running.join(world.now() - 1)
        gate.set()
        assert await running.join(world.now() + NEVER)
        assert log == ["done"]
        assert await running.join(None)

    play(work)


def test_a_job_that_joins_itself_is_not_stuck(play: Play[None]) -> None:
    async def work(world: World) -> None:
        ready, answers = world.signal(), list[bool]()

        async def job() -> None:
            await world.wait(ready, None)
            answers.append(await running.join(None))

        running = world.spawn(job(), "job")
        ready.set()
        assert await running.join(world.now() + NEVER)
        assert answers == [False]

    play(work)


def test_who_is_the_same_for_one_and_different_for_two(play: Play[None]) -> None:
    async def work(world: World) -> None:
        seen: list[object] = [world.who(), world.who()]

        async def other() -> None:
            seen.append(world.who())

        for _ in range(2):  # one after the other: an address or an ident may be used again
            assert await world.spawn(other(), "other").join(world.now() + NEVER)
        assert seen[0] == seen[1]
        assert len(set(seen)) == 3

    play(work)


def test_an_adopted_client_answers_and_fails_as_the_plain_one(play: Play[None]) -> None:
    async def work(world: World) -> None:
        client = world.adopt("driver")
        assert await client(divmod, 7, 2) == (3, 1)
        assert await client(sorted, [2, 3, 1], reverse=True) == [3, 2, 1]
        with pytest.raises(ZeroDivisionError):
            await client(divmod, 1, 0)
        await client.close()

    play(work)


def test_owners_are_new_and_chance_is_below_one(play: Play[None]) -> None:
    async def work(world: World) -> None:
        owners = {world.owner() for _ in range(1000)}
        assert len(owners) == 1000
        assert all(len(owner) == 32 and int(owner, 16) >= 0 for owner in owners)
        numbers = [world.random() for _ in range(1000)]
        assert all(0 <= number < 1 for number in numbers)
        assert len(set(numbers)) > 990
        assert set(world.facts()) >= {"host", "pid"}
        assert world.wall_us() > 1_600_000_000 * 10**6

    play(work)
