"""Answers that are lost: the same owner asks again, and the SDK repeats nothing by itself."""

from __future__ import annotations

import pytest

from fencelock import OutcomeUnknown, Unavailable
from fencelock.model import Grant, Request
from tests.engines.dynamodb.front import Front
from tests.faults.flavors import Lab, make_due, run

TTL_S = 60.0


def test_a_free_lock_costs_one_request_and_so_does_its_release(flavor: str, lossy: Front) -> None:
    async def scenario(lab: Lab) -> None:
        client = await lab.connect(lossy.url, prefix=f"trips-{flavor}:")
        async with client.lock("warm", ttl=TTL_S):
            pass
        lossy.calls.clear()
        async with client.lock("seat", ttl=TTL_S):
            pass
        assert lossy.calls == ["UpdateItem", "UpdateItem"]

    run(flavor, scenario)


def test_a_lost_answer_is_resolved_by_asking_for_the_same_owner(flavor: str, lossy: Front) -> None:
    """H13, H16: the grant whose answer was lost is found, with the fence that it was given."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(lossy.url, prefix=f"lost-{flavor}:")
        async with client.lock("seat", ttl=TTL_S) as lease:
            first = lease.fence
        lossy.calls.clear()
        lossy.lose = ["UpdateItem"]
        async with client.lock("seat", ttl=TTL_S) as lease:
            assert lease.fence == first + 1  # a second grant would have had the next one
            assert not lossy.lose
            # Granted without an answer, refused and looked up, confirmed by a new version.
            assert lossy.calls == ["UpdateItem", "UpdateItem", "GetItem", "UpdateItem"]
        assert not await client.holders("seat")

    run(flavor, scenario)


def test_the_sdk_repeats_nothing_by_itself(flavor: str, lossy: Front) -> None:
    """H16: a write without an answer is sent once, and its outcome is said to be unknown."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(lossy.url, prefix=f"once-{flavor}:")
        engine = client._core.engine
        request = Request("seat", client._core.world.owner(), TTL_S)
        lossy.calls.clear()
        lossy.lose = ["UpdateItem"]
        with pytest.raises(OutcomeUnknown):
            await engine.acquire(request)
        assert lossy.calls == ["UpdateItem"]
        lossy.lose = ["GetItem"]
        with pytest.raises(Unavailable):
            await engine.inspect("seat")
        assert isinstance(await engine.acquire(request), Grant)
        await engine.withdraw(request)

    run(flavor, scenario)


def test_a_lost_answer_to_a_renewal_or_release_does_no_harm(flavor: str, lossy: Front) -> None:
    """H14, H15: both can be repeated."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(lossy.url, prefix=f"again-{flavor}:")
        lease = await client.lock("seat", ttl=TTL_S).acquire()
        lossy.lose = ["UpdateItem"]
        make_due(lease)
        await lab.until(lambda: not lossy.lose, "a renewal without an answer")
        await lab.until_renewed(lease)
        lossy.lose = ["UpdateItem"]
        assert await lease.release()
        assert not await client.holders("seat")

    run(flavor, scenario)


def test_of_many_renewals_one_without_an_answer_does_not_spoil_the_others(
    flavor: str, lossy: Front
) -> None:
    """H15: each is a write of its own."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(lossy.url, prefix=f"many-{flavor}:", pool=3)
        engine = client._core.engine
        wishes = [Request(f"seat-{n}", client._core.world.owner(), TTL_S) for n in range(8)]
        grants = [await engine.acquire(wish) for wish in wishes]
        before = client._core.world.now()
        lossy.lose = ["UpdateItem"]
        answers = await engine.renew([one for one in grants if isinstance(one, Grant)])
        renewed = [answer for answer in answers if isinstance(answer, Grant)]
        assert [grant.owner for grant in renewed] == [wish.owner for wish in wishes]
        assert sum(grant.asked_at >= before for grant in renewed) == 7
        for wish in wishes:
            await engine.withdraw(wish)

    run(flavor, scenario)
