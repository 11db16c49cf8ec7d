"""The guarded register: what the lock protects, at the far end of the network.

It holds one number and a mark. With a guard it refuses a fence below the mark, in the same step as
the read or the write; the comparison is the one of `fencelock.guards`. Without, it takes all.
"""

from __future__ import annotations

from collections.abc import Callable

from fencelock.errors import StaleFence, Unavailable
from fencelock.guards.fence import claim
from fencelock.judge import History
from fencelock.sim.tasks import Flag
from fencelock.sim.world import SimWorld
from fencelock.world import sleep
from tests.sim.network import Host, Network

REGISTER = "register"
TIMEOUT_S = 0.5


class Register(Host):
    """The resource itself."""

    def __init__(self, guarded: bool) -> None:
        super().__init__(REGISTER)
        self.guarded = guarded
        self.value = 0
        self.mark = 0

    def serve(self, fence: int, value: int | None) -> int:
        """Read, or write a value, if the fence is not stale."""
        self.check(fence)
        if value is not None:
            self.value = value
        return self.value

    def check(self, fence: int) -> None:
        """Refuse what is below the mark; what is not raises it. Reads count."""
        if self.guarded:
            wanted = claim(fence, REGISTER)
            if wanted.mark < self.mark:
                raise wanted.stale(self.mark)
            self.mark = wanted.mark


class Desk:
    """One client's way to the register, with what it did written down."""

    def __init__(
        self, network: Network, register: Register, world: SimWorld, host: Host, history: History
    ) -> None:
        self._network = network
        self._register = register
        self._world = world
        self._host = host
        self._history = history

    async def read(self, fence: int) -> int:
        return await self._ask("read", fence, None)

    async def write(self, fence: int, value: int) -> int:
        return await self._ask("write", fence, value)

    async def _ask(self, verb: str, fence: int, value: int | None) -> int:
        client, history = self._world.name, self._history
        op = history.invoke(client, verb, REGISTER, fence, value)
        answers: list[int | StaleFence] = []
        served: list[int | StaleFence] = []
        answered = Flag()
        reply = self._network.datagram

        def arrive() -> None:
            try:
                answer: int | StaleFence = self._register.serve(fence, value)
                served.append(answer)
            except StaleFence as error:
                answer = error
            reply(self._register, self._host, lambda: take(answer))

        def take(answer: int | StaleFence) -> None:
            answers.append(answer)
            answered.set()

        await self._world.simulation.turn()
        self._network.datagram(self._host, self._register, arrive)
        await self._world.wait(answered, self._world.now() + TIMEOUT_S)
        if not answers:
            history.end("unknown", client, verb, op, REGISTER, fence, value)
            raise Unavailable("the register does not answer")
        if isinstance(answers[0], StaleFence):
            # Of a request that the network doubled, one copy may have been served before.
            kind = "unknown" if served else "fail"
            history.end(kind, client, verb, op, REGISTER, fence, value, "stale")
            raise answers[0]
        history.end("ok", client, verb, op, REGISTER, fence, answers[0])
        return answers[0]


async def increase(
    desk: Desk, world: SimWorld, fence: int, seconds: float, check: Callable[[], object]
) -> None:
    """Read, think, check, and write one more a moment later: the update that must not be lost."""
    value = await desk.read(fence)
    await sleep(world, seconds * 0.7)
    check()
    await sleep(world, seconds * 0.3)
    await desk.write(fence, value + 1)
