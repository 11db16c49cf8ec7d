"""The observer of a run: it sees the servers' own records, which no client can.

It writes down who stands in the queue and from whom the lock was taken away, and tells at once when
a lock is given away that somebody still believes in.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from fencelock._client.hold_state import HoldState
from fencelock.judge import Violation
from fencelock.model import units_of
from fencelock.sim.backends import Backend, Held

if TYPE_CHECKING:
    from tests.sim.harness import Run

WITNESSED = {
    "believed": "nobody believes in what was given away",
    "left_behind": "the servers are as they were before",
}


ROUNDED_S = 0.003  # what the clocks of servers leave unsaid
SOON_S = 0.001


class Observer:
    """Sees every grant in the order of the servers, and who believes what at that moment."""

    def __init__(self, run: Run, backend: Backend) -> None:
        self._run = run
        self._backend = backend
        self._holder = ""
        self._kept_until = 0.0
        self._asked: dict[str, tuple[str, int]] = {}
        self._owners: dict[int, str] = {}
        self._queued: set[str] = set()
        self._revoked: set[str] = set()
        self.found: list[Violation] = []
        self.grants = 0

    def asked(self, owner: str, client: str, op: int) -> None:
        """An owner id belongs to this attempt."""
        self._asked.setdefault(owner, (client, op))
        self._owners[op] = owner

    def client_of(self, owner: str) -> str:
        """Whose attempt an owner id belongs to, or nothing."""
        return self._asked.get(owner, ("", 0))[0]

    def look(self) -> None:
        """A server has served something, and what it keeps may have changed."""
        self._look_at_owners()
        holder = self._backend.holder()
        if holder != self._holder:
            if self._run.simulation.now < self._kept_until - ROUNDED_S:
                self._note("freed", self._holder)
            if holder:
                self.grants += 1
                self._note("kept", holder)
                if self._run.promises.exclusive:
                    self._see_that_nobody_else_believes(holder)
        self._holder, self._kept_until = holder, self._backend.kept_until() if holder else 0.0

    def failed(self, op: int) -> None:
        """An attempt is said to have failed: see a little later that nothing is kept for it."""
        within, owner = self._run.promises.undone_within, self._owners.get(op)
        if within is not None and owner is not None:
            self._run.later(within + SOON_S, lambda: self._see_that_it_failed(owner))

    def _see_that_it_failed(self, owner: str) -> None:
        if self._keeps(owner):
            self._note("kept", owner)

    def _keeps(self, owner: str) -> bool:
        return self._backend.holder() == owner

    def _note(self, verb: str, owner: str) -> None:
        client, op = self._asked[owner]
        self._run.history.note(client, verb, self._backend.name, op=op)

    def _look_at_owners(self) -> None:
        for owner in self._backend.queue():
            if owner not in self._queued and owner in self._asked:
                self._queued.add(owner)
                self._note("queued", owner)
        for owner in self._backend.revoked():
            if owner not in self._revoked and owner in self._asked:
                self._revoked.add(owner)
                client, op = self._asked[owner]
                self._run.history.note(
                    client, "expired", self._backend.name, op=op, detail="revoked"
                )

    def nothing_left(self) -> None:
        """Everybody has gone without trouble: the servers are as they were before."""
        left = [owner[:6] for owner in (*self._backend.owners(), *self._backend.queue()) if owner]
        if left:
            message = f"all are gone and something is left behind: {left}"
            self.found.append(Violation("left_behind", message, (len(self._run.history) - 1,)))

    def _see_that_nobody_else_believes(self, holder: str) -> None:
        now = self._run.simulation.now
        for client, tenure, believed in self._beliefs():
            if self._backend.owner(tenure.grant.owner) != holder:
                message = (
                    f"at {now:.6f} s the lock was given away while {client} believed in "
                    f"fence {tenure.grant.fence} until {believed:.6f} s"
                )
                self.found.append(Violation("believed", message, (len(self._run.history),)))

    def _beliefs(self) -> Iterator[tuple[str, HoldState, float]]:
        """Who believes in what, and until when, at this moment."""
        now = self._run.simulation.now
        for client in self._run.clients:
            if client.world.is_crashed:
                continue
            client.tenures = [one for one in client.tenures if not one.ended]
            for tenure in client.tenures:
                owner = self._backend.owner(tenure.grant.owner)
                if owner in self._revoked or tenure.grant.name != self._backend.name:
                    continue  # it may believe until it hears of it
                believed = client.world.true_time(tenure.valid_until())
                if believed > now:
                    yield client.name, tenure, believed


class SharesObserver(Observer):
    """The observer of a name that several may hold: together they have no more than there is."""

    def __init__(self, run: Run, backend: Backend) -> None:
        super().__init__(run, backend)
        self._holders: dict[str, Held] = {}

    def look(self) -> None:
        self._look_at_owners()
        now, holders = self._run.simulation.now, self._backend.holders()
        for owner, held in self._holders.items():
            if owner not in holders and now < held.until - ROUNDED_S:
                self._note("freed", owner)
        new = [owner for owner in holders if owner not in self._holders]
        self._holders = holders
        self.grants += len(new)
        for owner in new:
            self._note("kept", owner)
        if new and self._run.promises.exclusive:
            self._see_that_it_fits(new[-1])

    def _keeps(self, owner: str) -> bool:
        return owner in self._backend.holders()

    def _see_that_it_fits(self, newest: str) -> None:
        """What the servers keep, and what others believe in besides, is within the limit."""
        now, limit = self._run.simulation.now, self._run.limit
        owner = self._backend.owner
        others = [one for one in self._beliefs() if owner(one[1].grant.owner) not in self._holders]
        believed = sum(
            1 if one.role == "read" else units_of(one.grant.share) for _, one, _ in others
        )
        units = believed + sum(held.units for held in self._holders.values())
        slots = [held.slot for held in self._holders.values() if held.slot is not None]
        slots += [
            share.slot
            for _, one, _ in others
            if (share := one.grant.share) and share.slot is not None
        ]
        if units > limit or len(slots) > len(set(slots)):
            message = (
                f"at {now:.6f} s {units} units of {limit} are held or believed in, slots {slots}, "
                f"when one was given to {self._asked[newest][0]}"
            )
            self.found.append(Violation("believed", message, (len(self._run.history),)))
