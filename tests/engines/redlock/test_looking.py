"""What is seen of a lock that lives at several nodes, and what a doctor says of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from fencelock import Denied, Misconfigured, Revoked, Unavailable
from fencelock._client import administration
from tests.faults.flavors import Lab, run
from tests.servers.clock import Clock
from tests.servers.redis import Redis
from tests.servers.redlock import Nodes, redlock
from tests.servers.server import until


def test_a_holder_is_seen_while_a_minority_hangs(flavor: str, nodes: Nodes) -> None:
    async def scenario(lab: Lab) -> None:
        client = await lab.connect(nodes.url, node_timeout=3)
        lease = await client.lock("seat", ttl=60).acquire()
        nodes.nodes[0].pause()
        try:
            (holding,) = await client.holders("seat")
            assert holding.fence == lease.fence
            assert [found.name for found in await client.scan("")] == ["seat"]
            nodes.nodes[1].pause()
            with pytest.raises(Unavailable, match="2 are needed"):
                await client.holders("seat")
            with pytest.raises(Unavailable, match="2 are needed"):
                await client.scan("")
        finally:
            nodes.nodes[0].resume()
            nodes.nodes[1].resume()
        assert await lease.release() is True

    run(flavor, scenario)


def test_a_minority_is_no_holder(flavor: str, nodes: Nodes) -> None:
    """What an attempt that failed left at one node is not shown, and cannot be revoked."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(nodes.url)
        nodes.nodes[0].cli("SET", "seat", "somebody", "PX", 60_000)
        nodes.nodes[0].cli("SET", "{seat}:fencelock", "5 somebody 1 60000 0 {}", "PX", 60_000)
        assert await client.holders("seat") == []
        assert await client.scan("") == []
        assert await client.revoke("seat", "to see") is False
        assert nodes.nodes[0].cli("GET", "seat") == "somebody"

    run(flavor, scenario)


def test_a_revoked_holder_is_told_why_though_a_node_is_down(flavor: str, nodes: Nodes) -> None:
    async def scenario(lab: Lab) -> None:
        client, admin = await lab.connect(nodes.url), await lab.connect(nodes.url)
        lease = await client.lock("seat", ttl=60).acquire()
        await lab.until(lambda: all(nodes.cli("EXISTS", "seat")), "all nodes to have it")
        nodes.nodes[2].kill()
        assert await admin.revoke("seat", "maintenance") is True
        with pytest.raises(Revoked, match="maintenance"):
            await lease.renew()
        assert await lease.release() is False

    run(flavor, scenario)


def test_a_revocation_is_about_the_holder_and_nobody_else(flavor: str, nodes: Nodes) -> None:
    """Another's attempt at a node that the holder does not have stays as it is."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(nodes.url)
        nodes.nodes[2].cli("SET", "seat", "somebody", "PX", 60_000)
        lease = await client.lock("seat", ttl=60).acquire()
        assert await client.revoke("seat", "maintenance") is True
        with pytest.raises(Revoked, match="maintenance"):
            await lease.renew()
        assert nodes.cli("GET", "seat") == [None, None, "somebody"]

    run(flavor, scenario)


def test_scripts_that_the_nodes_forgot_are_sent_again(flavor: str, nodes: Nodes) -> None:
    """H40: SCRIPT FLUSH while held, at all nodes."""

    async def scenario(lab: Lab) -> None:
        client, other = await lab.connect(nodes.url), await lab.connect(nodes.url)
        lease = await client.lock("seat", ttl=60).acquire()
        nodes.cli("SCRIPT", "FLUSH")
        await lease.renew()
        nodes.cli("SCRIPT", "FLUSH")
        assert await other.lock("seat").try_acquire() is None
        assert [holding.fence for holding in await other.holders("seat")] == [lease.fence]
        nodes.cli("SCRIPT", "FLUSH")
        assert await lease.release() is True
        await lab.until(lambda: not any(nodes.cli("EXISTS", "seat")), "all to release it")

    run(flavor, scenario)


def test_nodes_are_reached_by_tls_and_with_a_password(flavor: str) -> None:
    with Nodes(password="sésame", tls=True) as nodes:
        addresses = [f"127.0.0.1:{node.tls_port}" for node in nodes.nodes]
        url = redlock(*addresses).replace("//", f"//{nodes.nodes[0].credentials}")
        url, plain = f"{url}?tls=yes&verify=no", f"{redlock(*addresses)}?tls=yes&verify=no"

        async def scenario(lab: Lab) -> None:
            client, other = await lab.connect(url), await lab.connect(url)

            async def take_turns(number: int) -> None:
                for _ in range(3):
                    async with client.lock(
                        f"seat {number}", ttl=60, meta={"x": "y" * 2000}
                    ) as held:
                        await held.renew()
                        assert await other.lock(f"seat {number}").try_acquire() is None

            for job in [lab.start(take_turns(number)) for number in range(5)]:
                await job.result()
            with pytest.raises(Denied):
                _ = await lab.connect(plain)

        run(flavor, scenario)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("redlock://", "names no node"),
        ("redlock://a:1,b:1,a:1", "names a:1 more than once"),
        ("redlock://a,b,a:6379", "names a:6379 more than once"),
        ("redlock://a,b,c?fence=perhaps", "fence must be yes or no"),
        ("redlock://a,b,c?replicas=2", "redlock has no option 'replicas'"),
        ("redlock://a,b,c?node_timeout=0", "node_timeout must be a number"),
        ("redlock://a,b,c/x", "no number of a database"),
    ],
)
def test_an_address_that_makes_no_sense_is_refused(flavor: str, url: str, why: str) -> None:
    async def scenario(lab: Lab) -> None:
        with pytest.raises(Misconfigured, match=why):
            _ = await lab.connect(url)

    run(flavor, scenario)


def test_a_replica_is_no_node(flavor: str, nodes: Nodes) -> None:
    """It answers, and takes no lock: two of three are enough, one is not."""
    with Redis(replica_of=nodes.nodes[0]) as one, Redis(replica_of=nodes.nodes[0]) as two:

        async def scenario(lab: Lab) -> None:
            enough = redlock(nodes.nodes[0].address, nodes.nodes[1].address, one.address)
            client = await lab.connect(enough)
            async with client.lock("seat", ttl=60):
                pass
            client = await lab.connect(redlock(nodes.nodes[0].address, one.address, two.address))
            with pytest.raises(Misconfigured, match="must be independent primaries"):
                await client.lock("other", ttl=60).acquire(timeout=0)

        run(flavor, scenario)


def test_the_doctor_looks_at_every_node(flavor: str, tmp_path: Path) -> None:
    """Eviction, missing persistence, clocks that differ, a node that is down, an even number."""
    clock = Clock(tmp_path)
    sound = Redis(persistence="always")
    cache = Redis(maxmemory="100mb", eviction="allkeys-lru", persistence="always")
    late = Redis()
    late.environment |= clock.environment
    with sound, cache, late, Redis() as dead:
        expected = late.time() - 3600
        clock.step(-3600)
        until(lambda: abs(late.time() - expected) < 60, "the clock to step")
        url = redlock(*(server.address for server in (sound, cache, late, dead)))

        async def scenario(lab: Lab) -> None:
            client = await lab.connect(url)
            dead.kill()
            findings = await administration.diagnose(client._core)
            told = {(finding.level, finding.topic, finding.text) for finding in findings}

            def tells(level: str, topic: str, *words: str) -> bool:
                return any(
                    (level, topic) == found[:2] and all(word in found[2] for word in words)
                    for found in told
                )

            assert tells("note", "nodes", "3 must agree, 1 may fail")
            assert tells("warning", "nodes", dead.address, "does not serve")
            assert tells("problem", "eviction", cache.address)
            assert tells("ok", "eviction", sound.address)
            assert tells("warning", "persistence", late.address)
            assert tells("note", "restart", late.address)
            assert not tells("note", "restart", sound.address)
            assert tells("warning", "clocks", late.address, "apart")

        if flavor == "asyncio":
            run(flavor, scenario)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_few_nodes_are_a_warning(count: int, caplog: pytest.LogCaptureFixture) -> None:
    with Nodes(count) as nodes:

        async def scenario(lab: Lab) -> None:
            client = await lab.connect(nodes.url)
            async with client.lock("seat", ttl=60):
                pass

        run("sync", scenario)
    assert ("needs three" in caplog.text) == (count < 3)
