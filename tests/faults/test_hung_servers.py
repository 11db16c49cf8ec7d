"""A server that takes connections and says nothing: the caller's deadline rules, and what is said
is true.

Here the way to the server is blocked, and a request may last far longer than its caller allows.
Servers that are stopped by a signal, in the midst of each call, are in ``tests/engines``.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from fencelock import OutcomeUnknown, Unavailable, aio, observe
from fencelock.world import GRACE_S
from fencelock.worlds import clock
from tests.faults.flavors import LOOK, SOON, Lab, run
from tests.faults.network import Network

TTL_S = 60.0  # longer than any wait here: what is free again was given back, not outlived
REQUEST_S = 20.0
SLACK_S = REQUEST_S - 5.0  # for a machine under load; without a limit it is REQUEST_S and more
LATE_S = 3 * SOON


async def connect(lab: Lab, network: Network, **options: Any) -> tuple[aio.Client, aio.Client]:
    """A client behind the proxy that has been used before, and one that sees what is there."""
    other = await lab.connect(network.direct)
    client = await lab.connect(network.url, **options)
    async with client.lock("warm"):
        pass
    return client, other


async def until_settled(lab: Lab, client: aio.Client, other: aio.Client) -> None:
    """Wait until the client owes nothing, and nobody holds the lock or waits for it.

    What was held up may land after the undo, which took another connection: so it is repeated.
    """
    await lab.until(lambda: not client.owed, "what is owed is taken back", LATE_S)
    give_up = clock.now() + SOON
    while (state := await other.inspect("seat")).holders or state.waiters:
        assert clock.now() < give_up, state
        await lab.let_pass(LOOK)


@pytest.mark.parametrize("timeout", [0.0, 0.5])
def test_an_acquire_ends_with_its_callers_time(
    flavor: str, network: Network, timeout: float
) -> None:
    """H81: nobody answers, and the lock is not held by nobody for a ttl afterwards."""

    async def scenario(lab: Lab) -> None:
        client, other = await connect(lab, network, request_timeout=REQUEST_S)
        network.proxy.block()
        began = clock.now()
        with pytest.raises((OutcomeUnknown, Unavailable)) as caught:
            await client.lock("seat", ttl=TTL_S).try_acquire(timeout=timeout)
        assert clock.now() - began < timeout + GRACE_S + SLACK_S
        assert caught.value.may_have_happened == bool(client.owed)
        network.proxy.heal()
        await until_settled(lab, client, other)
        async with client.lock("seat", timeout=SOON):
            pass  # it is of use again

    run(flavor, scenario)


@pytest.mark.needs("waiters")
def test_a_waiter_ends_with_its_callers_time_and_leaves_the_queue(
    flavor: str, network: Network
) -> None:
    """H81 H82: its queue entry cannot be withdrawn in time; it must not be handed the lock."""

    async def scenario(lab: Lab) -> None:
        client, other = await connect(lab, network)
        held = await other.lock("seat", ttl=TTL_S).acquire()
        waiter = lab.start(client.lock("seat", ttl=TTL_S).acquire(timeout=4))
        await lab.until_queued(other, "seat", 1)
        network.proxy.block()
        with pytest.raises(OutcomeUnknown):
            await waiter.result()
        assert client.owed
        network.proxy.heal()
        assert await held.release() is True
        await until_settled(lab, client, other)

    run(flavor, scenario)


def test_a_time_limit_of_asyncio_is_obeyed(network: Network) -> None:
    """H81 H10: a call without a timeout of its own, within one of the caller's."""

    async def scenario(lab: Lab) -> None:
        client, other = await connect(lab, network, request_timeout=REQUEST_S)
        network.proxy.block()
        began = clock.now()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await client.lock("seat", ttl=TTL_S).acquire()
        assert clock.now() - began < 0.5 + GRACE_S + SLACK_S
        network.proxy.heal()
        await until_settled(lab, client, other)

    run("asyncio", scenario)


def test_a_good_body_is_not_blamed_for_a_release_that_nobody_answers(
    flavor: str, network: Network
) -> None:
    """H82: whoever retries on an engine's errors would run the body twice."""
    events = list[observe.Event]()

    async def scenario(lab: Lab) -> None:
        client, other = await connect(lab, network)
        async with client.lock("seat", ttl=TTL_S):
            network.proxy.block()
        assert [(owed.name, owed.what) for owed in client.owed] == [("seat", "release")]
        network.proxy.heal()
        await until_settled(lab, client, other)

    unsubscribe = observe.subscribe(events.append)
    try:
        run(flavor, scenario)
    finally:
        unsubscribe()
    assert [event.kind for event in events if event.name == "seat"] == [
        "acquired",
        "release_failed",
    ]


@pytest.mark.needs("waiters")
def test_a_short_break_costs_a_waiter_nothing_however_long_it_has_waited(
    flavor: str, network: Network
) -> None:
    """H84: longer than its own ttl, so that nobody has asked the server for that long."""

    async def scenario(lab: Lab) -> None:
        client, other = await connect(lab, network)
        held = await other.lock("seat", ttl=TTL_S).acquire()
        waiter = lab.start(client.lock("seat", ttl=2.0).acquire(timeout=LATE_S))
        await lab.until_queued(other, "seat", 1)
        await lab.let_pass(2.5)
        network.proxy.cut()
        await lab.let_pass(0.3)
        network.proxy.heal()
        await lab.let_pass(0.3)
        assert not waiter.done()
        assert await held.release() is True
        lease = await waiter.result(LATE_S)
        assert await lease.release() is True

    run(flavor, scenario)
