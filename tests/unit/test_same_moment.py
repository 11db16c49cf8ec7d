"""What another thread does in the midst of a call, at the moments at which it did harm."""

from __future__ import annotations

import asyncio
import sys
import weakref
from pathlib import Path
from types import FrameType
from typing import Any

from fencelock import aio
from fencelock._client.acquire import Waitlist
from fencelock._client.events import Attempt
from fencelock.engines.sqlite.wire.database import Database
from fencelock.model import Request
from fencelock.worlds import clock


def test_a_file_is_opened_while_others_are_declared_at_every_moment(tmp_path: Path) -> None:
    def declare() -> Database:
        return Database(str(tmp_path / "locks.db"), 5.0, clock.now, lambda: float("inf"))

    others = [declare() for _ in range(3)]

    def step(frame: FrameType, event: str, _: Any) -> Any:
        others.append(declare())
        return step

    database = declare()
    before = sys.gettrace()
    sys.settrace(step)
    try:
        database.open()
    finally:
        sys.settrace(before)
    assert len(others) > 10
    database.close()


class Undos:
    """Takes attempts back, and meanwhile another thread does so, too."""

    def __init__(self, waitlist: Waitlist) -> None:
        self._waitlist = waitlist
        self.taken_back: list[str] = []

    def go_on(self) -> None:
        pass

    def withdraw_later(self, request: Request) -> None:
        self.taken_back.append(request.owner)
        if len(self.taken_back) == 1:
            self._waitlist.adopt(self)  # type: ignore[arg-type]
            die(self._waitlist, "third")


def die(waitlist: Waitlist, owner: str) -> None:
    """List an attempt whose call has ended."""
    attempt = Attempt()
    request = Request("seat", owner, 60.0)
    waitlist.attempts[owner] = (request, weakref.ref(attempt, waitlist.gone.append))


def test_two_threads_take_back_the_same_attempts_and_none_that_comes_meanwhile_is_left() -> None:
    waitlist = Waitlist()
    undos = Undos(waitlist)
    die(waitlist, "first")
    die(waitlist, "second")
    waitlist.adopt(undos)  # type: ignore[arg-type]
    assert {"first", "second"} <= set(undos.taken_back)
    assert waitlist.gone
    waitlist.adopt(undos)  # type: ignore[arg-type]
    assert set(undos.taken_back) == {"first", "second", "third"}
    assert not waitlist.gone
    assert not waitlist.attempts


def test_two_loops_abandon_what_was_left_in_the_same_closed_loop() -> None:
    client = aio.connect("memory://loops")
    cores: Any = client._cores

    async def use() -> Any:
        async with client.lock("seat", ttl=60):
            return cores.here()

    closed = []
    for _ in range(2):
        loop = asyncio.new_event_loop()
        core = cores._cores[loop] = loop.run_until_complete(other_core(client))
        loop.close()
        closed.append((loop, core))
    (_, first), (second, _) = closed
    abandon_all = first.abandon_all

    def meanwhile() -> None:
        abandon_all()
        cores._cores.pop(second, None)

    first.abandon_all = meanwhile
    asyncio.run(use())
    assert not [loop for loop, _ in closed if loop in cores._cores]


async def other_core(client: aio.Client) -> Any:
    """Make the core of another loop, without looking for those that are closed."""
    return aio.connect("memory://loops")._cores.here()
