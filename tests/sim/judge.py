"""The judge of a simulated run: what must hold at every step, in every grant, and at the end.

It sees what no client can: the true time, the engine's records, and what every holder believes.

* A holder believes in its lease only while the engine keeps it for that holder, and not longer.
* Fences grow in the order of the grants.
* A waiter that was never interrupted is overtaken by nobody.
* Nobody who could take it waits beside a free lock.
* A holder is told of its loss before the engine can give the lock to another.
* When everybody has gone, nothing is left behind.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fencelock.engines.memory import LOOK_S, Store
from fencelock.engines.units import CLAIM_S
from fencelock.sim.store import queue_of, record_of

if TYPE_CHECKING:
    from fencelock._client.hold_state import HoldState
    from fencelock.engines.units import Key, Name, Record
    from fencelock.model import Request
    from tests.sim.memory_run import Client, MemoryRun

NAME = "seat"
TELL_S = 1e-6  # rounding, where two clocks are compared


class Violation(AssertionError):
    """A promise was broken."""


class JudgedStore(Store):
    """The engine's store, with the judge beside it."""

    def __init__(self, run: MemoryRun) -> None:
        super().__init__(run.server)
        self.judge = run.judge

    def give(self, name: Name, request: Request, now: float, claimed: bool) -> Record:
        record = super().give(name, request, now, claimed)
        self.judge.gave(record)
        return record

    def leave(self, key: Key, owner: str, now: float) -> bool:
        self.judge.left(owner)
        return super().leave(key, owner, now)


class Judge:
    """Watches one run."""

    def __init__(self, run: MemoryRun) -> None:
        self._run = run
        self._simulation = run.simulation
        self._is_fair = run.profile.is_prompt
        self._slowest_look = LOOK_S * 1.1 + run.profile.slowest_call
        self._fence = 0
        self._records: dict[str, Record] = {}
        self._arrived: dict[str, float] = {}
        self._free_since: float | None = None
        self.revoked: set[str] = set()
        self.grants = 0
        self.losses = 0

    # What the engine does, in its own order.

    def gave(self, record: Record) -> None:
        """The engine wrote a record for an owner."""
        self._simulation.note("gave", record.owner, record.fence)
        if record.fence <= self._fence:
            raise Violation(f"fence {record.fence} was given after {self._fence}")
        self._fence = record.fence
        self._records[record.owner] = record
        if self._is_fair:
            for owner, since in self._arrived.items():
                if owner == record.owner:
                    break
                if self._is_undisturbed(owner, since):
                    raise Violation(f"{owner[:6]} waits since {since:.3f} s and was overtaken")

    def queued(self, owner: str) -> None:
        """The engine told an owner to wait."""
        self._arrived.setdefault(owner, self._simulation.now)

    def granted(self, owner: str) -> None:
        """The engine told an owner that it has the lock."""
        self.grants += 1
        self._arrived.pop(owner, None)

    def left(self, owner: str) -> None:
        """An owner wants nothing any more."""
        self._simulation.note("left", owner)
        self._arrived.pop(owner, None)

    def _is_undisturbed(self, owner: str, since: float) -> bool:
        client = self._run.client_of(owner)
        return not client.world.is_halted and client.resumed_at <= since

    # What must hold at every step.

    def look(self) -> None:
        """See that nothing is wrong at this moment."""
        now = self._simulation.now
        for client in self._run.clients:
            if client.tenures and not client.world.is_crashed:
                client.tenures = [t for t in client.tenures if self._lasts(client, t, now)]
        self._look_at_waiters(now)

    def _lasts(self, client: Client, tenure: HoldState, now: float) -> bool:
        if tenure.released:
            return False
        if tenure.loss is not None:
            self.losses += 1
            self._simulation.note("lost", tenure.grant.owner, tenure.loss.reason)
            return False
        record = self._records.get(tenure.grant.owner)
        if record is None:
            raise Violation(f"{client.world.name} believes in a lease that was never given")
        expiry = self._run.server.true_time(record.expires_at)
        believed = client.world.true_time(tenure.valid_until())
        if believed > now:
            self._see_that_it_is_true(tenure, record, believed, expiry)
        elif not client.world.is_halted and now > max(expiry, client.resumed_at) + TELL_S:
            raise Violation(f"fence {record.fence} ended at {expiry:.6f} s and nobody was told")
        return True

    def _see_that_it_is_true(
        self, tenure: HoldState, record: Record, believed: float, expiry: float
    ) -> None:
        is_kept = record_of(self._run.store, NAME) is record or record.owner in self.revoked
        if not is_kept:  # a revoked holder may believe until it hears of it, or its time ends
            raise Violation(f"fence {record.fence} is believed in and no longer the engine's")
        if tenure.grant.fence != record.fence:
            raise Violation(f"fence {record.fence} is shown as {tenure.grant.fence}")
        if believed > expiry:
            raise Violation(
                f"fence {record.fence} is believed in until {believed:.6f} s "
                f"and the engine keeps it until {expiry:.6f} s"
            )

    def _look_at_waiters(self, now: float) -> None:
        record = record_of(self._run.store, NAME)
        is_free = record is None or self._run.server.true_time(record.expires_at) <= now
        if not is_free or not any(self._is_undisturbed(*who) for who in self._arrived.items()):
            self._free_since = None
        elif self._free_since is None:
            self._free_since = now
        elif now > self._free_since + self._slowest_look:
            raise Violation(f"the lock is free since {self._free_since:.3f} s and somebody waits")

    # What must hold at the end.

    def nothing_left(self) -> None:
        """Everybody has gone without trouble: the engine is as it was before."""
        store = self._run.store
        if store.names or store.signals:
            left = [*store.names, *(owner[:6] for owner in store.signals)]
            raise Violation(f"all are gone and something is left behind: {left}")

    def request_timeout(self) -> float:
        """How long a newcomer may have to wait when all who still stand in the queue are dead."""
        dead = len(queue_of(self._run.store, "lock", NAME))
        return dead * CLAIM_S + self._slowest_look
