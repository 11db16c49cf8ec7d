"""What the tests of a server whose wall clock steps share: the server, and what must hold then."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

import pytest

from fencelock import LeaseLost
from tests.faults.flavors import Lab
from tests.servers.clock import Clock
from tests.servers.server import Server

HOUR = 3600.0
S = TypeVar("S", bound=Server)


@contextmanager
def misled(server: S) -> Iterator[tuple[S, Clock]]:
    """A server whose clock is in our hands. What the clock needs lies where any user may read."""
    folder = server.folder / "clock"
    folder.mkdir()
    clock = Clock(folder)
    server.environment |= clock.environment
    with server:
        yield server, clock


async def a_step_forward(lab: Lab, url: str, clock: Clock) -> None:
    """The lease is over for the server: the next one has a higher fence, and the holder is told."""
    client, other = await lab.connect(url), await lab.connect(url)
    lease = await client.lock("seat", ttl=30).acquire()
    assert await other.lock("seat").try_acquire() is None
    clock.step(HOUR)
    taken = await other.lock("seat", ttl=30).acquire(timeout=0)
    assert taken.fence > lease.fence
    with pytest.raises(LeaseLost):
        await lease.renew()
    assert await lease.release() is False
    taken.check()
    assert await taken.release() is True


async def a_step_back(lab: Lab, url: str, clock: Clock) -> None:
    """The holder keeps the lock, its release frees it, and fences go on growing."""
    client, other = await lab.connect(url), await lab.connect(url)
    lease = await client.lock("seat", ttl=5).acquire()
    clock.step(-HOUR)
    await lease.renew()
    assert await other.lock("seat").try_acquire() is None
    lease.check()
    assert await lease.release() is True
    taken = await other.lock("seat").acquire(timeout=0)
    assert taken.fence > lease.fence
    assert await taken.release() is True


async def no_step_matters(lab: Lab, url: str, clock: Clock) -> None:
    """The server does not end leases by its wall clock: a step, either way, changes nothing."""
    client, other = await lab.connect(url), await lab.connect(url)
    fences = []
    for step in (HOUR, -HOUR, -HOUR):
        async with client.lock("seat", ttl=30) as lease:
            clock.step(step)
            assert await other.lock("seat").try_acquire() is None
            await lease.renew()
            lease.check()
            fences.append(lease.fence)
        taken = await other.lock("seat").acquire(timeout=0)
        fences.append(taken.fence)
        assert await taken.release() is True
    assert fences == sorted(set(fences))
