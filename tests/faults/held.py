"""What a hazard meets: a lock, or a share of a name that several can hold.

A test that asks for the fixture ``what`` runs over all of them, on every engine whose traits have
shares. What is *of* a client is what the test is about, its *rival* is what it keeps out. Of a
semaphore with two slots somebody else has one all the time, so that one is left to contend for.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import import_module
from typing import Any, NamedTuple

from fencelock import aio
from fencelock.engines import TABLE
from fencelock.model import Holding, State

SLOTS = 2


class What(NamedTuple):
    """One thing that can be locked, and what it keeps out."""

    kind: str
    rival_kind: str
    """Who wants this cannot have it meanwhile."""
    beside: int = 0
    """How many others hold the name, too."""

    def of(self, client: aio.Client, name: str = "seat", **options: Any) -> aio.Lock:
        return wanted(client, self.kind, name, **options)

    def rival(self, client: aio.Client, name: str = "seat", **options: Any) -> aio.Lock:
        return wanted(client, self.rival_kind, name, **options)

    @asynccontextmanager
    async def company(self, client: aio.Client, name: str = "seat") -> AsyncIterator[Company]:
        """Have those others hold the name, and see that nobody else's trouble is theirs."""
        leases = [await self.rival(client, name).acquire(timeout=0) for _ in range(self.beside)]
        company = Company({lease.fence for lease in leases})
        yield company
        for lease in leases:
            lease.check()
            assert await lease.release() is True


class Company(NamedTuple):
    """Those who hold a name beside what a test is about."""

    fences: set[int]

    def holders(self, state: State) -> list[Holding]:
        """Who holds a name but for them, who must be there: never more than may."""
        assert self.fences <= {holding.fence for holding in state.holders}
        assert_allowed(state)
        return [holding for holding in state.holders if holding.fence not in self.fences]


WHATS = {
    "lock": What("lock", "lock"),
    "slot": What("slot", "slot", SLOTS - 1),
    "reader": What("reader", "writer"),
    "writer": What("writer", "reader"),
}
SHARES = tuple(what for what in WHATS if what != "lock")


def wanted(client: aio.Client, kind: str, name: str = "seat", **options: Any) -> aio.Lock:
    """What is to be acquired."""
    if kind == "lock":
        return client.lock(name, **options)
    if kind == "slot":
        return client.semaphore(name, limit=SLOTS, **options)
    rwlock = client.rwlock(name, **options)
    return rwlock.read() if kind == "reader" else rwlock.write()


def assert_allowed(state: State) -> None:
    """No two in one slot, nobody beside a writer or with a mutex."""
    roles = [holding.role for holding in state.holders]
    slots = [holding.slot for holding in state.holders if holding.slot is not None]
    assert len(slots) == len({*slots}) <= SLOTS, state
    assert "write" not in roles or len(roles) == 1, state
    assert roles.count("lock") <= 1, state


def has_shares(engine: str) -> bool:
    """Whether an engine promises shares, as its URL alone configures it."""
    module, _, name = TABLE[engine].partition(":")
    return bool(getattr(import_module(module), name).traits.shared)


def whats(engine: str) -> list[str]:
    """What can be locked there."""
    return [what for what in WHATS if what == "lock" or has_shares(engine)]
