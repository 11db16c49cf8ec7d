"""The URL, the table, what is said where something is missing, and what the doctor finds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import fencelock
from fencelock import Denied, Misconfigured, Unsupported, UsageError
from fencelock.engines.spanner.settings import settings
from fencelock.engines.spanner.tables import schema
from fencelock.engines.spanner.wire import errors
from fencelock.engines.url import parse
from fencelock.worlds.threads import drive
from tests.faults.flavors import Lab, run
from tests.servers.spanner import INSTANCE, PROJECT, Spanner

TTL_S = 60.0
NAMES = ("a", "A", "a ", "ä", "a\u0308", "a/b", "a%", "a_", "`", "'", "é" * 256, "x" * 512, "🔒")


def test_a_table_is_made_once_by_clients_that_come_at_once(flavor: str, locks_url: str) -> None:
    async def scenario(lab: Lab) -> None:
        jobs = [lab.start(lab.connect(locks_url)) for _ in range(4)]
        clients = [await job.result() for job in jobs]
        leases = [await one.lock("seat", ttl=TTL_S).try_acquire() for one in clients]
        (lease,) = [lease for lease in leases if lease is not None]
        assert await lease.release()

    run(flavor, scenario)


def test_a_table_is_not_made_where_that_is_not_wanted(server: Spanner, database: str) -> None:
    url = server.url(database, create="no")
    with pytest.raises(Misconfigured, match=r"has no table 'fencelock'.*fencelock schema spanner"):
        fencelock.connect(url).open()
    server.change(database, schema().rstrip().removesuffix(";"))
    with fencelock.connect(url) as client, client.lock("seat", ttl=TTL_S):
        pass


def test_tables_and_databases_are_apart(flavor: str, server: Spanner, database: str) -> None:
    """H85: the same name in each is a lock of its own."""

    async def scenario(lab: Lab) -> None:
        urls = [server.url(database), server.url(database, table="Other_1"), server.fresh_url()]
        clients = [await lab.connect(url) for url in urls]
        leases = [await one.lock("seat", ttl=TTL_S).acquire() for one in clients]
        for one in clients:
            assert await one.lock("seat", ttl=TTL_S).try_acquire() is None
            assert [found.name for found in await one.scan("")] == ["seat"]
        for lease in leases:
            assert await lease.release()

    run(flavor, scenario)


def test_names_that_look_alike_are_different(flavor: str, locks_url: str) -> None:
    """H85: whatever the case, the accents and the length."""

    async def scenario(lab: Lab) -> None:
        one, other = await lab.connect(locks_url), await lab.connect(locks_url)
        leases = [await one.lock(name, ttl=TTL_S).acquire(timeout=5) for name in NAMES]
        for name in NAMES:
            assert await other.lock(name).try_acquire() is None, name
        assert sorted(held.name for held in await other.scan("")) == sorted(NAMES)
        assert [held.name for held in await other.scan("a_")] == ["a_"]
        for lease in leases:
            assert await lease.release()
        assert await other.scan("") == []

    run(flavor, scenario)


def test_what_is_remembered_is_no_lock(flavor: str, locks_url: str) -> None:
    """H85: a row beside the lock's has a key that no name can have, and is never listed."""

    async def scenario(lab: Lab) -> None:
        one = await lab.connect(locks_url)
        engine = one._core.engine
        await engine.remember("seat", "n", 8, TTL_S)
        async with one.lock("seat", ttl=TTL_S), one.lock("seat memo", ttl=TTL_S):
            assert [found.name for found in await one.scan("")] == ["seat", "seat memo"]
            await engine.remember("seat", "n", 7, 0.001)
        assert await engine.recall("seat") == {"n": 8}
        await engine.forget("seat")
        assert await engine.recall("seat") == {}
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


def test_shares_are_refused_and_engines_named_that_have_them(locks_url: str) -> None:
    with fencelock.connect(locks_url) as one:
        with pytest.raises(Unsupported, match="postgresql"):
            one.semaphore("seats", limit=2).acquire()
        with pytest.raises(Unsupported, match="postgresql"):
            one.rwlock("seats").read().acquire()


@pytest.mark.parametrize(
    ("url", "options", "why"),
    [
        ("spanner://project/instance", {}, "names no database by ''"),
        ("spanner://project/instance/Data", {}, "names no database by 'Data'"),
        ("spanner://project", {}, "names no instance by ''"),
        ("spanner:///instance/database", {}, "names no project of Google Cloud by ''"),
        ("spanner://one,two/instance/database", {}, "names no project of Google Cloud"),
        ("spanner://project/instance/database/locks", {}, "behind the database"),
        ("spanner://localhost:9010/instance/database", {}, "emulator=host:port"),
        ("spanner://me:secret@project/instance/database", {}, "credentials are not part"),
        ("spanner://project/instance/database", {"table": "a-b"}, "table must be a letter"),
        ("spanner://project/instance/database", {"tables": "x"}, "has no option 'tables'"),
    ],
)
def test_a_url_that_cannot_be_meant_is_refused(url: str, options: Any, why: str) -> None:
    with pytest.raises(Misconfigured, match=why):
        fencelock.connect(url, **options).open()


@pytest.mark.parametrize(
    ("instance", "name", "why"),
    [
        (INSTANCE, "not-there", "Database not found.*create it, or correct the URL"),
        ("not-there", "locks", "Instance not found.*create it, or correct the URL"),
    ],
)
def test_what_is_not_there_is_said(
    flavor: str, server: Spanner, instance: str, name: str, why: str
) -> None:
    async def scenario(lab: Lab) -> None:
        url = f"spanner://{PROJECT}/{instance}/{name}?emulator={server.address}"
        with pytest.raises(Misconfigured, match=why):
            _ = await lab.connect(url)

    run(flavor, scenario)


def test_a_database_of_another_dialect_is_refused(server: Spanner) -> None:
    server.create_database("of-postgres", dialect="POSTGRESQL")
    with pytest.raises(Misconfigured, match="PostgreSQL's dialect"):
        fencelock.connect(server.url("of-postgres")).open()


def test_credentials_that_are_missing_are_said_to_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SPANNER_EMULATOR_HOST", raising=False)
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "not-there.json"))
    with pytest.raises(Denied, match=r"no credentials.*gcloud auth application-default login"):
        fencelock.connect("spanner://project/instance/database").open()


@pytest.mark.parametrize(
    ("code", "words", "method", "kind", "told"),
    [
        ("PERMISSION_DENIED", "no", "Commit", Denied, "roles/spanner.databaseUser"),
        ("UNAUTHENTICATED", "no", "ExecuteSql", Denied, "gcloud auth"),
        ("RESOURCE_EXHAUSTED", "quota", "Commit", fencelock.Unavailable, "nothing was done"),
        ("UNAVAILABLE", "Socket closed", "Commit", fencelock.OutcomeUnknown, "may have taken"),
        ("UNAVAILABLE", "failed to connect", "Commit", fencelock.Unavailable, "nothing was done"),
        ("UNAVAILABLE", "Socket closed", "ExecuteSql", fencelock.Unavailable, "nothing was done"),
        ("DEADLINE_EXCEEDED", "late", "Commit", fencelock.OutcomeUnknown, "may have taken"),
        ("INTERNAL", "oh", "Rollback", fencelock.Unavailable, "nothing was done"),
        ("INVALID_ARGUMENT", "oh", "Commit", Misconfigured, "refuses the request"),
    ],
)
def test_an_error_says_what_happened(
    code: str, words: str, method: str, kind: type[Exception], told: str
) -> None:
    found = settings(parse("spanner://project/instance/database", {}))
    error = errors.map_error(found, method, code, words)
    assert isinstance(error, kind)
    assert told in str(error)


def test_the_package_is_named_when_it_is_missing() -> None:
    block = "import sys; sys.modules['google.cloud.spanner_v1'] = None; import fencelock.__main__"
    code = f"{block}; import fencelock; fencelock.connect('spanner://project/instance/database')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "spanner:// needs the package google.cloud.spanner_v1: pip install" in done.stderr
    assert "[spanner]" in done.stderr


def test_the_package_is_loaded_by_whoever_connects_and_not_before() -> None:
    code = (
        "import sys, fencelock; c = fencelock.connect('spanner://project/instance/database');"
        "print('grpc' in sys.modules, 'google.cloud.spanner_v1' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


def test_the_convention_of_the_emulator_is_kept(
    server: Spanner, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPANNER_EMULATOR_HOST", server.address)
    with fencelock.connect(f"spanner://{PROJECT}/{INSTANCE}/{database}") as client:
        with client.lock("seat", ttl=TTL_S):
            assert server.execute(database, "SELECT COUNT(*) FROM fencelock") == [["1"]]
        topics = [found.topic for found in drive(client._core.engine.diagnose())]
        assert "emulator" in topics


def test_the_doctor_warns_of_rows_that_stay(flavor: str, server: Spanner, database: str) -> None:
    async def scenario(lab: Lab) -> None:
        ours = await lab.connect(server.url(database))
        findings = {found.topic: found for found in await ours._core.engine.diagnose()}
        assert {topic: found.level for topic, found in findings.items()} == {
            "clock": "ok",
            "emulator": "warning",
            "table": "ok",
            "rows": "ok",
        }
        server.change(database, "ALTER TABLE fencelock DROP ROW DELETION POLICY")
        findings = {found.topic: found for found in await ours._core.engine.diagnose()}
        assert findings["rows"].level == "warning"
        server.change(database, findings["rows"].advice)
        findings = {found.topic: found for found in await ours._core.engine.diagnose()}
        assert findings["rows"].level == "ok"

    run(flavor, scenario)
