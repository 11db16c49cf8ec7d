"""The world of threads: coroutines that never suspend, and what becomes of one that does."""

from __future__ import annotations

import asyncio
import inspect
import os
import subprocess
import sys
import threading
from collections.abc import Coroutine, Generator
from typing import Any

import pytest

from fencelock.worlds.threads import ThreadsWorld, drive


class Custom:
    """An awaitable of somebody else."""

    def __await__(self) -> Generator[str, None, None]:
        yield "a token of another framework"


async def answer(value: int) -> int:
    return value


async def outer(awaitable: Any) -> None:
    await inner(awaitable)


async def inner(awaitable: Any) -> None:
    await awaitable


def test_drive_runs_a_coroutine_that_never_suspends() -> None:
    async def work() -> int:
        return await answer(40) + await answer(2)

    assert drive(work()) == 42


def test_drive_passes_an_error_on() -> None:
    async def fail() -> None:
        raise KeyError("oh")

    with pytest.raises(KeyError, match="oh"):
        drive(fail())


@pytest.mark.parametrize(
    ("make", "chain", "awaited"),
    [
        (Custom, r"outer > inner > Custom\.__await__", "'a token of another framework'"),
        (lambda: asyncio.sleep(0), "outer > inner > sleep > .*sleep0", "None"),
        (asyncio.Future, "outer > inner > ", "<Future pending"),
    ],
)
def test_drive_names_what_suspended_and_who_awaited_it(make: Any, chain: str, awaited: str) -> None:
    loop = asyncio.new_event_loop()
    try:
        awaitable = make() if make is not asyncio.Future else loop.create_future()
        with pytest.raises(RuntimeError) as caught:
            drive(outer(awaitable))
    finally:
        loop.close()
    assert caught.match(f"^{chain}")
    assert f"suspended on {awaited}" in str(caught.value)
    assert "only the verbs of World may be awaited" in str(caught.value)


def test_drive_closes_the_coroutine_that_suspended() -> None:
    log: list[str] = []

    async def work() -> None:
        try:
            await Custom()
        finally:
            log.append("cleaned up")

    coroutine = work()
    with pytest.raises(RuntimeError, match="suspended on"):
        drive(coroutine)
    assert log == ["cleaned up"]
    assert inspect.getcoroutinestate(coroutine) == inspect.CORO_CLOSED


def test_drive_names_the_culprit_even_if_it_suspends_again_while_it_cleans_up() -> None:
    async def stubborn() -> None:
        try:
            await Custom()
        finally:
            await Custom()

    with pytest.raises(RuntimeError, match=r"stubborn > Custom.__await__ suspended on"):
        drive(stubborn())


def test_asyncio_in_protocol_code_fails_at_once() -> None:
    with pytest.raises(RuntimeError, match="no running event loop"):
        drive(outer(asyncio.sleep(1)))


def test_threads_differ_although_their_idents_are_used_again() -> None:
    world = ThreadsWorld()
    seen: list[tuple[int, object]] = []

    def look() -> None:
        seen.append((threading.get_ident(), world.who()))

    for _ in range(20):
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
    idents, whos = zip(*seen, strict=True)
    assert len(set(whos)) == 20
    if len(set(idents)) == 20:
        pytest.skip("this machine used no ident again")


def test_a_thread_that_cannot_be_had_leaks_no_coroutine(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    async def work() -> None:
        """Never runs."""

    coroutine: Coroutine[Any, Any, None] = work()
    monkeypatch.setattr("_thread.start_new_thread", refuse)
    with pytest.raises(RuntimeError, match="can't start new thread"):
        ThreadsWorld().spawn(coroutine, "job")
    assert inspect.getcoroutinestate(coroutine) == inspect.CORO_CLOSED


def test_a_job_whose_named_thread_cannot_be_had_runs_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The main thread has another start it, which may be the last that could be had."""

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    done = threading.Event()

    async def work() -> None:
        done.set()

    monkeypatch.setattr(threading.Thread, "start", refuse)
    job = ThreadsWorld().spawn(work(), "job")
    assert done.wait(10)
    assert drive(job.join(None))


def test_facts_name_the_thread() -> None:
    facts: list[dict[str, object]] = []
    world = ThreadsWorld()
    thread = threading.Thread(target=lambda: facts.append(dict(world.facts())), name="teller-7")
    thread.start()
    thread.join()
    assert facts[0]["thread"] == "teller-7"
    assert facts[0]["pid"] == os.getpid()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_forked_child_is_another_generation() -> None:
    code = """
import os
from fencelock.worlds.threads import ThreadsWorld
world = ThreadsWorld()
before = world.generation()
child = os.fork()
if child == 0:
    grandchild = os.fork()
    if grandchild == 0:
        os._exit(world.generation() - before)
    _, status = os.waitpid(grandchild, 0)
    os._exit(10 * (world.generation() - before) + os.waitstatus_to_exitcode(status))
_, status = os.waitpid(child, 0)
print(world.generation() - before, os.waitstatus_to_exitcode(status))
"""
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True
    )
    assert run.stdout.split() == ["0", "12"], "the parent, its child and its grandchild all differ"


def test_a_signal_wakes_all_who_wait_however_often_it_is_set() -> None:
    world = ThreadsWorld()
    signal, woken = world.signal(), threading.Semaphore(0)

    def wait() -> None:
        for _ in range(2):
            if drive(world.wait(signal, world.now() + 30.0)):
                woken.release()
            again.wait(30.0)

    again = threading.Barrier(9)
    threads = [threading.Thread(target=wait, daemon=True) for _ in range(8)]
    for thread in threads:
        thread.start()
    for _ in range(2):
        setters = [threading.Thread(target=signal.set) for _ in range(4)]
        for setter in setters:
            setter.start()
        for setter in setters:
            setter.join()
        assert all(woken.acquire(timeout=30.0) for _ in threads)
        signal.clear()
        again.wait(30.0)
    for thread in threads:
        thread.join(30.0)


def test_a_signal_that_is_not_set_lets_go_when_time_is_up() -> None:
    world = ThreadsWorld()
    signal = world.signal()
    assert drive(world.wait(signal, world.now())) is False
    signal.set()
    assert drive(world.wait(signal, world.now() - 1.0)) is True
    signal.clear()
    assert drive(world.wait(signal, world.now() + 0.001)) is False
