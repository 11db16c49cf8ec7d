"""Answers that are lost on their way: the members are real, and the wire drops what they said."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from fencelock import NotAcquired, OutcomeUnknown, aio
from fencelock.engines.hazelcast import engine as recipe
from fencelock.engines.hazelcast.wire import ClientRequest
from fencelock.model import Busy, Grant, Request
from tests.engines.hazelcast.raw import Raw
from tests.engines.hazelcast.test_sessions import engine_of, waits
from tests.engines.renewal_retry import until_renewed
from tests.faults.flavors import SOON, Lab, run
from tests.servers.hazelcast import Hazelcast


def lose(client: aio.Client, operation: str, times: int = 1) -> list[Any]:
    """Have the answers to the next requests of a kind lost; what they were."""
    wire, lost = engine_of(client)._wire, list[Any]()
    request = wire.request

    def without(
        name: str, arguments: Sequence[Any], done: Callable[[Any, bool], None], waits: bool = False
    ) -> ClientRequest:
        if name == operation and len(lost) < times:
            lost.append(None)
            number = len(lost) - 1

            def dropped(answer: Any, resent: bool) -> None:
                lost[number] = answer

            return request(name, arguments, dropped, waits)  # type: ignore[no-any-return]
        return request(name, arguments, done, waits)  # type: ignore[no-any-return]

    wire.request = without
    return lost


def key_of(client: aio.Client, name: str) -> str:
    return str(engine_of(client)._key(name))


@pytest.mark.parametrize("timeout", [0, SOON])
def test_a_grant_whose_answer_was_lost_is_found(
    flavor: str, hazelcast: Hazelcast, raw: Raw, timeout: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H13: asked again by the same invocation uid, Hazelcast says the same fence, and it is one."""
    monkeypatch.setattr(recipe, "LOOK_S", 0.2)

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(hazelcast.fresh_url(), request_timeout=2.0)
        async with client.lock("first", ttl=30):
            pass
        lost = lose(client, "try_lock" if timeout == 0 else "lock")
        lease = await client.lock("seat", ttl=30).acquire(timeout=timeout)
        assert lost == [lease.fence]
        state = raw.state(key_of(client, "seat"))
        assert (state["fence"], state["lock_count"]) == (lease.fence, 1)
        assert await lease.release() is True
        assert raw.state(key_of(client, "seat"))["fence"] == 0

    run(flavor, scenario)


def test_a_release_whose_answer_was_lost_is_confirmed(
    flavor: str, hazelcast: Hazelcast, raw: Raw
) -> None:
    """H14: asked again by the same invocation uid, Hazelcast says that it was released."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(hazelcast.fresh_url(), request_timeout=4.0)
        lease = await client.lock("seat", ttl=30).acquire()
        lost = lose(client, "unlock")
        assert await lease.release() is True
        assert lost == [False]  # it is not locked any more
        assert raw.state(key_of(client, "seat"))["fence"] == 0

    run(flavor, scenario)


def test_a_heartbeat_whose_answer_was_lost_costs_nothing(flavor: str, hazelcast: Hazelcast) -> None:
    """H15: the renewal is asked for again."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(hazelcast.fresh_url(), request_timeout=4.0)
        lease = await client.lock("seat", ttl=30).acquire()
        lose(client, "heartbeat")
        await until_renewed(lab, lease)
        assert await lease.release() is True

    run(flavor, scenario)


def test_a_waiter_that_gives_up_leaves_nothing(flavor: str, hazelcast: Hazelcast, raw: Raw) -> None:
    """H31: its place in Hazelcast's queue is gone: the lock is free when its holder releases it."""

    async def scenario(lab: Lab) -> None:
        url = hazelcast.fresh_url()
        client, rival = await lab.connect(url), await lab.connect(url)
        lease = await client.lock("seat", ttl=30).acquire()
        waiter = lab.start(rival.lock("seat", ttl=30).acquire(timeout=1))
        await lab.until(lambda: waits(rival), "a waiter")
        with pytest.raises(NotAcquired):
            await waiter.result()
        assert await lease.release() is True
        assert raw.state(key_of(client, "seat"))["fence"] == 0
        assert not engine_of(rival)._holds.by_owner

    run(flavor, scenario)


def test_a_lock_request_that_comes_after_its_unlock_is_undone(
    flavor: str, hazelcast: Hazelcast, raw: Raw, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H09: an unlock may overtake it on the way through the members; it is looked for."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(hazelcast.fresh_url(), request_timeout=4.0)
        async with client.lock("first", ttl=30):
            pass
        wire, held_back = engine_of(client)._wire, list[ClientRequest]()
        request = wire.request

        def late(name: str, *rest: Any) -> ClientRequest:
            made: ClientRequest = request(name, *rest)
            if name == "lock" and not held_back:
                held_back.append(made)
                return ClientRequest(None, lambda _: None)
            return made

        wire.request = late
        with pytest.raises((NotAcquired, OutcomeUnknown)):  # unknown, if the members stand still
            await client.lock("seat", ttl=30).acquire(timeout=0.5)
        assert held_back
        held_back[0].send()
        key = key_of(client, "seat")
        await lab.until(lambda: not raw.state(key)["fence"], "what came late to be undone")
        rival = await lab.connect(f"{hazelcast.url}?prefix={key.removesuffix('seat')}")
        lease = await rival.lock("seat", ttl=30).acquire(timeout=SOON)
        assert await lease.release() is True

    run(flavor, scenario)


def test_what_two_requests_have_locked_is_free_after_one_release(
    flavor: str, hazelcast: Hazelcast, raw: Raw
) -> None:
    """H13: Hazelcast counts the requests of one endpoint; an unlock says whether one is left."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(hazelcast.fresh_url(), request_timeout=4.0)
        async with client.lock("first", ttl=30):
            pass
        engine, request = engine_of(client), Request("seat", "1" * 32, 30.0)
        lost = lose(client, "try_lock")
        with pytest.raises(OutcomeUnknown):
            await engine.acquire(request)
        grant: Grant | Busy = Busy(0.0)
        while isinstance(grant, Busy):  # asked again by the same uid, if the members stand still
            grant = await engine.acquire(request._replace(waits=True))
        assert lost == [grant.fence]
        assert raw.state(key_of(client, "seat"))["lock_count"] == 2
        assert await engine.release(grant) is True
        assert raw.state(key_of(client, "seat"))["fence"] == 0

    run(flavor, scenario)
