"""Answers that are lost: the same owner asks again, and the client repeats nothing by itself."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import grpc
import pytest

from fencelock import Denied, Misconfigured, OutcomeUnknown, Unavailable, aio
from fencelock.model import Grant, Request
from tests.engines.firestore.front import Front
from tests.faults.flavors import SOON, Lab, make_due, run
from tests.servers.firestore import Firestore
from tests.servers.proxy import Proxy
from tests.servers.server import until

TTL_S = 60.0


async def seen(holds: Callable[[], object]) -> None:
    """Wait until something holds, which a thread looks at."""
    await asyncio.to_thread(until, holds, "it", within=SOON)


def test_a_free_lock_costs_one_request_and_so_does_its_release(
    flavor: str, lossy: Front, collection: str
) -> None:
    async def scenario(lab: Lab) -> None:
        client = await lab.connect(lossy.url_of(collection))
        lossy.calls.clear()
        async with client.lock("seat", ttl=TTL_S):
            pass
        assert lossy.calls == ["Commit", "Commit"]

    run(flavor, scenario)


def test_a_lost_answer_is_resolved_by_asking_for_the_same_owner(
    flavor: str, lossy: Front, server: Firestore, collection: str
) -> None:
    """H13, H16: the grant whose answer was lost is found, with the fence that it was given."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(lossy.url_of(collection))
        lossy.calls.clear()
        lossy.lose = ["Commit"]
        async with client.lock("seat", ttl=TTL_S) as lease:
            assert not lossy.lose
            # Granted without an answer, refused and looked up, confirmed by a new version.
            assert lossy.calls == ["Commit", "Commit", "BatchGetDocuments", "BatchWrite"]
            (holding,) = await client.holders("seat")
            assert holding.fence == lease.fence
        assert not server.documents(collection)

    run(flavor, scenario)


def test_the_client_repeats_nothing_by_itself(flavor: str, lossy: Front, collection: str) -> None:
    """H16: a write without an answer is sent once, and its outcome is said to be unknown."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(lossy.url_of(collection))
        engine = client._core.engine
        request = Request("seat", client._core.world.owner(), TTL_S)
        lossy.calls.clear()
        lossy.lose = ["Commit"]
        with pytest.raises(OutcomeUnknown):
            await engine.acquire(request)
        assert lossy.calls == ["Commit"]
        lossy.lose = ["BatchGetDocuments"]
        with pytest.raises(Unavailable):
            await engine.inspect("seat")
        assert lossy.calls == ["Commit", "BatchGetDocuments"]
        assert isinstance(await engine.acquire(request), Grant)
        await engine.withdraw(request)

    run(flavor, scenario)


def test_a_lost_answer_to_a_renewal_or_release_does_no_harm(
    flavor: str, lossy: Front, server: Firestore, collection: str
) -> None:
    """H14, H15: both can be repeated."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(lossy.url_of(collection))
        lease = await client.lock("seat", ttl=TTL_S).acquire()
        lossy.lose = ["BatchWrite"]
        make_due(lease)
        await lab.until(lambda: not lossy.lose, "a renewal without an answer")
        await lab.until_renewed(lease)
        lossy.lose = ["Commit"]
        assert await lease.release()
        assert not server.documents(collection)

    run(flavor, scenario)


def test_many_renewals_are_one_request_and_each_has_its_own_answer(
    flavor: str, lossy: Front, server: Firestore, collection: str
) -> None:
    """H15: of many, one whose document is gone does not spoil the others."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(lossy.url_of(collection))
        engine = client._core.engine
        wishes = [Request(f"seat-{n}", client._core.world.owner(), TTL_S) for n in range(8)]
        grants = [await engine.acquire(wish) for wish in wishes]
        held = [one for one in grants if isinstance(one, Grant)]
        server.delete(collection, "lock:seat-3")
        lossy.calls.clear()
        answers = await engine.renew(held)
        assert [isinstance(one, Grant) for one in answers] == [n != 3 for n in range(8)]
        assert [one.fence for one in answers if isinstance(one, Grant)] == [
            grant.fence for grant in held if grant.name != "seat-3"
        ]
        assert lossy.calls == ["BatchWrite", "BatchGetDocuments"]
        for wish in wishes:
            await engine.withdraw(wish)

    run(flavor, scenario)


def test_a_write_that_others_were_in_the_way_of_is_tried_again(
    flavor: str, lossy: Front, collection: str
) -> None:
    """Firestore aborts what it cannot order, and nothing has happened then."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(lossy.url_of(collection), request_timeout=2.0)
        lossy.refuse["Commit"] = grpc.StatusCode.ABORTED, "too much contention"
        lossy.calls.clear()
        with pytest.raises(Unavailable, match="nothing was done"):
            await client.lock("seat", ttl=TTL_S).try_acquire()
        assert lossy.calls.count("Commit") > 2
        waiting = lab.start(client.lock("seat", ttl=TTL_S, timeout=SOON).acquire())
        seen = len(lossy.calls)
        await lab.until(lambda: len(lossy.calls) > seen, "a try that is aborted")
        lossy.refuse.clear()
        assert await (await waiting.result()).release()

    run(flavor, scenario)


@pytest.mark.parametrize(
    ("code", "details", "error", "advice"),
    [
        (7, "Missing or insufficient permissions.", Denied, "roles/datastore.user"),
        (16, "Request had invalid credentials.", Denied, "gcloud auth application-default login"),
        (5, "The database (default) does not exist for project x", Misconfigured, "database="),
        (3, "Invalid project id", Misconfigured, "refuses the request"),
        (8, "Quota exceeded", Unavailable, "cannot serve now"),
    ],
)
def test_what_firestore_refuses_is_said_with_what_to_do(
    lossy: Front, collection: str, code: int, details: str, error: type[Exception], advice: str
) -> None:
    status = next(one for one in grpc.StatusCode if one.value[0] == code)

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(lossy.url_of(collection))
        for method in ("Commit", "BatchGetDocuments", "RunQuery"):
            lossy.refuse[method] = status, details
        with pytest.raises(error, match=advice):
            await client.lock("seat", ttl=TTL_S).try_acquire()
        with pytest.raises(error, match=advice):
            await client.scan("")

    run("sync", scenario)


def test_an_attempt_is_taken_back_after_its_write_has_ended(
    lossy: Front, server: Firestore, collection: str
) -> None:
    """H09: a cancelled acquire whose write is under way leaves no document behind."""

    async def scenario() -> None:
        async with aio.connect(lossy.url_of(collection)) as client:
            lossy.hold.clear()
            lossy.calls.clear()
            job = asyncio.create_task(client.lock("seat", ttl=TTL_S).acquire())
            await seen(lambda: "Commit" in lossy.calls)
            job.cancel()
            with pytest.raises(asyncio.CancelledError):
                await job
            lossy.hold.set()
            await seen(lambda: lossy.calls.count("Commit") > 1 and not server.documents(collection))

    asyncio.run(scenario())


def test_a_write_under_way_is_waited_for_before_its_attempt_is_taken_back(
    lossy: Front, server: Firestore, collection: str
) -> None:
    """H09: to look before it has ended would find nothing, and leave what it writes."""

    async def scenario() -> None:
        async with aio.connect(lossy.url_of(collection), request_timeout=60) as client:
            await client.holders("seat")
            engine, request = client._core.engine, Request("seat", "1" * 32, TTL_S)
            lossy.hold.clear()
            lossy.calls.clear()
            job = asyncio.create_task(engine.acquire(request))
            await seen(lambda: "Commit" in lossy.calls)
            job.cancel()
            await asyncio.wait({job})
            undo = asyncio.create_task(engine.withdraw(request))
            await asyncio.wait({undo}, timeout=1.0)
            assert lossy.calls == ["Commit"]
            lossy.hold.set()
            await undo
            assert not server.documents(collection)

    asyncio.run(scenario())


def test_a_connection_that_is_cut_and_comes_back_costs_no_lease(
    flavor: str, server: Firestore, collection: str
) -> None:
    """H05: the bytes themselves are cut off, and the client connects again by itself."""

    async def scenario(lab: Lab) -> None:
        with Proxy(server.port) as proxy:
            url = server.url_of(collection).replace(server.address, proxy.address)
            client = await lab.connect(url)
            lease = await client.lock("seat", ttl=TTL_S).acquire()
            proxy.cut()
            with pytest.raises((Unavailable, OutcomeUnknown)):
                await client.inspect("seat")
            proxy.heal()
            make_due(lease)
            await lab.until_renewed(lease)
            assert await lease.release()
            await client.close()

    run(flavor, scenario)
