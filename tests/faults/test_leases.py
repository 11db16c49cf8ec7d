"""What can be done wrong with a lease in one's hands: by the wrong one, too late, or not at all."""

from __future__ import annotations

import gc
import warnings

import pytest

from fencelock import AcquireTimeout, LeaseLost
from fencelock.testing.faulty import Faults
from fencelock.worlds import clock
from tests.faults.flavors import Lab, make_due, run


def test_any_thread_or_task_may_release_a_lease_through_its_handle(flavor: str, url: str) -> None:
    """H19: the owner is the lease, not the thread or task that acquired it."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(url)
        lease = await lab.start(client.lock("seat").acquire()).result()
        assert await client.lock("seat").try_acquire() is None
        assert await lab.start(lease.release()).result() is True
        again = await client.lock("seat").acquire(timeout=0)
        assert await lab.start(lease.release()).result() is False
        again.check()
        assert await again.release() is True

    run(flavor, scenario)


def test_a_block_that_was_not_acquired_in_time_never_begins(flavor: str, url: str) -> None:
    """H20: ``with`` raises instead of entering its body without the lock."""

    async def scenario(lab: Lab) -> None:
        client, other = await lab.connect(url), await lab.connect(url)
        holder = await other.lock("seat").acquire()
        for timeout in (0, 0.05):
            entered = False
            with pytest.raises(AcquireTimeout):
                async with client.lock("seat", timeout=timeout):
                    entered = True
            assert not entered
        assert await holder.release() is True

    run(flavor, scenario)


@pytest.mark.parametrize("where", ["before", "after"])
def test_no_renewal_counts_after_release_has_returned(
    flavor: str, url: str, faults: Faults, where: str
) -> None:
    """H24: a renewal is under way, on its way there or on its way back, while we release."""

    async def scenario(lab: Lab) -> None:
        told: list[LeaseLost] = []
        client, other = await lab.connect(url, faults), await lab.connect(url)
        faults.hang("renew", where="before" if where == "before" else "after")
        lease = await client.lock("seat", ttl=60, on_lost=told.append).acquire()
        make_due(lease)
        await lab.until(lambda: faults.seen("renew", "under way"), "a renewal under way")
        assert await lease.release() is True
        taken = await other.lock("seat", ttl=0.5, renew=False).acquire(timeout=0)
        sure_until = taken.remaining() + clock.now()  # a stall in between makes it later
        faults.heal()
        await lab.until(lambda: not faults.seen("renew", "under way"), "the end of the renewal")
        assert not lease
        assert lease.reason is None
        left = max(0.0, sure_until - clock.now())
        assert taken.remaining() <= left
        third = await other.lock("seat").acquire(timeout=10)
        assert taken.lost.is_set()
        assert not faults.seen("renew")[1:]
        assert not told
        await third.release()

    run(flavor, scenario)


@pytest.mark.needs("revoke")
def test_a_lock_can_be_used_again_after_its_lease_was_lost(flavor: str, url: str) -> None:
    """H25: the next lease has a higher fence, and the lost one stays lost."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(url)
        lock = client.lock("seat", ttl=60)
        fences = []
        for _ in range(3):
            lease = await lock.acquire(timeout=10)
            fences.append(lease.fence)
            assert await client.revoke("seat", "try again")
            with pytest.raises(LeaseLost):
                await lease.renew()
            again = await lock.acquire(timeout=0)
            fences.append(again.fence)
            assert await lease.release() is False
            assert not lease
            again.check()
            assert await again.release() is True
        assert fences == sorted(set(fences))

    run(flavor, scenario)


def test_a_lease_that_is_dropped_warns_and_is_renewed_no_more(
    flavor: str, url: str, faults: Faults
) -> None:
    """H32: garbage-collected unreleased: a warning, and the lock is free after its ttl."""

    async def scenario(lab: Lab) -> None:
        client, other = await lab.connect(url, faults), await lab.connect(url)
        lease = await client.lock("seat", ttl=0.9).acquire()
        make_due(lease)
        await lab.until(lambda: faults.seen("renew", "answered"), "a first renewal")
        renewals = len(faults.seen("renew"))
        with pytest.warns(ResourceWarning, match=r"'seat' was dropped without release\(\)"):
            del lease
        taken = await other.lock("seat").acquire(timeout=10)
        assert len(faults.seen("renew")) <= renewals + 1  # one may have been under way
        await taken.release()

    run(flavor, scenario)


def test_a_dropped_client_renews_no_more(flavor: str, url: str, faults: Faults) -> None:
    """H32: with the client dropped too, nobody is left who could release."""

    async def scenario(lab: Lab) -> None:
        other = await lab.connect(url)
        client = await lab.connect(url, faults)
        lease = await client.lock("seat", ttl=0.5).acquire()
        lab.forget(client)
        with pytest.warns(ResourceWarning, match="was dropped"):
            del lease, client
        gc.collect()
        taken = await other.lock("seat").acquire(timeout=10)
        await taken.release()

    run(flavor, scenario)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # nobody has closed its connections
        gc.collect()
