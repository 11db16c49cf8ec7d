"""A process that is frozen inside a transaction keeps nobody longer than they are ready to wait."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from fencelock import Unavailable
from fencelock.engine import Engine
from fencelock.model import Busy, Grant, Request
from fencelock.worlds.aio import AioWorld
from fencelock.worlds.threads import ThreadsWorld, drive
from tests.engines.sqlite.stage import SOON, frozen_in_a_transaction, opened

TTL = 600.0
LIMIT_S = 0.5
SLACK_S = 20.0  # for a machine that has much else to do; without the limit it would be 60

CALLS: dict[str, Callable[[Engine, Grant], Coroutine[Any, Any, object]]] = {
    "acquire": lambda engine, held: engine.acquire(Request("seat", "new", TTL)),
    "queue": lambda engine, held: engine.acquire(Request("held", "new", TTL, queue=True)),
    "renew": lambda engine, held: engine.renew([held]),
    "release": lambda engine, held: engine.release(held),
    "withdraw": lambda engine, held: engine.withdraw(Request("held", held.owner, TTL)),
    "revoke": lambda engine, held: engine.revoke("held", "because"),
    "inspect": lambda engine, held: engine.inspect("held"),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_thread_gives_up_a_busy_file_at_its_limit(call: str, tmp_path: Path) -> None:
    """H81: H71: nothing has happened, says the error, and nothing has."""
    path, world = tmp_path / "locks.db", ThreadsWorld()
    engine = drive(opened(world, path, request_timeout=60))
    held = drive(engine.acquire(Request("held", world.owner(), TTL)))
    assert isinstance(held, Grant)
    with frozen_in_a_transaction(path):
        began = world.now()
        with pytest.raises(Unavailable, match="nothing happened") as caught:
            with world.until(began + LIMIT_S):
                drive(CALLS[call](engine, held))
        assert world.now() < began + LIMIT_S + SLACK_S
        assert not caught.value.may_have_happened
    assert drive(engine.release(held)) is True
    drive(engine.close())


def test_a_thread_gives_up_its_turn_at_its_limit(tmp_path: Path) -> None:
    """H71: it waits for another thread of its client no longer than for another process."""
    path, world = tmp_path / "locks.db", ThreadsWorld()
    engine = drive(opened(world, path, request_timeout=60))
    inside, leave = threading.Event(), threading.Event()

    def slow(now: float) -> None:
        inside.set()
        leave.wait(SOON)

    database = engine._database  # type: ignore[attr-defined]
    thread = threading.Thread(target=database.transaction, args=(world.now(), slow))
    thread.start()
    assert inside.wait(SOON)
    began = world.now()
    with pytest.raises(Unavailable, match="other threads of this client"):
        with world.until(began + LIMIT_S):
            drive(engine.acquire(Request("seat", world.owner(), TTL)))
    assert world.now() < began + LIMIT_S + SLACK_S
    leave.set()
    thread.join(SOON)
    assert isinstance(drive(engine.acquire(Request("seat", world.owner(), TTL))), Grant)
    drive(engine.close())


def test_connecting_to_a_busy_file_ends_at_the_limit(tmp_path: Path) -> None:
    """H71: a forked child that connects anew, for one, does so within a caller's timeout."""
    path, world = tmp_path / "locks.db", ThreadsWorld()
    drive(drive(opened(world, path)).close())
    with frozen_in_a_transaction(path):
        began = world.now()
        with pytest.raises(Unavailable, match="nothing happened"):
            with world.until(began + LIMIT_S):
                drive(opened(world, path, request_timeout=60))
        assert world.now() < began + LIMIT_S + SLACK_S


def test_tasks_that_gave_up_keep_later_ones_from_nothing(tmp_path: Path) -> None:
    """H71: their calls end by themselves, those that take them back come after them."""
    path = tmp_path / "locks.db"

    async def main() -> None:
        world = AioWorld()
        engine = await opened(world, path, request_timeout=60)
        with frozen_in_a_transaction(path) as end:
            requests = [Request("seat", world.owner(), TTL) for _ in range(10)]
            for request in requests:
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(engine.acquire(request), 0.02)
            end()
            for request in requests:
                await asyncio.wait_for(engine.withdraw(request), SOON)
        grant = await engine.acquire(Request("seat", world.owner(), TTL))
        assert not isinstance(grant, Busy)
        await engine.close()

    asyncio.run(main())
