"""What the URL says, what the doctor finds, and what is said where Hazelcast cannot serve."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

import pytest

import fencelock
from fencelock.engines.hazelcast.settings import read
from tests.faults.flavors import Lab, run
from tests.servers.hazelcast import CLUSTER, Hazelcast
from tests.servers.server import free_port


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("hazelcast://127.0.0.1:5701", "does not name one cluster"),
        ("hazelcast:///dev", "names no member"),
        ("hazelcast://127.0.0.1/a/b", "does not name one cluster"),
        ("hazelcast://127.0.0.1/dev?group=a@b", "group must be the name of a CP group"),
        ("hazelcast://127.0.0.1/dev?group=METADATA", "group must be the name of a CP group"),
        ("hazelcast://127.0.0.1/dev?smart_routing=maybe", "smart_routing must be yes or no"),
        ("hazelcast://127.0.0.1/dev?session=5", "it knows: ca, cert, connect_timeout, group"),
    ],
)
def test_a_wrong_url_says_what_to_write(url: str, said: str) -> None:
    with pytest.raises(fencelock.Misconfigured, match=said):
        fencelock.connect(url)._core.engine  # noqa: B018


def test_ports_and_names_of_clusters_are_read() -> None:
    from fencelock.engines import resolve

    _, address = resolve("hazelcast://me:secret@h1,h2:5702/prod?group=locks", {})
    settings = read(address)
    assert settings.members == ("h1:5701", "h2:5702")
    assert (settings.cluster, settings.group, settings.login) == ("prod", "locks", ("me", "secret"))
    assert "secret" not in repr(settings)


def test_a_wrong_name_of_the_cluster_is_said(flavor: str, hazelcast: Hazelcast) -> None:
    async def scenario(lab: Lab) -> None:
        wrong = hazelcast.url.replace(CLUSTER, "another")
        with pytest.raises(fencelock.Unavailable, match="that its cluster-name is 'another'"):
            await (await lab.connect(wrong, connect_timeout=1.0)).lock("seat").try_acquire()

    run(flavor, scenario)


def test_nobody_who_answers_is_said(flavor: str) -> None:
    async def scenario(lab: Lab) -> None:
        url = f"hazelcast://127.0.0.1:{free_port()}/dev"
        with pytest.raises(fencelock.Unavailable, match="no member of a Hazelcast cluster"):
            await (await lab.connect(url, connect_timeout=0.5)).lock("seat").try_acquire()

    run(flavor, scenario)


@pytest.mark.parametrize("count", [1, 6])
def test_members_that_say_nothing_are_told(flavor: str, count: int) -> None:
    with silent_members(count) as silent:

        async def scenario(lab: Lab) -> None:
            with pytest.raises(fencelock.Unavailable, match="no member of a Hazelcast cluster"):
                url = f"hazelcast://{silent}/dev"
                client = await lab.connect(url, connect_timeout=0.5, request_timeout=0.5)
                await client.lock("seat").try_acquire()

        run(flavor, scenario)


def test_members_that_say_nothing_are_passed_over(flavor: str, hazelcast: Hazelcast) -> None:
    """As frozen ones. The client tries members in any order, and waits for each for ever."""
    with silent_members(3) as silent:
        url = hazelcast.fresh_url().replace("hazelcast://", f"hazelcast://{silent},")

        async def scenario(lab: Lab) -> None:
            for number in range(4):
                client = await lab.connect(url, connect_timeout=1.0, request_timeout=20.0)
                assert await (await client.lock(f"seat-{number}").acquire()).release() is True

        run(flavor, scenario)


@contextlib.contextmanager
def silent_members(count: int) -> Iterator[str]:
    """Addresses where connections are accepted, and nothing is ever said."""
    with contextlib.ExitStack() as stack:
        each = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        yield ",".join(f"127.0.0.1:{one.getsockname()[1]}" for one in each)


def test_a_cluster_without_a_cp_subsystem_is_refused(flavor: str) -> None:
    """Its FencedLock works, and excludes nobody for sure: that mode is called unsafe."""
    ready = "is STARTED"
    with Hazelcast(members=1, cp_members=0, ready=ready) as server:

        async def scenario(lab: Lab) -> None:
            for group in ("default", "locks"):
                with pytest.raises(fencelock.Misconfigured, match="cp-member-count to 3 or more"):
                    client = await lab.connect(server.url, group=group)
                    await client.lock("seat").try_acquire()

        run(flavor, scenario)


def test_too_few_cp_members_are_said(flavor: str) -> None:
    with Hazelcast(members=1, ready="is STARTED") as server:

        async def scenario(lab: Lab) -> None:
            with pytest.raises(fencelock.Unavailable, match="once cp-member-count members"):
                client = await lab.connect(server.url, request_timeout=1.0)
                await client.lock("seat").try_acquire()

        run(flavor, scenario)


def test_a_group_of_its_own_has_locks_of_its_own(flavor: str, hazelcast: Hazelcast) -> None:
    async def scenario(lab: Lab) -> None:
        one = await lab.connect(hazelcast.url, group="others")
        two = await lab.connect(hazelcast.url)
        lease = await one.lock("grouped@seat", ttl=30).acquire()
        other = await two.lock("grouped@seat", ttl=30).try_acquire()
        assert other is not None
        assert await one.lock("grouped@seat").try_acquire() is None
        assert await lease.release() is True
        assert await other.release() is True

    run(flavor, scenario)


def test_the_doctor_says_what_members_promise(flavor: str, hazelcast: Hazelcast) -> None:
    async def scenario(lab: Lab) -> None:
        client = await lab.connect(hazelcast.url)
        found = await client._core.engine.diagnose()
        levels = {finding.topic: finding.level for finding in found}
        assert levels == {
            "members": "ok",
            "CP group": "ok",
            "sessions": "note",
            "persistence": "note",
            "clocks": "note",
        }
        texts = " ".join(finding.text for finding in found)
        assert "3 in 'fencelock-tests', of release 5.4.0" in texts
        assert "keeps its locks for 90 s" in texts
        assert "fences begin anew" in texts

    run(flavor, scenario)


def test_what_hazelcast_has_not_is_said(hazelcast: Hazelcast) -> None:
    with fencelock.connect(hazelcast.url) as client:
        with pytest.raises(fencelock.Unsupported, match="has no locks that several can hold"):
            client.semaphore("seat", limit=2).acquire(timeout=0)
        with pytest.raises(fencelock.Unsupported, match="its CP session ends"):
            client.revoke("seat", "maintenance")
        with pytest.raises(fencelock.Unsupported, match="cannot list locks"):
            client.scan("")
