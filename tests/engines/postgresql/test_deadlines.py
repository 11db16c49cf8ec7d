"""A server that hangs keeps nobody for longer than its caller wanted to wait, and a second."""

from __future__ import annotations

import time
from typing import Any

import pytest

from fencelock import AcquireTimeout, OutcomeUnknown, Unavailable
from tests.engines.postgresql.gate import engine_of
from tests.faults.flavors import SOON, Lab, run
from tests.servers.postgresql import Postgresql

MODES = ["mode=lease", "mode=advisory", "mode=row"]
LATE_S = 3.0  # less than any request_timeout of the engine's own, and more than a slow machine adds
MANY = 12  # more than there are connections


async def timed(work: Any) -> float:
    began = time.monotonic()
    with pytest.raises((OutcomeUnknown, Unavailable, AcquireTimeout)):
        await work
    return time.monotonic() - began


@pytest.mark.parametrize("mode", MODES)
def test_a_call_ends_soon_after_its_deadline_while_the_server_hangs(
    mode: str, flavor: str, own_server: Postgresql
) -> None:
    """Whatever it waits for: an answer, its turn, a place in the pool, or a connection."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(own_server.url(mode))
        rival = await lab.connect(own_server.url(mode))
        held = await rival.lock("held", ttl=60).acquire()
        async with client.lock("free", ttl=60):
            pass
        fresh = await lab.connect(own_server.url(mode))
        own_server.pause()
        try:
            tries = [
                lab.start(timed(someone.lock(name, ttl=60).try_acquire()))
                for someone in (client, fresh)
                for name in [f"free {n}" for n in range(MANY)]
            ]
            tries += [
                lab.start(timed(client.lock("held", ttl=60, timeout=0.5).acquire()))
                for _ in range(MANY)
            ]
            lasted = [await one.result(30.0) for one in tries]
        finally:
            own_server.resume()
        assert max(lasted) < LATE_S, lasted
        for n in range(MANY):  # nothing stays behind, and every connection is of use again
            async with client.lock(f"free {n}", timeout=SOON):
                pass
        await held.release()
        async with client.lock("held", timeout=SOON):
            pass

    run(flavor, scenario)


@pytest.mark.parametrize("mode", MODES)
def test_a_waiter_is_not_kept_by_a_server_that_began_to_hang(
    mode: str, flavor: str, own_server: Postgresql
) -> None:
    async def scenario(lab: Lab) -> None:
        client = await lab.connect(own_server.url(mode))
        rival = await lab.connect(own_server.url(mode))
        held = await rival.lock("held", ttl=60).acquire()
        waiting = lab.start(timed(client.lock("held", ttl=60, timeout=2.0).acquire()))
        await lab.let_pass(0.5)
        own_server.pause()
        try:
            lasted = await waiting.result(30.0)
        finally:
            own_server.resume()
        assert lasted < 2.0 + LATE_S
        await held.release()
        async with rival.lock("held", timeout=SOON):  # it was handed to nobody who no longer waits
            pass

    run(flavor, scenario)


def test_a_waiter_that_listens_by_itself_is_not_kept_by_what_it_sends_for_all(
    own_server: Postgresql,
) -> None:
    """A blocking caller that waits alone sends the heartbeats and the settles of its client."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(own_server.url("request_timeout=60"))
        rival = await lab.connect(own_server.url())
        held = await rival.lock("held", ttl=60).acquire()
        assert await client.lock("held").try_acquire(timeout=0.1) is None
        listener = engine_of(client)._listener
        waiting = lab.start(timed(client.lock("held", ttl=60, timeout=3.0).acquire()))
        await lab.until(
            lambda: waiting.done() or (listener._reading.locked() and not listener._on_duty)
        )
        own_server.pause()
        try:
            listener._settle_at = 0.0  # as if a lease that it waits for were over
            lasted = await waiting.result(90.0)
        finally:
            own_server.resume()
        assert lasted < 30.0, "it was kept for as long as the listener may wait for an answer"
        await held.release()

    run("sync", scenario)
