"""The memory engine behind a network that delays and loses: what clients of a `MemoryRun` use."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from fencelock.engine import Address, Engine
from fencelock.engines.memory import MemoryEngine
from fencelock.errors import OutcomeUnknown, Unavailable
from fencelock.model import Busy, Gone, Grant, Request, State, granted
from fencelock.sim.tasks import Flag
from fencelock.sim.world import SimWorld
from fencelock.world import Signal
from fencelock.worlds.threads import drive

if TYPE_CHECKING:
    from tests.sim.memory_run import MemoryRun

R = TypeVar("R")


class Remote(Engine):
    """The memory engine at the other end of a line: one for each client.

    Messages of one line stay in order, as on a connection, and a request lands even if whoever sent
    it was cancelled, paused or killed meanwhile.
    """

    schemes = ("remote",)
    traits = MemoryEngine.traits

    def __init__(self, run: MemoryRun, world: SimWorld) -> None:
        super().__init__(world, Address("remote"))
        self._run = run
        self._clock = world
        self._arrives_at = [0.0, 0.0]

    async def open(self) -> None:
        """Nothing to reach."""

    async def close(self) -> None:
        """Nothing to let go of."""

    async def acquire(self, request: Request) -> Grant | Busy:
        asked_at = self._clock.now()
        answer = await self._call(lambda: self._run.acquire(request))
        return answer if isinstance(answer, Busy) else self._stamp(answer, asked_at)

    async def renew(self, grants: Sequence[Grant]) -> list[Grant | Gone]:
        asked_at = self._clock.now()
        answers = await self._call(lambda: self._run.engine.renew(grants))
        return [a if isinstance(a, Gone) else self._stamp(a, asked_at) for a in answers]

    async def release(self, grant: Grant) -> bool:
        return await self._call(lambda: self._run.engine.release(grant))

    async def withdraw(self, request: Request) -> None:
        await self._call(lambda: self._run.engine.withdraw(request))

    async def inspect(self, name: str) -> State:
        return await self._call(lambda: self._run.engine.inspect(name))

    async def watch(self, request: Request, signal: Signal) -> None:
        await self._call(lambda: self._run.engine.watch(request, Push(self._run, signal)))

    async def unwatch(self, request: Request) -> None:
        await self._call(lambda: self._run.engine.unwatch(request))

    def _stamp(self, answer: Grant, asked_at: float) -> Grant:
        return granted(answer.name, answer.owner, answer.fence, answer.ttl, asked_at)

    async def _call(self, serve: Callable[[], Coroutine[Any, Any, R]]) -> R:
        run, answers, answered = self._run, list[R](), Flag()

        def arrive() -> None:
            answers.append(drive(serve()))
            self._send(1, answered.set)

        await run.simulation.turn()  # a cancellation may come before anything is sent
        if run.happens(run.profile.refused):
            raise Unavailable("refused")
        self._send(0, arrive)
        if not await self._clock.wait(answered, self._clock.now() + run.profile.request_timeout):
            raise OutcomeUnknown("no answer")
        return answers[0]

    def _send(self, way: int, message: Callable[[], object]) -> None:
        when = max(self._arrives_at[way], self._run.simulation.now + self._run.delay())
        self._arrives_at[way] = when
        if not self._run.happens(self._run.profile.lost):
            self._run.simulation.at(when, message)


class Push:
    """What the engine sets: the waiter hears of it a little later, or not at all."""

    def __init__(self, run: MemoryRun, signal: Signal) -> None:
        self._run = run
        self._signal = signal

    def set(self) -> None:
        run = self._run
        if not run.happens(run.profile.lost):
            run.simulation.at(run.simulation.now + run.delay(), self._signal.set)

    def clear(self) -> None:
        self._signal.clear()

    def is_set(self) -> bool:
        return self._signal.is_set()
