"""A client that is declared where a module is imported opens itself on first use."""

from __future__ import annotations

import asyncio
import copy
import os
import pickle
import threading
from pathlib import Path

import pytest

import fencelock
from fencelock import Misconfigured, Unavailable, UsageError, aio
from fencelock.engines.memory import MemoryEngine

HERE = aio.connect("memory://declared-at-import")
PLAIN = fencelock.connect("memory://declared-at-import-too")


@HERE.locked("seat:{number}")
async def book(number: int) -> list[str]:
    return [holding.name for holding in await HERE.holders(f"seat:{number}")]


@PLAIN.locked("seat:{number}")
def book_plainly(number: int) -> list[str]:
    return [holding.name for holding in PLAIN.holders(f"seat:{number}")]


def test_a_function_decorated_at_import_runs_under_its_lock_in_every_loop() -> None:
    """Each ``asyncio.run`` has a loop of its own, and so connections of its own."""
    for _ in range(3):
        assert asyncio.run(book(7)) == ["seat:7"]
    assert book_plainly(7) == ["seat:7"]


def test_loops_of_several_threads_share_a_client(tmp_path: Path) -> None:
    client = aio.connect(f"sqlite:///{tmp_path}/locks.db")
    most, inside, fences = [0], [0], list[int]()

    async def work() -> None:
        for _ in range(20):
            async with client.lock("seat", timeout=30) as lease:
                inside[0] += 1
                most[0] = max(most[0], inside[0])
                fences.append(lease.fence)
                await asyncio.sleep(0.001)
                inside[0] -= 1

    threads = [threading.Thread(target=asyncio.run, args=(work(),)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert most == [1]
    assert len(fences) == 60 == len(set(fences))
    asyncio.run(client.close())


def test_nothing_is_opened_before_the_first_use(tmp_path: Path) -> None:
    path = tmp_path / "locks.db"
    client = fencelock.connect(f"sqlite:///{path}")
    lock = client.lock("seat")
    assert not path.exists()
    lock.acquire().release()
    assert path.exists()
    client.close()


def test_a_client_that_nobody_used_closes_without_a_word(tmp_path: Path) -> None:
    client = fencelock.connect(f"sqlite:///{tmp_path}/no/locks.db")
    client.close()
    with pytest.raises(UsageError, match="closed"):
        client.lock("seat").acquire()
    other = aio.connect(f"sqlite:///{tmp_path}/no/locks.db")
    asyncio.run(other.close())
    with pytest.raises(UsageError, match="closed"):
        asyncio.run(other.holders("seat"))


def test_whoever_comes_while_another_opens_waits_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    opened, go_on = list[int](), threading.Event()

    async def slow(self: MemoryEngine) -> None:
        opened.append(1)
        go_on.wait(30)

    monkeypatch.setattr(MemoryEngine, "open", slow)
    client, names = fencelock.connect("memory://slow"), list[str]()

    def use(name: str) -> None:
        with client.lock(name) as lease:
            names.append(lease.name)

    threads = [threading.Thread(target=use, args=(f"seat-{n}",)) for n in range(5)]
    for thread in threads:
        thread.start()
    go_on.set()
    for thread in threads:
        thread.join(30)
    assert opened == [1]
    assert len(names) == 5
    client.close()


def test_an_engine_that_could_not_be_reached_is_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client = fencelock.connect("memory://moody")

    async def refuse(self: MemoryEngine) -> None:
        raise Unavailable("not now")

    with monkeypatch.context() as patch:
        patch.setattr(MemoryEngine, "open", refuse)
        for _ in range(2):
            with pytest.raises(Unavailable, match="not now"):
                client.lock("seat").acquire()
    with client.lock("seat") as lease:
        assert lease
    client.close()


def test_entering_a_client_reaches_its_engine(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured), fencelock.connect(f"sqlite:///{tmp_path}/no/locks.db"):
        pytest.fail("there is no such folder")

    async def main() -> None:
        with pytest.raises(Misconfigured):
            async with aio.connect(f"sqlite:///{tmp_path}/no/locks.db"):
                pytest.fail("there is no such folder")
        with pytest.raises(Misconfigured):
            _ = await aio.connect(f"sqlite:///{tmp_path}/no/locks.db")

    asyncio.run(main())


def test_an_asyncio_client_outside_a_loop_says_what_to_do() -> None:
    client = aio.connect("memory://")
    assert client.url == "memory://"
    assert client.traits.safety == "correctness"
    assert client.owed == ()
    with pytest.raises(UsageError, match="running event loop"):
        client.lock("seat").acquire().send(None)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_child_of_a_program_that_declared_a_client_has_its_own(tmp_path: Path) -> None:
    client = fencelock.connect(f"sqlite:///{tmp_path}/locks.db")
    lease = client.lock("seat", ttl=60).acquire()
    child = os.fork()
    if not child:
        try:
            busy = client.lock("seat").try_acquire() is None
            with client.lock("other"):
                os._exit(0 if busy and not lease else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert lease.release() is True
    client.close()


@pytest.mark.parametrize("make", [fencelock.connect, aio.connect])
def test_clients_and_locks_are_neither_copied_nor_pickled(make: object) -> None:
    client = make("memory://")  # type: ignore[operator]
    for thing in (client, client.lock("seat")):
        for attempt in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match="cannot be copied or pickled"):
                attempt(thing)
