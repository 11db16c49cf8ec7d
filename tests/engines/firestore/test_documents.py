"""What stands in the collection: names of any kind, and documents of other programs."""

from __future__ import annotations

from typing import Any

import pytest

import fencelock
from fencelock import Misconfigured, Unavailable, Unsupported
from fencelock.engines.firestore.documents import escaped, id_of, next_id, unescaped
from tests.faults.flavors import Lab, run
from tests.servers.firestore import Firestore
from tests.servers.server import free_port

TTL_S = 60.0
NAMES = [
    "a",
    "A",
    "a/b",
    "a~b",
    "a~sb",
    "a~tsb",
    "a%2Fb",
    ".",
    "..",
    "...",
    "__x__",
    "__name__",
    "lock:a",
    "memo:a",
    "revoked:a",
    " a",
    "a ",
    "é",
    "e\u0301",
    "🔒",
    "\U0010ffff",
    "a`b\\c",
    "/" * 512,
    "~" * 512,
    "ü" * 256,
]


def test_names_of_any_kind_are_locks_of_their_own(flavor: str, locks_url: str) -> None:
    """H85: none collides with another, none is refused, and all are listed as they are."""

    async def scenario(lab: Lab) -> None:
        one, other = await lab.connect(locks_url), await lab.connect(locks_url)
        leases = [await one.lock(name, ttl=TTL_S).acquire() for name in NAMES]
        for name in NAMES:
            assert await other.lock(name, ttl=TTL_S).try_acquire() is None
        assert sorted(held.name for held in await other.scan("")) == sorted(NAMES)
        assert [held.name for held in await other.scan("__")] == ["__name__", "__x__"]
        assert [held.name for held in await other.scan("a/")] == ["a/b"]
        assert [held.name for held in await other.scan("\U0010ffff")] == ["\U0010ffff"]
        for lease in leases:
            assert await lease.release()
        assert not await other.scan("")

    run(flavor, scenario)


def test_an_id_is_read_back_as_the_name_that_it_came_from() -> None:
    assert [unescaped(escaped(name)) for name in NAMES] == NAMES
    assert len({id_of("lock:", name) for name in NAMES}) == len(NAMES)
    assert max(len(id_of("lock:", name).encode()) for name in NAMES) < 1500
    assert (next_id("lock:"), next_id("a\ud7ff")) == ("lock;", "a\ue000")
    assert next_id("a\U0010ffff\U0010ffff") == "b"


def test_prefixes_and_collections_keep_apart(
    flavor: str, server: Firestore, collection: str
) -> None:
    async def scenario(lab: Lab) -> None:
        url = server.url_of(collection)
        clients = [
            await lab.connect(url),
            await lab.connect(url, prefix="a/"),
            await lab.connect(url, prefix="a/b"),
            await lab.connect(server.url_of(f"{collection}/doc/inner")),
            await lab.connect(url, database="other"),
        ]
        leases = [await client.lock("seat", ttl=TTL_S).acquire() for client in clients]
        assert [len(await client.holders("seat")) for client in clients] == [1] * 5
        assert [held.name for held in await clients[1].scan("")] == ["bseat", "seat"]
        assert sorted(held.name for held in await clients[0].scan("")) == [
            "a/bseat",
            "a/seat",
            "seat",
        ]
        for lease in leases:
            assert await lease.release()

    run(flavor, scenario)


def test_a_document_of_another_program_is_neither_taken_nor_deleted(
    flavor: str, locks_url: str, server: Firestore, collection: str
) -> None:
    async def scenario(lab: Lab) -> None:
        theirs = {"ttl": "soon", "sweepAfter": "1"}
        server.put(collection, "lock:seat", theirs)
        server.put(collection, "seat", theirs)
        client = await lab.connect(locks_url)
        for attempt in client.lock("seat").try_acquire, client.lock("seat", timeout=1.0).acquire:
            with pytest.raises(Misconfigured, match="is another program's: give the locks"):
                await attempt()
        with pytest.raises(Misconfigured):
            await client.holders("seat")
        assert not await client.scan("")
        found = {finding.topic: finding for finding in await client._core.engine.diagnose()}
        assert found["documents"].level == "warning"
        assert sorted(server.documents(collection)) == ["lock:seat", "seat"]

    run(flavor, scenario)


def test_who_is_revoked_learns_why_and_the_word_is_deleted_in_the_end(
    flavor: str, locks_url: str, server: Firestore, collection: str
) -> None:
    async def scenario(lab: Lab) -> None:
        one, other = await lab.connect(locks_url), await lab.connect(locks_url)
        lease = await one.lock("seat", ttl=TTL_S).acquire()
        assert await other.revoke("seat", "maintenance")
        async with other.lock("seat", ttl=TTL_S) as next_one:
            assert next_one.fence > lease.fence
            with pytest.raises(fencelock.Revoked, match="maintenance"):
                await lease.renew()
        assert not await lease.release()
        assert not await other.revoke("seat", "again")
        assert all(id.startswith("revoked:") for id in server.documents(collection))

    run(flavor, scenario)


def test_what_is_remembered_has_fields_of_any_name(flavor: str, locks_url: str) -> None:
    async def scenario(lab: Lab) -> None:
        engine = (await lab.connect(locks_url))._core.engine
        items = ["a", "a.b", "a`b", "a\\b", "", "__x__", "ttl", "é/~"]
        for number, item in enumerate(items, 5):
            await engine.remember("seat", item, number, TTL_S)
            await engine.remember("seat", item, 3, TTL_S)
        assert await engine.recall("seat") == {item: n for n, item in enumerate(items, 5)}
        assert not (await engine.inspect("seat")).holders
        await engine.forget("seat")
        assert not await engine.recall("seat")

    run(flavor, scenario)


def test_what_it_cannot_do_names_an_engine_that_can(locks_url: str) -> None:
    with fencelock.connect(locks_url) as one:
        with pytest.raises(Unsupported, match="use sqlite, redis"):
            one.semaphore("seats", limit=2).acquire()
        with pytest.raises(Unsupported, match="use sqlite, redis"):
            one.rwlock("seats").read().acquire()


def test_the_doctor_says_that_it_is_an_emulator(flavor: str, locks_url: str) -> None:
    async def scenario(lab: Lab) -> None:
        ours = await lab.connect(locks_url)
        findings = {found.topic: found for found in await ours._core.engine.diagnose()}
        assert {topic: found.level for topic, found in findings.items()} == {
            "database": "ok",
            "emulator": "warning",
            "documents": "ok",
            "clock": "ok",
        }

    run(flavor, scenario)


@pytest.mark.parametrize(
    ("url", "options", "why"),
    [
        ("firestore://project", {}, "a Firestore collection cannot be ''"),
        ("firestore://project/a/b", {}, "a Firestore collection cannot be 'a/b'"),
        ("firestore://project/__locks__", {}, "a Firestore collection cannot be"),
        ("firestore://project/a//b", {}, "a Firestore collection cannot be"),
        ("firestore:///locks", {}, "names no project of Google Cloud"),
        ("firestore://Project/locks", {}, "names no project of Google Cloud"),
        ("firestore://a,b/locks", {}, "names no project of Google Cloud"),
        ("firestore://localhost:8080/locks", {}, "named by emulator=host:port"),
        ("firestore://user@project/locks", {}, "GOOGLE_APPLICATION_CREDENTIALS"),
        ("firestore://project/locks", {"emulator": "here"}, "emulator must be host:port"),
        ("firestore://project/locks", {"prefix": "/" * 300}, "prefix must be shorter"),
        ("firestore://project/locks", {"region": "x"}, "has no option 'region'"),
    ],
)
def test_a_url_that_cannot_be_meant_is_refused(url: str, options: Any, why: str) -> None:
    with pytest.raises(Misconfigured, match=why):
        fencelock.connect(url, **options).open()


def test_an_emulator_that_is_not_there_is_said_to_be(flavor: str) -> None:
    async def scenario(lab: Lab) -> None:
        with pytest.raises(Unavailable, match="nothing was done"):
            _ = await lab.connect(f"firestore://project/locks?emulator=127.0.0.1:{free_port()}")

    run(flavor, scenario)


def test_the_emulator_of_the_environment_is_used(
    server: Firestore, collection: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FIRESTORE_EMULATOR_HOST", server.address)
    with fencelock.connect(f"firestore://fencelock-tests/{collection}") as client:
        with client.lock("seat", ttl=TTL_S):
            assert list(server.documents(collection)) == ["lock:seat"]


def test_without_credentials_it_is_said_how_to_get_them(
    flavor: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.delenv("FIRESTORE_EMULATOR_HOST", raising=False)
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "none.json"))

    async def scenario(lab: Lab) -> None:
        with pytest.raises(fencelock.Denied, match="gcloud auth application-default login"):
            _ = await lab.connect("firestore://project/locks")

    run(flavor, scenario)
