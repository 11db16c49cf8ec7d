"""A holder that stood still: frozen, kept from its engine, or kept from running."""

from __future__ import annotations

import asyncio
import ctypes
import time
from pathlib import Path

import pytest

from fencelock import Expired, LeaseLost, StaleFence, aio
from fencelock._client import keeper
from fencelock.testing.faulty import Faults
from fencelock.worlds import clock
from tests.faults.crew import Crew, Refused
from tests.faults.flavors import Lab, make_due, run
from tests.faults.held import What
from tests.faults.resource import Resource

# A process that is stopped in the midst of a renewal cannot tell that from an answer that was late.
WHY_FROZEN = r"^Expired: .* is lost: .*(process was stopped|was not answered|could not be renewed)"


def test_a_frozen_holder_learns_its_loss_and_harms_nobody(
    flavor: str, shared_url: str, what: What, crew: Crew, tmp_path: Path
) -> None:
    """H01: SIGSTOP past the ttl. Another takes over with a higher fence, and its lease is safe."""
    resource = Resource(tmp_path / "resource")
    frozen, other = crew.actor(flavor, shared_url), crew.actor(flavor, shared_url)
    for _ in range(what.beside):
        crew.actor(flavor, shared_url).acquire("seat", what=what.rival_kind, ttl=60)
    old = frozen.acquire("seat", what=what.kind, ttl=0.6)
    frozen.freeze()
    new = other.acquire("seat", what=what.rival_kind, ttl=30, timeout=None)
    assert new["fence"] > old["fence"]
    assert new["slot"] == old["slot"]
    assert new["at"] >= old["valid_until"]
    other.ask("write", name="seat", path=str(tmp_path / "resource"), value="new")
    frozen.thaw()
    frozen.hear(event="lost", kind="Expired")
    with pytest.raises(Refused, match=WHY_FROZEN):
        frozen.ask("check", name="seat")
    with pytest.raises(Refused, match=r"^StaleFence: "):
        frozen.ask("write", name="seat", path=str(tmp_path / "resource"), value="old")
    assert frozen.insist("release", name="seat") is False
    assert other.ask("status", name="seat")["held"]
    assert other.ask("inspect", name="seat") == {"holders": 1 + what.beside, "waiters": 0}
    assert resource.value() == "new"


def test_work_longer_than_the_ttl_is_renewed(flavor: str, url: str, faults: Faults) -> None:
    """H02: no fault at all, the work just lasts longer than the ttl, which never comes closer."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(url, faults)
        async with client.lock("seat", ttl=60) as lease:
            end_without_renewal = clock.now() + lease.remaining()
            await lab.until_renewed(lease)
            assert lease.remaining() + clock.now() > end_without_renewal
            assert faults.seen("renew", "answered")
            assert await client.lock("seat").try_acquire() is None

    run(flavor, scenario)


def test_without_renewal_the_holder_is_told_at_the_end(flavor: str, url: str) -> None:
    """H02: work longer than the ttl with ``renew=False``."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(url)
        lease = await client.lock("seat", ttl=0.5, renew=False).acquire()
        assert await lease.lost.wait(timeout=10)
        assert lease.reason is not None
        assert "renewal is off" in lease.reason
        with pytest.raises(Expired):
            lease.check()
        assert not lease

    run(flavor, scenario)


def test_a_pause_between_check_and_act_is_caught_by_the_fence_alone(
    flavor: str, shared_url: str, crew: Crew, tmp_path: Path
) -> None:
    """H03: the check passed, then the process froze. Only the resource can refuse what follows."""
    resource = Resource(tmp_path / "resource")
    slow, quick = crew.actor(flavor, shared_url), crew.actor(flavor, shared_url)
    slow.acquire("seat", ttl=1.2)
    late = slow.begin(
        "freeze_between_check_and_write", name="seat", path=str(tmp_path / "resource"), value="late"
    )
    slow.wait_frozen()
    quick.acquire("seat", timeout=None)
    quick.ask("write", name="seat", path=str(tmp_path / "resource"), value="quick")
    slow.thaw()
    with pytest.raises(Refused, match=r"^StaleFence: "):
        late.result()
    assert resource.value() == "quick"


def test_a_read_moves_the_fence_too(flavor: str, url: str, tmp_path: Path) -> None:
    """H04: the new holder has only read. A write of the old one would spoil what it will write."""

    async def scenario(lab: Lab) -> None:
        resource = Resource(tmp_path / "resource")
        client = await lab.connect(url)
        old = await client.lock("seat", ttl=0.5, renew=False).acquire()
        resource.write(old.fence, 1)
        new = await client.lock("seat").acquire()
        assert old.lost.is_set()
        seen = resource.read(new.fence)
        with pytest.raises(StaleFence):
            resource.write(old.fence, 100)
        assert resource.value() == seen
        await new.release()

    run(flavor, scenario)


def test_an_outage_shorter_than_the_ttl_costs_nothing(
    flavor: str, client_url: str, faults: Faults
) -> None:
    """H05: renewals fail, are tried again, and the lease is kept."""

    async def scenario(lab: Lab) -> None:
        told: list[LeaseLost] = []
        client = await lab.connect(client_url, faults)
        lease = await client.lock("seat", ttl=60, on_lost=told.append).acquire()
        faults.outage("renew")
        make_due(lease)
        await lab.until(lambda: len(faults.seen("renew", "refused")) >= 2, "two failed renewals")
        faults.heal()
        await lab.until(lambda: faults.seen("renew", "answered"), "a renewal that works again")
        await lab.until(lambda: lease._hold.renewals, "a longer lease")
        lease.check()
        assert not told
        assert await lease.release() is True

    run(flavor, scenario)


@pytest.mark.parametrize("fault", ["outage", "hang", "lost requests"])
def test_an_outage_longer_than_the_ttl_is_declared_before_the_lock_is_given_away(
    flavor: str, url: str, faults: Faults, fault: str
) -> None:
    """H05: whatever keeps renewals from the engine, the holder knows before another is let in."""

    async def scenario(lab: Lab) -> None:
        told: list[LeaseLost] = []
        client, other = await lab.connect(url, faults), await lab.connect(url)
        if fault == "outage":  # from before the first renewal, which nobody could time
            faults.outage("renew")
        elif fault == "hang":
            faults.hang("renew")
        else:
            faults.lose_requests(1000, "renew")
        lease = await client.lock("seat", ttl=0.6, on_lost=told.append).acquire()
        shown = await other.holders("seat")  # nobody, where the machine stood still for a ttl
        given_away_at = clock.now() + (shown[0].remaining if shown else 0)
        assert not lease or clock.now() + lease.remaining() < given_away_at
        taken = await other.lock("seat").acquire(timeout=10)
        assert lease.lost.is_set()
        assert taken.fence > lease.fence
        await lab.until(lambda: told, "on_lost")
        faults.heal()
        assert isinstance(told[0], Expired)
        assert await lease.release() is False
        taken.check()
        await taken.release()

    run(flavor, scenario)


def test_a_renewal_that_hangs_does_not_keep_the_keeper_from_telling(
    flavor: str, client_url: str, faults: Faults, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H05: the holder does not ask; it is told, by a keeper that does not rely on looking up."""
    monkeypatch.setattr(keeper, "NAP_MAX_S", 600.0)

    async def scenario(lab: Lab) -> None:
        told: list[LeaseLost] = []
        client = await lab.connect(client_url, faults)
        faults.hang("renew")
        lease = await client.lock("seat", ttl=2, on_lost=told.append).acquire()
        make_due(lease)
        await lab.until(lambda: told, "on_lost")
        assert "not answered" in told[0].reason
        faults.heal()
        assert not lease

    run(flavor, scenario)


@pytest.mark.needs("revoke")
def test_a_renewal_that_is_told_not_yours_ends_the_lease(
    flavor: str, url: str, faults: Faults
) -> None:
    """H06: the record was taken away. The next renewal says so, long before the ttl has run out."""

    async def scenario(lab: Lab) -> None:
        client, admin = await lab.connect(url, faults), await lab.connect(url)
        lease = await client.lock("seat", ttl=60).acquire()
        sure_until = clock.now() + lease.remaining()
        assert await admin.revoke("seat", "the seat is broken")
        make_due(lease)
        assert await lease.lost.wait(timeout=10)
        assert lease.reason == "the seat is broken"
        assert clock.now() < sure_until
        renewals = len(faults.seen("renew"))
        assert renewals == 1
        taken = await admin.lock("seat").acquire(timeout=0)
        assert await lease.release() is False
        taken.check()
        await taken.release()

    run(flavor, scenario)


def test_a_held_interpreter_is_noticed_at_once_afterwards(flavor: str, url: str) -> None:
    """H07: one call into C keeps the interpreter's lock for longer than the ttl."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(url)
        lease = await client.lock("seat", ttl=0.3).acquire()
        ctypes.PyDLL(None).usleep(int((lease.ttl + 0.1) * 1e6))
        with pytest.raises(Expired):
            lease.check()
        assert lease.remaining() == 0.0
        assert not lease
        assert lease.lost.is_set()

    run(flavor, scenario)


def test_a_blocked_event_loop_is_noticed_at_once_afterwards(url: str) -> None:
    """H08: ``time.sleep`` in a coroutine, for longer than the ttl."""

    async def main() -> None:
        async with aio.connect(url) as client:
            lease = await client.lock("seat", ttl=0.3).acquire()
            time.sleep(lease.ttl + 0.1)  # noqa: ASYNC251  # the hazard itself
            with pytest.raises(Expired):
                lease.check()
            assert not lease

    asyncio.run(main())


def test_a_body_that_blocked_its_loop_is_cancelled_and_raises(url: str) -> None:
    """H08: the body goes no further than its next await."""

    async def main() -> None:
        went_on = False
        async with aio.connect(url) as client:
            with pytest.raises(Expired):
                async with client.lock("seat", ttl=0.3) as lease:
                    time.sleep(lease.ttl + 0.1)  # noqa: ASYNC251  # the hazard itself
                    await asyncio.sleep(10)
                    went_on = True
            assert not went_on
            task = asyncio.current_task()
            assert task is not None
            assert task.cancelling() == 0
            lease = await client.lock("seat").acquire(timeout=10)
            await lease.release()

    asyncio.run(main())


@pytest.mark.needs("long")
def test_a_frozen_process_that_holds_several_locks_loses_each(
    flavor: str, shared_url: str, crew: Crew
) -> None:
    """H01: one keeper looks after all leases of a client, and tells of each."""
    frozen, other = crew.actor(flavor, shared_url), crew.actor(flavor, shared_url)
    for name in ("one", "two", "three"):
        frozen.acquire(name, ttl=0.6)
    frozen.acquire("long", ttl=60)
    frozen.freeze()
    for name in ("one", "two", "three"):
        other.acquire(name, timeout=None)
    frozen.thaw()
    for name in ("one", "two", "three"):
        frozen.hear(event="lost", name=name)
    assert frozen.ask("status", name="long")["held"]
