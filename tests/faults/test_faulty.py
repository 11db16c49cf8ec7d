"""The engine that fails on demand does fail, on demand only, and says what reached the engine."""

from __future__ import annotations

import pytest

from fencelock import OutcomeUnknown, SessionEnded, Unavailable
from fencelock.model import Gone
from fencelock.testing.faulty import VERBS, Faults, FaultyEngine
from fencelock.worlds import clock
from tests.faults.flavors import Lab, run


def test_without_faults_it_is_the_engine_it_wraps(
    flavor: str, client_url: str, faults: Faults
) -> None:
    async def scenario(lab: Lab) -> None:
        client, bare = await lab.connect(client_url, faults), await lab.connect(client_url)
        assert client.traits == bare.traits
        assert client.url == bare.url
        async with client.lock("seat") as lease:
            assert [held.fence for held in await bare.holders("seat")] == [lease.fence]
            assert [held.fence for held in await client.scan()] == [lease.fence]
            assert await client.lock("seat").try_acquire(timeout=0.01) is None
            assert await client.revoke("other", "nobody holds it") is False
            await lease.renew()

    run(flavor, scenario)
    verbs = {call.verb for call in faults.calls}
    # tests/recipes has what recipes need
    recipes = {"announce", "observe", "unobserve", "remember", "recall", "forget"}
    assert verbs == {*VERBS} - {"inspect"} - recipes
    assert all(call.outcome == "answered" and call.reached for call in faults.calls)
    assert all(call.ended_at is not None for call in faults.calls)


def test_a_delay_lets_time_pass_on_both_sides_of_the_engine(
    flavor: str, client_url: str, faults: Faults
) -> None:
    async def scenario(lab: Lab) -> None:
        client = await lab.connect(client_url, faults)
        faults.delay("acquire", before=0.03, after=0.03)
        began_at = clock.now()
        lease = await client.lock("seat", ttl=60).acquire()
        assert clock.now() - began_at >= 0.06
        (call,) = faults.seen("acquire")
        assert call.ended_at is not None
        assert call.ended_at - call.began_at >= 0.06
        assert lease._hold.grant.asked_at - call.began_at >= 0.03
        await lease.release()

    run(flavor, scenario)


@pytest.mark.parametrize("message", ["request", "reply"])
def test_a_lost_message_is_unknown_and_counted(
    flavor: str, client_url: str, faults: Faults, message: str
) -> None:
    async def scenario(lab: Lab) -> None:
        client, bare = await lab.connect(client_url, faults), await lab.connect(client_url)
        lease = await bare.lock("seat").acquire()
        if message == "request":
            faults.lose_requests(2, "revoke")
        else:
            faults.lose_replies(2, "revoke")
        for _ in range(2):
            with pytest.raises(OutcomeUnknown, match=f"the {message} "):
                await client.revoke("seat", "to see")
        assert (await bare.holders("seat") == []) is (message == "reply")
        assert [call.reached for call in faults.seen("revoke", "lost")] == [message == "reply"] * 2
        assert await client.revoke("seat", "to see") is (message == "request")
        assert await lease.release() is False

    run(flavor, scenario)


def test_an_outage_lasts_until_it_is_healed(flavor: str, client_url: str, faults: Faults) -> None:
    async def scenario(lab: Lab) -> None:
        client = await lab.connect(client_url, faults)
        faults.outage()
        for _ in range(2):
            with pytest.raises(Unavailable):
                await client.lock("seat").acquire()
            with pytest.raises(Unavailable):
                await client.scan()
        assert not any(call.reached for call in faults.calls if call.verb != "open")
        faults.heal()
        async with client.lock("seat") as lease:
            lease.check()

    run(flavor, scenario)


@pytest.mark.parametrize("where", ["before", "after"])
def test_a_call_hangs_until_it_is_healed(
    flavor: str, client_url: str, faults: Faults, where: str
) -> None:
    async def scenario(lab: Lab) -> None:
        client, bare = await lab.connect(client_url, faults), await lab.connect(client_url)
        faults.hang("acquire", where="before" if where == "before" else "after")
        job = lab.start(client.lock("seat", ttl=60).acquire())
        await lab.until(lambda: faults.seen("acquire", "under way"), "a call under way")
        if where == "after":
            await lab.until_held(bare, "seat")
        assert len(await bare.holders("seat")) == (1 if where == "after" else 0)
        assert not job.done()
        faults.heal()
        lease = await job.result()
        assert await lease.release() is True

    run(flavor, scenario)


@pytest.mark.parametrize("where", ["before", "after"])
@pytest.mark.parametrize("fault", ["hang", "delay"])
def test_a_call_that_is_held_up_for_longer_than_its_caller_waits_is_unknown(
    flavor: str, client_url: str, faults: Faults, fault: str, where: str
) -> None:
    """And what has not reached the engine by then never does."""

    async def scenario(lab: Lab) -> None:
        client, bare = await lab.connect(client_url, faults), await lab.connect(client_url)
        if fault == "hang":
            faults.hang("acquire", where="before" if where == "before" else "after")
        else:
            faults.delay("acquire", **{where: 600.0})
        with pytest.raises(OutcomeUnknown):
            await client.lock("seat", ttl=600).try_acquire()
        (call,) = faults.seen("acquire")
        assert call.reached is (where == "after")
        assert call.outcome == ("lost" if flavor == "sync" else "raised")
        await lab.until(lambda: faults.seen("withdraw", "answered"), "the undo of the attempt")
        faults.heal()
        assert await bare.holders("seat") == []
        async with bare.lock("seat"):
            assert [one.reached for one in faults.seen("acquire")] == [where == "after"]

    run(flavor, scenario)


def test_what_the_engine_notices_by_itself_reaches_the_holder(
    flavor: str, client_url: str, faults: Faults
) -> None:
    async def scenario(lab: Lab) -> None:
        client = await lab.connect(client_url, faults)
        lease = await client.lock("seat", ttl=600).acquire()
        engine = client._core.engine
        assert isinstance(engine, FaultyEngine)
        faults.outage()  # nobody asks, so nothing is in the way
        tell = engine.inner.on_gone
        assert tell is not None
        tell([lease._hold.grant.owner], Gone("session", "its session ended"))
        assert lease.lost.is_set()
        with pytest.raises(SessionEnded, match="its session ended"):
            lease.check()
        faults.heal()

    run(flavor, scenario)


def test_a_verb_that_no_engine_has_is_refused(faults: Faults) -> None:
    for switch in (faults.outage, faults.hang, faults.delay):
        with pytest.raises(ValueError, match="has no verb 'lock'"):
            switch("lock")
