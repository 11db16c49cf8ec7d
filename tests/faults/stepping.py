"""Cancelling a coroutine at every single await, one run for each: systematically, not by luck.

``CancelAt(work, n)`` runs a coroutine as a task and cancels it while it is suspended for the n-th
time. *When* within that suspension matters, so there are three ways:

* ``at once``: as soon as it is suspended, before anything has happened;
* ``with the answer``: in the same turn of the loop in which what it awaited has come. The answer
  exists, and the cancellation takes its place: this is how results vanish;
* ``twice``: at once, and again at the next await, as an impatient caller does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator
from typing import Any, Generic, TypeVar

T = TypeVar("T")

WAYS = ("at once", "with the answer", "twice")
SUSPENSIONS_MAX = 200


class CancelAt(Generic[T]):
    """Awaited, it awaits the work; ``hit`` says whether there was an n-th time."""

    def __init__(self, work: Coroutine[Any, Any, T], place: int, way: str) -> None:
        assert way in WAYS
        self._work = work
        self._place = place
        self._way = way
        self._suspensions = 0
        self.hit = False

    async def run(self) -> T:
        """Run as a task of its own, so that only the work is cancelled."""
        task = asyncio.create_task(self._follow())
        await asyncio.wait({task})
        return task.result()

    async def _follow(self) -> T:
        return await self

    def __await__(self) -> Generator[Any, Any, T]:
        steps = self._work.__await__()
        send: Any = None
        failure: BaseException | None = None
        while True:
            try:
                awaited = steps.send(send) if failure is None else steps.throw(failure)
            except StopIteration as stop:
                return stop.value  # type: ignore[no-any-return]  # StopIteration carries Any
            self._suspended(awaited)
            send = failure = None
            try:
                send = yield awaited
            except BaseException as error:  # the cancellation, for the work to meet
                failure = error

    def _suspended(self, awaited: asyncio.Future[Any] | None) -> None:
        task = asyncio.current_task()
        assert task is not None
        number = self._suspensions
        self._suspensions += 1
        assert number < SUSPENSIONS_MAX, "the work never ends"
        if number != self._place and not (self._way == "twice" and number == self._place + 1):
            return
        self.hit = True
        if self._way == "with the answer" and awaited is not None:
            awaited.add_done_callback(
                lambda _: task.cancel()
            )  # before the task's own: it runs first
        else:
            task.get_loop().call_soon(task.cancel)
