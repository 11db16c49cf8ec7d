"""The faults that a test can inject: the fixture ``faults`` of pytest, for any other runner too.

    def test_the_report_stops_when_its_holder_was_frozen(faults):
        client = faults.client()
        with pytest.raises(fencelock.LeaseLost):
            with client.lock("report", ttl=30) as lease:
                faults.pause_holder()
                lease.check()

Clients are real ones over an engine of their own in memory. Time stands still, except for calls
that have to wait for it: then it passes by itself, as far as they need. ``faults.aio`` has the same
methods for asyncio, awaited where they move the time. Without pytest: ``faults = Faults()``.
"""

from __future__ import annotations

from types import TracebackType

from .. import aio, sync
from ..errors import UsageError
from ..model import Holding
from .clients import lose
from .faulty import Faults as Switches
from .manual_clock.aio import AioClock
from .manual_clock.threads import Clock

__all__ = ["AioFaults", "Faults", "Partition"]

LOSABLE = ("acquire", "renew", "release")
EXPIRED = "it was expired by a test"


class Partition:
    """A network partition. Leaving the block heals it; so does ``faults.heal()``."""

    def __init__(self, switches: Switches) -> None:
        self._switches = switches

    def __enter__(self) -> Partition:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._switches.heal()


class _Network:
    """The faults that take no time, which both flavors share."""

    def __init__(self, switches: Switches) -> None:
        self.switches = switches
        """The switches of ``testing.faulty``, which also record what reached the engine."""

    def lose_reply(self, *verbs: str, count: int = 1) -> None:
        """Lose the next replies: the engine does what was requested, and its caller is not told.

        ``verbs`` are some of acquire, renew and release; without any, the next replies to each.
        """
        self.switches.lose_replies(count, *(verbs or LOSABLE))

    def partition(self) -> Partition:
        """Cut the clients off from the engine, until ``heal()`` or the end of a block."""
        self.switches.outage()
        return Partition(self.switches)

    def heal(self) -> None:
        """End everything that ``lose_reply`` and ``partition`` have begun."""
        self.switches.heal()


class Faults(_Network):
    """Faults for blocking programs. ``client()`` gives the client for the program under test."""

    def __init__(self) -> None:
        super().__init__(Switches())
        self.clock = Clock(flows=True)
        self.aio = AioFaults(self.switches)
        """The same for asyncio."""
        self._clients: list[sync.Client] = []

    def client(self) -> sync.Client:
        """Return a client with these faults. Each is like another process of the same engine."""
        client = self.clock.connect(faults=self.switches)
        self._clients.append(client)
        return client

    def pause_holder(self, seconds: float | None = None) -> None:
        """Freeze all holders, by default for longer than their leases last; rivals go on."""
        watcher = self.clock.connect()
        self.clock.advance(_longer_than(watcher.scan()) if seconds is None else seconds)

    def expire(self, lease: sync.Lease) -> None:
        """End one lease now, as if it had not been renewed in time; with any client."""
        lose(lease, EXPIRED, loss="expired")

    def jump_clock(self, seconds: float) -> None:
        """Let time jump ahead, as when a machine was suspended: no lease was renewed in between."""
        self.clock.advance(seconds)

    def close(self) -> None:
        """Heal everything, and close the clients."""
        self.heal()
        for client in self._clients:
            client.close()


class AioFaults(_Network):
    """Faults for asyncio. Methods that move the time are awaited."""

    def __init__(self, switches: Switches) -> None:
        super().__init__(switches)
        self._clock: AioClock | None = None

    @property
    def clock(self) -> AioClock:
        """The clock of the clients, created in the event loop that uses it first."""
        if self._clock is None:
            self._clock = AioClock(flows=True)
        return self._clock

    def client(self) -> aio.Client:
        """Return a client with these faults; close it, or use it in ``async with``."""
        return self.clock.connect(faults=self.switches)

    async def pause_holder(self, seconds: float | None = None) -> None:
        """Freeze all holders, by default for longer than their leases last; rivals go on."""
        watcher = self.clock.connect()
        held = await watcher.scan()
        await self.clock.advance(_longer_than(held) if seconds is None else seconds)

    async def expire(self, lease: aio.Lease) -> None:
        """End one lease now, as if it had not been renewed in time; with any client."""
        await lose(lease, EXPIRED, loss="expired")

    async def jump_clock(self, seconds: float) -> None:
        """Let time jump ahead, as when a machine was suspended: no lease was renewed in between."""
        await self.clock.advance(seconds)


def _longer_than(held: list[Holding]) -> float:
    if not held:
        raise UsageError("nobody holds a lock: there is no holder to pause")
    return max(holding.remaining for holding in held) + 1
