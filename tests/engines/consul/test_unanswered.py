"""Requests without an answer: the same owner asks again, and what comes late is taken back."""

from __future__ import annotations

import pytest

from fencelock import OutcomeUnknown, Unavailable
from fencelock.engine import Engine
from fencelock.engines.consul import holds
from fencelock.model import Busy, Grant, Request
from tests.faults.flavors import SOON, Lab, make_due, run
from tests.servers.consul import Consul
from tests.servers.proxy import Proxy

TTL_S = 60.0


def through(url: str, consul: Consul, proxy: Proxy) -> str:
    return url.replace(consul.address, proxy.address)


async def until_granted(lab: Lab, engine: Engine, request: Request, answer: Grant | Busy) -> Grant:
    """Ask for the same owner again, as whoever waits does."""
    while isinstance(answer, Busy):
        await lab.let_pass(answer.look_in)
        answer = await engine.acquire(request)
    return answer


def test_a_lost_answer_to_an_acquire_is_resolved_by_asking_for_the_same_owner(
    flavor: str, consul: Consul, proxy: Proxy
) -> None:
    """H13, H16."""
    url = consul.fresh_url()

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(through(url, consul, proxy))
        async with client.lock("warm", ttl=TTL_S):
            pass
        proxy.lose_next_reply(b"/v1/txn")
        async with client.lock("seat", ttl=TTL_S) as lease:
            assert proxy.lost == 1
            pair = consul.pair(url.partition("prefix=")[2] + "seat")
            assert (pair["ModifyIndex"], pair["CreateIndex"]) == (lease.fence, lease.fence)
        assert not await client.holders("seat")

    run(flavor, scenario)


def test_a_lost_answer_to_a_release_or_a_renewal_does_no_harm(
    flavor: str, consul: Consul, proxy: Proxy
) -> None:
    """H14, H15."""
    url = consul.fresh_url()

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(through(url, consul, proxy))
        lease = await client.lock("seat", ttl=TTL_S).acquire()
        for word in (b"/v1/session/renew", b"/v1/txn"):
            before = lease._hold.renewals
            proxy.lose_next_reply(word)
            make_due(lease)
            await lab.until(lambda: lease._hold.renewals > before, "a renewal")  # noqa: B023
            lease.check()
        proxy.lose_next_reply(b"/v1/txn")
        assert await lease.release() is True
        assert not await client.holders("seat")

    run(flavor, scenario)


def test_what_is_carried_out_after_it_was_taken_back_is_ended(
    flavor: str, consul: Consul, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request that an agent held back: nobody knows of the grant, and the session is renewed."""
    monkeypatch.setattr(holds, "CHECK_S", 0.2)
    url = consul.fresh_url()

    async def scenario(lab: Lab) -> None:
        client, rival = await lab.connect(url), await lab.connect(url)
        engine = client._core.engine
        agents, sent = engine._agents, list[tuple[object, ...]]()  # type: ignore[attr-defined]
        transact = agents.transact

        async def held_back(*operations: object, **how: object) -> object:
            if not sent:
                sent.append(operations)
                raise OutcomeUnknown("no answer")
            return await transact(*operations, **how)

        agents.transact = held_back
        request = Request("seat", client._core.world.owner(), TTL_S)
        with pytest.raises(OutcomeUnknown):
            await engine.acquire(request)
        await engine.withdraw(request)
        (landed,) = await transact(*sent[0])  # now it is carried out
        assert landed.session
        async with rival.lock("seat", ttl=TTL_S, timeout=SOON) as lease:
            assert lease.fence
        answer = await engine.acquire(request._replace(owner=client._core.world.owner()))
        assert isinstance(answer, Grant)
        assert await engine.release(answer) is True

    run(flavor, scenario)


def test_a_request_that_comes_late_after_a_release_is_ended(
    flavor: str, consul: Consul, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Asked for twice, because the first had no answer: the first finds the key free again."""
    monkeypatch.setattr(holds, "CHECK_S", 0.2)
    url = consul.fresh_url()

    async def scenario(lab: Lab) -> None:
        client, rival = await lab.connect(url), await lab.connect(url)
        engine = client._core.engine
        agents, sent = engine._agents, list[tuple[object, ...]]()  # type: ignore[attr-defined]
        transact = agents.transact

        async def held_back(*operations: object, **how: object) -> object:
            if not sent:
                sent.append(operations)
                raise OutcomeUnknown("no answer")
            return await transact(*operations, **how)

        agents.transact = held_back
        request = Request("seat", client._core.world.owner(), TTL_S)
        with pytest.raises(OutcomeUnknown):
            await engine.acquire(request)
        grant = await engine.acquire(request)
        assert isinstance(grant, Grant)
        assert await engine.release(grant) is True
        await transact(*sent[0])
        async with rival.lock("seat", ttl=TTL_S, timeout=SOON) as lease:
            assert lease.fence > grant.fence

    run(flavor, scenario)


def test_a_retry_is_not_ended_by_the_check_for_its_first_request(
    flavor: str, consul: Consul, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check has begun when the owner asks again: what is granted then is not late."""
    monkeypatch.setattr(holds, "CHECK_S", 0.2)
    url = consul.fresh_url()

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(url)
        engine = client._core.engine
        agents = engine._agents  # type: ignore[attr-defined]
        transact, find = agents.transact, agents.find
        sent, checks, opened = list[object](), list[str](), list[bool]()

        async def lost(*operations: object, **how: object) -> object:
            if not sent:
                sent.append(operations)
                raise OutcomeUnknown("no answer")
            return await transact(*operations, **how)

        async def held_up(key: str) -> object:
            checks.append("begun")
            await lab.until(lambda: opened, "the retry")
            found = await find(key)
            checks.append("read")
            return found

        agents.transact = lost
        request = Request("seat", client._core.world.owner(), TTL_S)
        with pytest.raises(OutcomeUnknown):
            await engine.acquire(request)
        (hold,) = engine._holds.by_owner.values()  # type: ignore[attr-defined]
        agents.find = held_up
        engine._holds.forget(hold)  # type: ignore[attr-defined]  # as when a retry is refused
        await lab.until(lambda: checks, "a check")
        first = await engine.acquire(request)
        opened.append(True)
        await lab.until(lambda: "read" in checks, "the check to go on")
        agents.find = find
        grant = await until_granted(lab, engine, request, first)
        await lab.let_pass(3 * holds.CHECK_S)
        assert consul.pair(url.partition("prefix=")[2] + "seat")["ModifyIndex"] == grant.fence
        assert await engine.release(grant) is True

    run(flavor, scenario)


def test_a_key_that_is_found_as_ours_is_ours_when_it_is_granted(
    flavor: str, consul: Consul, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check for late requests deletes the key after it was read, and before it is granted."""
    monkeypatch.setattr(holds, "CHECK_S", 0.2)
    url = consul.fresh_url()

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(url)
        engine = client._core.engine
        agents = engine._agents  # type: ignore[attr-defined]
        transact, renew, sent = agents.transact, agents.renew, list[tuple[object, ...]]()

        async def lands_at_the_retry(*operations: object, **how: object) -> object:
            sent.append(operations)
            if len(sent) == 1:
                raise OutcomeUnknown("no answer")
            if len(sent) == 2:
                await transact(*sent[0])
            return await transact(*operations, **how)

        async def slow(session: str) -> bool:
            await lab.until(lambda: consul.pair(key) is None, "the check to delete the key")
            return bool(await renew(session))

        key = url.partition("prefix=")[2] + "seat"
        agents.transact, agents.renew = lands_at_the_retry, slow
        request = Request("seat", client._core.world.owner(), TTL_S)
        with pytest.raises(OutcomeUnknown):
            await engine.acquire(request)
        grant = await until_granted(lab, engine, request, await engine.acquire(request))
        assert consul.pair(key)["ModifyIndex"] == grant.fence
        assert await engine.release(grant) is True

    run(flavor, scenario)


def test_a_frozen_server_is_told_and_nothing_is_left(flavor: str, own_consul: Consul) -> None:
    """H81: whoever asks gets an error in time; later the lock is free."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(own_consul.url, request_timeout=0.5)
        async with client.lock("warm", ttl=TTL_S):
            pass
        own_consul.pause()
        with pytest.raises((OutcomeUnknown, Unavailable)):
            await client.lock("seat", ttl=TTL_S).acquire(timeout=1)
        own_consul.resume()
        rival = await lab.connect(own_consul.url)
        async with rival.lock("seat", ttl=TTL_S, timeout=SOON):
            pass

    run(flavor, scenario)
