"""A real network between a client and its server: answers that are lost or late, links that break.

The same hazards that a faulty engine shows in other files, here below the driver.
"""

from __future__ import annotations

import resource
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from fencelock import LeaseLost, OutcomeUnknown, Unavailable, aio
from fencelock._client import policy
from fencelock.worlds import clock
from tests.faults.crew import Crew
from tests.faults.flavors import SOON, Lab, make_due, run
from tests.faults.network import Network
from tests.grace import lengthen_grace
from tests.servers.link import TO_CLIENT

TIMEOUT = 0.5  # seconds for an answer, soon over; on a busy machine more than one may be late
TRIES = 100  # and a call asks again so often
BRIEF = 3.0  # seconds: a lease whose end is awaited, and that must be seen before
TICK_S = 0.05
LATE_S = 40.0  # when ticking ends, so that a defect does not wait for ever
BREAKS = pytest.mark.parametrize("then_cut", [True, False], ids=["cut", "silent"])


async def connect(
    lab: Lab, network: Network, request_timeout: float = SOON
) -> tuple[aio.Client, aio.Client]:
    """A client behind the proxy that has been used before, and one that sees what is there."""
    other = await lab.connect(network.direct)  # the first one makes the tables, in its own time
    give_up = clock.now() + SOON
    while True:
        try:
            client = await lab.connect(network.url, request_timeout=request_timeout)
            async with client.lock("warm"):
                return client, other
        except (Unavailable, OutcomeUnknown):  # the machine stood still for as long
            assert request_timeout < SOON
            assert clock.now() < give_up


async def give_back(lab: Lab, client: aio.Client, lease: aio.Lease) -> None:
    """Release; where answers may be late, the client goes on until it is done."""
    with suppress(OutcomeUnknown):
        assert await lease.release() is True
    await lab.until(lambda: not client.owed, "what is owed is done")


@pytest.fixture
def persistent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have calls ask again for as long as it takes, where answers may be late."""
    monkeypatch.setattr(policy, "UNKNOWN_TRIES", TRIES)
    monkeypatch.setattr(policy, "RELEASE_S", SOON)
    lengthen_grace(monkeypatch.setattr, SOON)


@BREAKS
@pytest.mark.usefixtures("persistent")
def test_an_acquire_whose_answer_is_lost_on_its_way_is_granted_once(
    flavor: str, network: Network, then_cut: bool
) -> None:
    """H13: the server has granted it, and the connection is reset or says nothing more."""

    async def scenario(lab: Lab) -> None:
        client, other = await connect(lab, network, TIMEOUT)
        network.proxy.lose_next_reply(b"seat", then_cut=then_cut)
        lease = await client.lock("seat", ttl=60).acquire(timeout=0)
        assert network.proxy.lost == 1
        (holding,) = await other.holders("seat")
        assert holding.fence == lease.fence
        await give_back(lab, client, lease)
        assert await other.holders("seat") == []

    run(flavor, scenario)


def test_no_driver_repeats_a_request_behind_our_back(flavor: str, network: Network) -> None:
    """H16: every answer is lost, so every request that is sent is counted, and nothing is left."""

    async def scenario(lab: Lab) -> None:
        client, other = await connect(lab, network, TIMEOUT)
        network.proxy.lose_next_reply(b"seat", count=100)
        with pytest.raises((Unavailable, OutcomeUnknown)):
            await client.lock("seat", ttl=60).acquire(timeout=0)
        asked, taken_back = policy.UNKNOWN_TRIES, policy.UNKNOWN_TRIES
        assert 1 <= network.proxy.lost <= asked + taken_back
        network.proxy.heal()
        lease = await other.lock("seat").acquire(timeout=SOON)  # taken back: nobody said so
        await lease.release()

    run(flavor, scenario)


@contextmanager
def ticking() -> Iterator[threading.Event]:
    """A program whose handler of signals is called all the time; the event: it was given up."""
    late = threading.Event()

    def give_up() -> None:
        late.set()
        signal.setitimer(signal.ITIMER_REAL, 0)

    before = signal.signal(signal.SIGALRM, lambda *_: None)
    watch = threading.Timer(LATE_S, give_up)
    watch.start()
    signal.setitimer(signal.ITIMER_REAL, TICK_S, TICK_S)
    try:
        yield late
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        watch.cancel()
        signal.signal(signal.SIGALRM, before)


def test_a_silent_server_is_given_up_in_time_whatever_signals_come(
    flavor: str, network: Network
) -> None:
    """H33: no hang: a limit of time must not begin anew with each signal that a handler takes."""

    async def scenario(lab: Lab) -> None:
        client, _ = await connect(lab, network, TIMEOUT)
        network.proxy.block()
        with ticking() as late, pytest.raises((Unavailable, OutcomeUnknown)):
            await client.lock("seat", ttl=60).acquire(timeout=0)
        assert not late.is_set()
        network.proxy.heal()

    run(flavor, scenario)


@BREAKS
@pytest.mark.usefixtures("persistent")
def test_a_release_whose_answer_is_lost_on_its_way_is_a_release(
    flavor: str, network: Network, then_cut: bool
) -> None:
    """H14: the lock is free, and nobody is told that somebody took it."""

    async def scenario(lab: Lab) -> None:
        told: list[LeaseLost] = []
        client, other = await connect(lab, network, TIMEOUT)
        lease = await client.lock("seat", ttl=60, on_lost=told.append).acquire()
        network.proxy.lose_next_reply(b"seat", then_cut=then_cut)
        assert await lease.release() is True
        assert network.proxy.lost == 1
        taken = await other.lock("seat").acquire(timeout=0)
        assert await lease.release() is False
        taken.check()
        assert not told
        await taken.release()

    run(flavor, scenario)


@BREAKS
@pytest.mark.usefixtures("persistent")
def test_a_renewal_whose_answer_is_lost_on_its_way_keeps_the_lease(
    flavor: str, network: Network, then_cut: bool
) -> None:
    """H15: still held, renewed by the next try, with the same fence."""

    async def scenario(lab: Lab) -> None:
        told: list[LeaseLost] = []
        client, other = await connect(lab, network, TIMEOUT)
        lease = await client.lock("seat", ttl=60, on_lost=told.append).acquire()
        network.proxy.lose_next_reply(then_cut=then_cut)
        make_due(lease)
        await lab.until(lambda: network.proxy.lost, "a renewal whose answer is lost")
        await lab.until_renewed(lease)
        (holding,) = await other.holders("seat")
        assert (holding.fence, told) == (lease.fence, [])
        await give_back(lab, client, lease)

    run(flavor, scenario)


def test_a_break_of_the_network_shorter_than_the_ttl_costs_nothing(
    flavor: str, network: Network
) -> None:
    """H05: connections are reset and refused, renewals fail, and the lease is kept."""

    async def scenario(lab: Lab) -> None:
        told: list[LeaseLost] = []
        client, _ = await connect(lab, network)
        lease = await client.lock("seat", ttl=60, on_lost=told.append).acquire()
        network.proxy.cut()
        make_due(lease)
        await lab.until(lambda: lease._hold.failure, "a failed renewal")
        network.proxy.heal()
        await lab.until_renewed(lease)
        assert not told
        assert await lease.release() is True

    run(flavor, scenario)


@pytest.mark.parametrize("fault", ["cut", "block"])
def test_a_break_of_the_network_longer_than_the_ttl_is_told_in_time(
    flavor: str, network: Network, fault: str
) -> None:
    """H05: refused or simply silent, the holder knows before another is let in, and goes on."""

    async def scenario(lab: Lab) -> None:
        told: list[LeaseLost] = []
        client, other = await connect(lab, network)
        lease = await client.lock("seat", ttl=0.9, on_lost=told.append).acquire()
        getattr(network.proxy, fault)()
        taken = await other.lock("seat").acquire(timeout=10)
        assert lease.lost.is_set()
        assert taken.fence > lease.fence
        await lab.until(lambda: told, "on_lost")
        network.proxy.heal()
        assert await lease.release() is False
        taken.check()
        await taken.release()
        again = await client.lock("seat").acquire(timeout=10)
        assert again.fence > taken.fence
        await again.release()

    run(flavor, scenario)


@pytest.mark.needs("one_step")
def test_an_answer_that_comes_after_its_lease_has_ended_is_not_believed(
    flavor: str, network: Network
) -> None:
    """H13: granted at once, heard of too late. What is handed out is a lease that holds."""

    async def scenario(lab: Lab) -> None:
        client, other = await lab.connect(network.url), await lab.connect(network.direct)
        # An engine may keep a session for each ttl. If all stood still for as long, it does so too.
        with suppress(LeaseLost, Unavailable, OutcomeUnknown):
            async with client.lock("warm", ttl=BRIEF):
                pass
        network.proxy.block(TO_CLIENT)
        acquiring = lab.start(client.lock("seat", ttl=BRIEF, renew=False).acquire(timeout=SOON))
        (first,) = await lab.until_held(other, "seat")
        taken = await other.lock("seat").acquire(timeout=10)
        await taken.release()
        network.proxy.heal()
        lease = await acquiring.result()
        assert lease.fence > taken.fence > first.fence
        holders = [holding.fence for holding in await other.holders("seat")]
        assert holders == [lease.fence] or not lease  # it does not last long
        await lease.release()

    run(flavor, scenario)


@pytest.mark.needs("waiters")
def test_a_waiter_whose_link_breaks_is_woken_all_the_same(flavor: str, network: Network) -> None:
    """H23: the push has nobody to go to when the lock is released; no waiter oversleeps."""

    async def scenario(lab: Lab) -> None:
        client, other = await connect(lab, network)
        holder = await other.lock("seat", ttl=60).acquire()
        waiting = lab.start(client.lock("seat", ttl=60).acquire(timeout=30))
        await lab.until_queued(other, "seat", 1)
        network.proxy.cut()
        assert await holder.release() is True
        network.proxy.heal()
        lease = await waiting.result()
        assert lease.fence > holder.fence
        await lease.release()

    run(flavor, scenario)


def test_a_process_that_cannot_connect_for_want_of_descriptors_loses_the_lease_in_time(
    flavor: str, network: Network, crew: Crew
) -> None:
    """H29: its links broke and it can make no other: failed renewals, then lost, no silence."""
    if not hasattr(resource, "prlimit"):
        pytest.skip("setting the limits of a live process needs Linux (prlimit)")
    holder = crew.actor(flavor, network.url)
    holder.acquire("seat", ttl=60)
    _, hard = resource.prlimit(holder.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(holder.pid, resource.RLIMIT_NOFILE, (3, hard))
    network.proxy.reset()
    assert "could not be renewed" in holder.lose("seat")["reason"]
    resource.prlimit(holder.pid, resource.RLIMIT_NOFILE, (hard, hard))
    assert holder.insist("acquire", name="another", timeout=SOON)["held"]
