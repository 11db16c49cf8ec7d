"""Users and passwords, TLS, forks, the doctor, and transactions of a user's own."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import fencelock
from fencelock import Denied, LeaseLost, Misconfigured, Unavailable, UsageError, aio
from fencelock._client import administration
from fencelock.engines.etcd.doctor import version_findings
from tests.faults.flavors import SOON, Lab, run
from tests.servers.etcd import Etcd, EtcdCluster
from tests.servers.tls import make_certificate

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def guarded() -> Iterator[Etcd]:
    """A member that wants a password and forgets a login after a second."""
    with Etcd(settings=["--auth-token-ttl", "1"]) as etcd:
        for words in (
            ("user", "add", "root:secret"),
            ("user", "grant-role", "root", "root"),
            ("role", "add", "locker"),
            ("role", "grant-permission", "locker", "--prefix=true", "readwrite", "locks/"),
            ("user", "add", "worker:pass word"),
            ("user", "grant-role", "worker", "locker"),
            ("auth", "enable"),
        ):
            done = etcd.ctl(*words)
            assert done.returncode == 0, done.stderr
        yield etcd


def test_a_user_locks_what_its_role_allows(flavor: str, guarded: Etcd) -> None:
    """A role for a prefix is all that a client needs."""

    async def scenario(lab: Lab) -> None:
        url = f"etcd://worker:pass%20word@{guarded.address}"
        client = await lab.connect(url, prefix="locks/")
        async with client.lock("seat", ttl=60) as lease:
            waiting = lab.start(client.lock("seat", ttl=60).acquire(timeout=SOON))
            await lab.until_queued(client, "seat", 1)
            link = client._core.engine._cluster  # type: ignore[attr-defined]  # etcd's
            link._about = (("token", "ended.1"),)
            await lab.until_renewed(lease)
            assert link._about != (("token", "ended.1"),)
            await lab.let_pass(1.5)  # longer than the server knows a login
            await lab.until_renewed(lease)
        await (await waiting.result()).release()
        with pytest.raises(Denied):
            _ = await lab.connect(url, prefix="elsewhere/")
        with pytest.raises(Denied):
            _ = await lab.connect(f"etcd://worker:wrong@{guarded.address}", prefix="locks/")
        with pytest.raises(Denied):
            _ = await lab.connect(f"etcd://{guarded.address}", prefix="locks/")

    run(flavor, scenario)


def test_tls_is_spoken_and_the_server_checked(flavor: str, tmp_path: Path) -> None:
    certificate = make_certificate(tmp_path)
    with Etcd(certificate=certificate) as etcd:

        async def scenario(lab: Lab) -> None:
            client = await lab.connect(etcd.url, ca=str(certificate[0]))
            async with client.lock("seat") as lease:
                assert lease
            for url in (f"{etcd.url}?tls=yes", etcd.url):  # an unknown authority; no TLS at all
                with pytest.raises(Unavailable):
                    _ = await lab.connect(url, request_timeout=1)

        run(flavor, scenario)


@pytest.mark.parametrize(
    ("url", "options", "word"),
    [
        ("etcd://", {}, "host"),
        ("etcd://localhost/locks", {}, "prefix"),
        ("etcd://localhost", {"request_timeout": 0}, "request_timeout"),
        ("etcd://localhost", {"tls": "perhaps"}, "yes or no"),
        ("etcd://localhost", {"prefix": "a\0b"}, "printable"),
        ("etcd://localhost", {"cert": "/nowhere"}, "cert and key"),
        ("etcd://localhost", {"ca": "/nowhere"}, "cannot be read"),
        ("etcd://localhost", {"tls": "no", "ca": "/nowhere"}, "contradict"),
    ],
)
def test_a_wrong_address_is_refused_in_words(url: str, options: Any, word: str) -> None:
    with pytest.raises(Misconfigured, match=word):
        fencelock.connect(url, **options).open()


def test_nobody_at_the_address_is_said_at_once() -> None:
    with pytest.raises(Unavailable, match="nothing happened"):
        fencelock.connect("etcd://127.0.0.1:1,127.0.0.1:2").open()


def transact(etcd: Etcd, comparison: fencelock.etcd.Comparison, value: str) -> bool:
    """A user's own write by way of the JSON gateway, guarded by a lease."""
    written = {
        "key": base64.b64encode(b"seat").decode(),
        "value": base64.b64encode(value.encode()).decode(),
    }
    body = {"compare": [comparison.json()], "success": [{"request_put": written}]}
    request = urllib.request.Request(
        f"http://{etcd.address}/v3/kv/txn", json.dumps(body).encode(), method="POST"
    )
    with urllib.request.urlopen(request, timeout=10) as answer:
        return bool(json.load(answer).get("succeeded", False))


def test_a_write_of_ones_own_is_refused_when_the_lease_is_over(etcd: Etcd, prefix: str) -> None:
    with fencelock.connect(etcd.url, prefix=prefix) as client:
        old = client.lock("seat").acquire()
        comparison = fencelock.etcd.compare(old)
        assert comparison.create_revision == old.fence
        assert transact(etcd, comparison, "first") is True
        assert client.revoke("seat", "to see") is True
        with client.lock("seat") as new:
            assert transact(etcd, comparison, "too late") is False
            assert transact(etcd, fencelock.etcd.compare(new), "second") is True
        old.release()
        with pytest.raises(LeaseLost):
            fencelock.etcd.compare(old)
    assert etcd.ctl("get", "--print-value-only", "seat").stdout.strip() == "second"
    with fencelock.connect("memory://") as client, client.lock("seat") as lease:
        with pytest.raises(UsageError, match="etcd"):
            fencelock.etcd.compare(lease)


FORKER = """
import asyncio, os, sys
import fencelock
from fencelock import aio
from tests.faults.flavors import make_due

def child(url):
    asyncio._set_running_loop(None)
    with fencelock.connect(url) as client:
        with client.lock("another", ttl=60) as lease:
            os._exit(7 if client.lock("seat", ttl=60).try_acquire() is None and lease else 1)

async def main(url):
    async with aio.connect(url) as client:
        lease = await client.lock("seat", ttl=60).acquire()
        if (pid := os.fork()) == 0:
            child(url)
        _, status = await asyncio.get_running_loop().run_in_executor(None, os.waitpid, pid, 0)
        renewals = lease._hold.renewals
        while lease and lease._hold.renewals < renewals + 2:
            make_due(lease)
            await asyncio.sleep(0.01)
        print(os.waitstatus_to_exitcode(status), bool(lease), await lease.release())

asyncio.run(main(sys.argv[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_child_of_a_process_with_asyncio_has_connections_of_its_own(
    etcd: Etcd, prefix: str
) -> None:
    """H18: what the child does on its own connections does not touch those of its parent."""
    command = [sys.executable, "-W", "ignore", "-c", FORKER, f"{etcd.url}?prefix={prefix}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["7", "True", "True"], done.stderr


def test_the_doctor_sees_quorum_members_and_version(cluster: EtcdCluster) -> None:
    with fencelock.connect(cluster.url, request_timeout=9) as client:
        found = {finding.topic: finding for finding in diagnose(client)}
        assert found["quorum"].text.startswith("a majority answered in ")
        assert found["quorum"].level != "problem"  # on a busy machine it may be slow
        assert found["members"].level == "ok"
        assert "version" in found
        leader = cluster.leader()
        one, other = cluster.others(leader)  # without an election the rest goes on as before
        one.kill()
        levels = [finding.level for finding in diagnose(client) if finding.topic == "member"]
        assert sorted(levels) == ["ok", "ok", "warning"]
        other.kill()
        (quorum,) = [finding for finding in diagnose(client) if finding.topic == "quorum"]
        assert quorum.level == "problem"


def diagnose(client: fencelock.Client) -> list[Any]:
    from fencelock.worlds.threads import drive

    return drive(administration.diagnose(client._core))


def test_the_doctor_sees_it_in_asyncio_too(etcd: Etcd) -> None:
    async def main() -> None:
        async with aio.connect(etcd.url) as client:
            found = await administration.diagnose(client._core)
            assert {"quorum", "member", "members"} <= {finding.topic for finding in found}

    asyncio.run(main())


@pytest.mark.parametrize(
    ("version", "levels"),
    [
        ("3.3.25", ["problem"]),
        ("3.4.23", ["note", "note", "warning"]),
        ("3.4.31", ["note", "note"]),
        ("3.5.2", ["problem", "warning"]),
        ("3.5.12", ["warning"]),
        ("3.5.13", ["ok"]),
        ("3.6.0-rc.1", ["ok"]),
        ("tomorrow", ["note"]),
    ],
)
def test_what_is_known_of_a_version_is_told(version: str, levels: list[str]) -> None:
    assert sorted(finding.level for finding in version_findings(version)) == levels
