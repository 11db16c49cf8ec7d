"""The guarded register: the resource that the lock protects, on another simulated host.

It holds one number and its marks. With a guard it refuses a fence below the mark, in the same step
as the read or the write; the comparison is that of `fencelock.guards`. Without, it accepts every
fence. Each slot of a semaphore has a register of its own.
"""

from __future__ import annotations

from ..errors import StaleFence, Unavailable
from ..guards.fence import MarkPair, claim
from ..judge import History
from .network import Host, Network
from .tasks import Flag
from .world import SimWorld

REGISTER = "register"
TIMEOUT_S = 0.5


class Register(Host):
    """The resource itself."""

    def __init__(self, guarded: bool, name: str = REGISTER) -> None:
        super().__init__(name)
        self.guarded = guarded
        self.value = 0
        self.marks = MarkPair()

    def serve(self, fence: int, value: int | None, reading: bool = False) -> int:
        """Read, or write a value, if the fence is not stale."""
        self.check(fence, reading)
        if value is not None:
            self.value = value
        return self.value

    def check(self, fence: int, reading: bool = False) -> None:
        """Refuse a fence below the mark, else raise the mark to it. Reads count."""
        if self.guarded:
            self.marks = self.marks.admit(claim(fence, REGISTER, reading=reading))


class RegisterClient:
    """One client's access to the register; it records every operation in the history."""

    def __init__(
        self,
        network: Network,
        register: Register,
        world: SimWorld,
        host: Host,
        history: History,
        role: str = "",
    ) -> None:
        self._network = network
        self._register = register
        self._world = world
        self._host = host
        self._history = history
        self.role = role
        """The role in which the lock is held."""

    async def read(self, fence: int) -> int:
        return await self._request("read", fence, None)

    async def write(self, fence: int, value: int) -> int:
        return await self._request("write", fence, value)

    async def _request(self, verb: str, fence: int, value: int | None) -> int:
        client, history, role = self._world.name, self._history, self.role
        name, reading = self._register.name, role == "read"
        op = history.invoke(client, verb, name, fence, value, role=role)
        answers: list[int | StaleFence] = []
        served: list[int | StaleFence] = []
        answered = Flag()
        reply = self._network.datagram

        def arrive() -> None:
            try:
                answer: int | StaleFence = self._register.serve(fence, value, reading)
                served.append(answer)
            except StaleFence as error:
                answer = error
            reply(self._register, self._host, lambda: take(answer), f"{verb}: answer")

        def take(answer: int | StaleFence) -> None:
            answers.append(answer)
            answered.set()

        await self._world.simulation.turn()
        self._network.datagram(self._host, self._register, arrive, verb)
        await self._world.wait(answered, self._world.now() + TIMEOUT_S)
        if not answers:
            history.end("unknown", client, verb, op, name, fence, value)
            raise Unavailable("the register does not answer")
        if isinstance(answers[0], StaleFence):
            # If the network doubled the request, one copy may have been served before.
            kind = "unknown" if served else "fail"
            history.end(kind, client, verb, op, name, fence, value, "stale")
            raise answers[0]
        history.end("ok", client, verb, op, name, fence, answers[0])
        return answers[0]
