"""The table: made when it is not there, checked when it is, and what the doctor says of it."""

from __future__ import annotations

import asyncio
import importlib.util
from typing import Any

import pytest

import fencelock
from fencelock import Misconfigured, Unavailable, Unsupported, UsageError, aio
from tests.engines.dynamodb.front import front
from tests.faults.flavors import Lab, run
from tests.servers.dynalite import Dynalite
from tests.servers.dynamodb import DynamoDB, client
from tests.servers.server import free_port
from tests.servers.shared import shared

TTL_S = 60.0


def test_a_table_is_made_once_by_clients_that_come_at_once(flavor: str, locks_url: str) -> None:
    async def scenario(lab: Lab) -> None:
        jobs = [lab.start(lab.connect(locks_url)) for _ in range(4)]
        clients = [await job.result() for job in jobs]
        leases = [await one.lock("seat", ttl=TTL_S).try_acquire() for one in clients]
        (lease,) = [lease for lease in leases if lease is not None]
        assert await lease.release()

    run(flavor, scenario)


def test_a_table_is_not_made_where_that_is_not_wanted(
    locks_url: str, server: Dynalite, table: str
) -> None:
    with pytest.raises(Misconfigured, match=r"is not there.*docs/engines/dynamodb\.md"):
        fencelock.connect(locks_url, create=False).open()
    assert table not in client(server.url).list_tables()["TableNames"]


def test_a_table_with_another_key_is_refused(server: Dynalite) -> None:
    other = f"dynamodb://any:any@{server.address}/{server.fresh_table()}"
    with pytest.raises(Misconfigured, match="has other keys than 'key'"):
        fencelock.connect(other).open()


def test_what_is_remembered_is_no_lock(flavor: str, locks_url: str) -> None:
    """H85: an item beside the lock's has a key that no name can have, and is never listed."""

    async def scenario(lab: Lab) -> None:
        one = await lab.connect(locks_url)
        engine = one._core.engine
        await engine.remember("seat", "recordVersionNumber", 7, TTL_S)
        async with one.lock("seat", ttl=TTL_S), one.lock("seat memo", ttl=TTL_S):
            assert [found.name for found in await one.scan("")] == ["seat", "seat memo"]
            await engine.remember("seat", "recordVersionNumber", 8, TTL_S)
        assert await engine.recall("seat") == {"recordVersionNumber": 8}
        assert await one.scan("") == []
        with pytest.raises(UsageError):
            one.lock("seat\x1fmemo")

    run(flavor, scenario)


def test_names_with_a_prefix_share_the_table_with_others(flavor: str, locks_url: str) -> None:
    """H85: a lock of one prefix is a lock of the whole name without it."""

    async def scenario(lab: Lab) -> None:
        below, bare = await lab.connect(locks_url, prefix="app/"), await lab.connect(locks_url)
        async with below.lock("seat", ttl=TTL_S):
            assert await bare.lock("app/seat", ttl=TTL_S).try_acquire() is None
            assert [found.name for found in await below.scan("se")] == ["seat"]
            assert [found.name for found in await bare.scan("")] == ["app/seat"]
            async with bare.lock("seat", ttl=TTL_S):
                pass

    run(flavor, scenario)


def test_shares_are_refused_before_anything_is_sent(locks_url: str) -> None:
    with fencelock.connect(locks_url) as one:
        with pytest.raises(Unsupported):
            one.semaphore("seats", limit=2).acquire()


@pytest.mark.parametrize(
    ("url", "options", "why"),
    [
        ("dynamodb://eu-central-1", {}, "a DynamoDB table has 3 to 255"),
        ("dynamodb://eu-central-1/a", {}, "a DynamoDB table has 3 to 255"),
        ("dynamodb://eu-central-1/a/b/c", {}, "a DynamoDB table has 3 to 255"),
        ("dynamodb://localhost/locks", {}, "names one region of AWS"),
        ("dynamodb:///locks", {}, "names one region of AWS"),
        ("dynamodb://eu-west-1,eu-west-2/locks", {}, "names one region of AWS"),
        ("dynamodb://key@eu-west-1/locks", {}, "comes with its secret"),
        ("dynamodb://a:1/locks", {"endpoint": "http://b:2"}, "leave endpoint= out"),
        ("dynamodb://eu-west-1/locks", {"region": "x"}, "has no option 'region'"),
    ],
)
def test_a_url_that_cannot_be_meant_is_refused(url: str, options: Any, why: str) -> None:
    with pytest.raises(Misconfigured, match=why):
        fencelock.connect(url, **options).open()


def test_a_server_that_is_not_there_is_said_to_be(flavor: str) -> None:
    async def scenario(lab: Lab) -> None:
        with pytest.raises(Unavailable, match="nothing was done"):
            _ = await lab.connect(f"dynamodb://any:any@127.0.0.1:{free_port()}/locks")

    run(flavor, scenario)


def test_the_package_for_asyncio_is_named_when_it_is_missing(
    locks_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(
        "fencelock.engines.dynamodb.wire.find_spec",
        lambda name: None if name == "aiobotocore" else found(name),
    )

    async def connect() -> None:
        _ = await aio.connect(locks_url)

    with pytest.raises(Misconfigured, match=r"aiobotocore: pip install .*dynamodb-asyncio"):
        asyncio.run(connect())


def test_the_doctor_finds_nothing_wrong_with_a_table_of_ours(flavor: str, table: str) -> None:
    """moto knows the time to live of a table, and that is all that is asked of it here."""

    async def scenario(lab: Lab) -> None:
        server = shared(DynamoDB)
        ours = await lab.connect(f"dynamodb://any:any@{server.address}/{flavor}-{table}")
        findings = {found.topic: found for found in await ours._core.engine.diagnose()}
        assert findings["items"].level == "ok"
        assert findings["table"].level == "ok"

    run(flavor, scenario)


def test_a_server_that_tells_the_item_is_not_asked_for_it(flavor: str) -> None:
    """DynamoDB and moto tell it with the refusal, dynalite does not: one request, or two."""

    async def scenario(lab: Lab, address: str) -> list[str]:
        with front(address) as seen:
            one = await lab.connect(seen.url, prefix=f"told-{flavor}:")
            other = await lab.connect(seen.url, prefix=f"told-{flavor}:")
            lease = await one.lock("seat", ttl=TTL_S, meta={"job": "x"}).acquire()
            seen.calls.clear()
            assert await other.lock("seat").try_acquire() is None
            calls = [*seen.calls]
            assert await lease.release()
            await one.close()
            await other.close()
            return calls

    assert run(flavor, lambda lab: scenario(lab, shared(DynamoDB).address)) == ["UpdateItem"]
    assert run(flavor, lambda lab: scenario(lab, shared(Dynalite).address)) == [
        "UpdateItem",
        "GetItem",
    ]
