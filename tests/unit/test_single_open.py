"""Which of several calls opens the engine."""

from __future__ import annotations

from fencelock._client.single_open import OpenCall, SingleOpen
from fencelock.world import NO_LIMIT, Signal
from fencelock.worlds.threads import ThreadsWorld, drive


class WaitingWorld(ThreadsWorld):
    """A world in which something happens while a call waits for another one."""

    def __init__(self) -> None:
        super().__init__()
        self.single = SingleOpen(self)
        self.opens: list[OpenCall] = []
        """The call that opens the engine: the only reference to it."""
        self.heir_opens: bool | None = None

    async def wait(self, signal: Signal, deadline: float | None) -> bool:
        self.opens.clear()  # an exception has ended it, before its try block
        self.heir_opens = await self.single.begin(OpenCall(self.signal()), 1)
        return False


def test_a_call_that_ended_unnoticed_is_replaced_while_others_wait_for_it() -> None:
    world = WaitingWorld()
    with world.until(NO_LIMIT):
        world.opens.append(OpenCall(world.signal()))
        assert drive(world.single.begin(world.opens[0], 1))
        assert not drive(world.single.begin(OpenCall(world.signal()), 1))
    assert world.heir_opens
