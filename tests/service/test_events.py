"""The stream of events: what it tells, to whom, and what it does with readers that do not read."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import fencelock
from fencelock import engines
from fencelock.service import events
from fencelock.service.access import ANONYMOUS, Access, digest
from fencelock.service.audit import NoAudit
from fencelock.service.call import Call
from fencelock.service.events import Events
from fencelock.service.node import Limits
from fencelock.service.node import Node as ServiceNode
from fencelock.worlds.aio import AioWorld
from tests.cli.program import Program, eventually
from tests.servers.redis import Redis
from tests.service.nodes import Node, configured
from tests.service.streams import Stream

CONFIG = """
[[identity]]
name = "all"
tokens = ["sha256:{all}"]
allow = [{{ prefix = "", verbs = ["acquire", "observe", "revoke"] }}]
[[identity]]
name = "team"
tokens = ["sha256:{team}"]
allow = [{{ prefix = "team", verbs = ["acquire", "observe"] }}]
[[identity]]
name = "worker"
tokens = ["sha256:{worker}"]
allow = [{{ prefix = "team", verbs = ["acquire"] }}]
"""
TOKENS = {name: name * 8 for name in ("all", "team", "worker")}


@pytest.fixture
def guarded(program: Program, tmp_path: Path) -> Node:
    text = CONFIG.format(**{name: digest(token) for name, token in TOKENS.items()})
    return Node(program, "--config", configured(tmp_path, text), "--drain", "0s")


def test_a_stream_begins_with_a_snapshot_and_tells_what_follows(node: Node) -> None:
    held = node.acquire("e/held", ttl=600, meta={"job": "before"})
    with Stream(node, "e/") as stream:
        assert (stream.status, stream.headers["content-type"]) == (200, "text/event-stream")
        assert stream.snapshot()["e/held"]["meta"]["job"] == "before"
        lease = node.acquire("e/new", ttl=600)
        granted = stream.one("granted", "e/new").data["lock"]
        assert (granted["fence"], granted["role"]) == (lease["fence"], "lock")
        node.release(lease)
        assert stream.one("released", "e/new").data["lock"]["fence"] == lease["fence"]
        told = json.dumps([event.data for event in stream.seen])
        assert lease["id"] not in told
        assert held["id"] not in told
    node.release(held)


def test_a_renewal_is_told_with_what_is_left(node: Node) -> None:
    lease = node.acquire("n", ttl=20)
    with Stream(node, "n") as stream:
        stream.snapshot()
        eventually(lambda: node.inspect("n")["holders"][0]["remaining"] < 17)
        node.renew({**lease, "ttl": 600})
        told = stream.one("renewed", "n").data["lock"]
        assert told["remaining"] > 500
        assert told["meta"] == {}
    node.release(lease)


def test_a_lease_that_runs_out_has_expired_and_its_holder_has_lost_it(node: Node) -> None:
    lease = node.acquire("x", ttl=4)
    with Stream(node, "x") as stream:
        assert "x" in stream.snapshot()
        assert stream.one("expired", "x").data["lock"]["fence"] == lease["fence"]
        assert node.renew(lease)[0]["held"] is False
        assert stream.one("lost", "x").data["loss"] == "expired"
        assert not [event for event in stream.seen if event.kind == "released"]


def test_a_release_of_what_is_no_longer_held_is_told_and_a_repeated_one_is_not(node: Node) -> None:
    repeated, lease = node.acquire("r/repeated", ttl=600), node.acquire("r/late", ttl=600)
    with Stream(node, "r/") as stream:
        stream.snapshot()
        assert [node.release(repeated) for _ in range(2)] == [[True], [False]]
        node.call("revoke", {"name": "r/late", "reason": "it hangs"})
        other = node.acquire("r/late", ttl=600)
        assert node.release(lease) == [False]
        told = stream.until(lambda event: event.kind == "refused")
        assert (told.name, told.data["problem"], told.data["by"]) == (
            "r/late",
            "not-held",
            "anonymous",
        )
        assert node.release(other) == [True]


def test_a_revocation_is_told_with_its_reason_and_by_whom(node: Node) -> None:
    lease = node.acquire("v", ttl=600)
    with Stream(node, "v") as stream:
        stream.snapshot()
        node.call("revoke", {"name": "v", "reason": "it hangs"})
        told = stream.one("revoked", "v").data
        assert (told["reason"], told["by"]) == ("it hangs", "anonymous")
        assert told["lock"]["fence"] == lease["fence"]
        after = node.acquire("v")
        stream.one("granted", "v")
        assert [event.kind for event in stream.seen].count("released") == 0
    node.release(after)


def test_a_queue_is_told_when_it_changes(node: Node) -> None:
    lease = node.acquire("w", ttl=600)
    with Stream(node, "w") as stream:
        stream.snapshot()
        with node.begin("acquire", {"name": "w", "wait": 55, "meta": {"job": "second"}}):
            told = stream.one("waiting", "w").data
            assert told["waiting"] == 1
            assert told["waiters"][0]["meta"]["job"] == "second"
            with Stream(node, "w") as other:
                other.snapshot()
                assert other.seen[-1].data["queues"][0]["waiting"] == 1
        assert stream.one("waiting", "w").data["waiting"] == 0
    node.release(lease)


def test_a_queue_that_is_asked_for_is_looked_at_among_many(program: Program) -> None:
    node = Node(program, "--insecure", "--drain", "0s", url="memory://")
    names = [f"m/{number:03}" for number in range(400)]
    for name in names:
        node.acquire(name, ttl=600)
    with Stream(node, queue=names[-1]) as stream:
        assert set(stream.snapshot()) == set(names)
        with node.begin("acquire", {"name": names[-1], "wait": 55}):
            assert stream.one("waiting", names[-1]).data["waiting"] == 1
    assert node.stop() == 0


def test_slots_readers_and_writers_are_told_as_they_are_listed(node: Node) -> None:
    slot = node.acquire("s/s", role="semaphore", limit=3, ttl=600)
    read = node.acquire("s/r", role="read", ttl=600)
    with Stream(node, "s/") as stream:
        locks = stream.snapshot()
        assert (locks["s/s"]["slot"], locks["s/s"]["limit"]) == (slot["slot"], 3)
        assert locks["s/r"]["role"] == "read"
        write = node.acquire("s/w", role="write", ttl=600)
        assert stream.one("granted", "s/w").data["lock"]["role"] == "write"
    node.release(slot, read, write)


def test_locks_of_programs_that_do_not_use_the_service_are_told(program: Program) -> None:
    node = Node(program, "--insecure", "--drain", "0s")
    with Stream(node) as stream, program.client() as client:
        assert stream.snapshot() == {}
        with client.lock("direct", ttl=60) as lease:
            assert stream.one("granted", "direct").data["lock"]["fence"] == lease.fence
        stream.one("released", "direct")
    assert node.stop() == 0


def test_everybody_is_told_only_what_it_may_observe(guarded: Node) -> None:
    def acquire(name: str, who: str = "all") -> None:
        reply = guarded.call("acquire", {"name": name, "ttl": 600}, TOKENS[who])
        assert reply.status == (200 if who == "all" else 403), reply

    acquire("team/1")
    acquire("team-b/1")
    with (
        Stream(guarded, "team", TOKENS["team"]) as stream,
        Stream(guarded, "", TOKENS["all"]) as every,
    ):
        assert set(stream.snapshot()) == {"team/1"}
        assert set(every.snapshot()) == {"team/1", "team-b/1"}
        acquire("team-b/2", "worker")
        acquire("team-b/2")
        acquire("team/2")
        assert every.one("refused", "team-b/2").data["problem"] == "forbidden"
        assert guarded.call("about", None, "wrong").status == 401
        assert every.one("refused", "").data["problem"] == "unauthorized"
        stream.one("granted", "team/2")
        assert {event.name for event in stream.seen[1:]} == {"team/2"}
    with Stream(guarded, "", TOKENS["worker"]) as refused:
        assert refused.status == 403
    with Stream(guarded, "", TOKENS["team"], queue="team-b/1") as refused:
        assert refused.status == 403
    with Stream(guarded) as refused:
        assert refused.status == 401


def test_streams_end_when_the_rights_are_read_again(guarded: Node, tmp_path: Path) -> None:
    with Stream(guarded, "", TOKENS["all"]) as stream:
        stream.snapshot()
        text = CONFIG.format(**{name: digest(name) for name in TOKENS})
        configured(tmp_path, text)
        guarded.process.send_signal(signal.SIGHUP)
        assert stream.next() is None
    with Stream(guarded, "", TOKENS["all"]) as refused:
        assert refused.status == 401


def test_whoever_comes_back_goes_on_after_its_last_event(node: Node) -> None:
    with Stream(node, "b/") as stream:
        stream.snapshot()
        first = node.acquire("b/1", ttl=600)
        stream.one("granted", "b/1")
    with Stream(node, "b/") as other:  # somebody else reads meanwhile
        other.snapshot()
        second = node.acquire("b/2", ttl=600)
        other.one("granted", "b/2")
    with Stream(node, "b/", last=stream.last) as again:
        event = again.until(lambda _: True)
        assert (event.kind, event.name) == ("granted", "b/2")
        assert event.data["ago"] > 0
    for unknown in ("00000000-1", stream.last.partition("-")[0] + "-999999999", "x" * 500):
        with Stream(node, "b/", last=unknown) as anew:
            assert set(anew.snapshot()) == {"b/1", "b/2"}
    node.release(first, second)


def test_a_stream_ends_when_its_node_drains(program: Program) -> None:
    node = Node(program, "--insecure", "--drain", "0s")
    with Stream(node) as stream:
        stream.snapshot()
        node.process.send_signal(signal.SIGTERM)
        assert stream.next() is None
    assert node.process.wait(60) == 0


def test_that_the_engine_is_away_and_back_is_told(program: Program) -> None:
    with Redis() as server:
        node = Node(program, "--insecure", "--drain", "0s", url=server.url)
        lease = node.acquire("a", ttl=600)
        with Stream(node) as stream:
            assert "a" in stream.snapshot()
            server.stop()
            assert stream.until(lambda event: event.kind == "engine").data["up"] is False
            with Stream(node) as late:
                assert set(late.snapshot()) == {"a"}  # as it was seen last
                assert late.seen[-1].data["up"] is False
            server.start()
            back = stream.until(lambda event: event.kind == "engine").data
            assert back["up"] is True
            assert back["away"] > 0
        assert lease["fence"]
        assert node.stop() == 0


def test_a_stream_that_begins_while_the_engine_is_away_has_its_snapshot_later(
    program: Program,
) -> None:
    with Redis() as server:
        node = Node(program, "--insecure", "--drain", "0s", url=server.url)
        server.stop()
        with Stream(node) as stream:
            assert stream.snapshot() == {}
            assert stream.seen[-1].data["up"] is False
            server.start()
            with fencelock.connect(server.url) as client:
                with client.lock("a", ttl=60):
                    stream.until(
                        lambda event: event.kind == "snapshot" and event.data["up"] is True
                    )
                    names = {lock["name"] for lock in stream.seen[-1].data["locks"]}
                    if not names:
                        stream.one("granted", "a")
        assert node.stop() == 0


def resident(node: Node) -> int:
    """Kilobytes of memory that a node uses."""
    text = Path(f"/proc/{node.process.pid}/status").read_text()
    return int(text.partition("VmRSS:")[2].split()[0])


def sockets(node: Node) -> int:
    folder = Path(f"/proc/{node.process.pid}/fd")
    return sum(os.path.islink(one) and "socket:" in os.readlink(one) for one in folder.iterdir())


def test_connections_that_never_read_are_cut_and_cost_no_memory(program: Program) -> None:
    """Whoever does not read for twenty seconds: that is how long this takes."""
    node = Node(program, "--insecure", "--drain", "0s", url="memory://")
    words = {"text": "x" * 3_000}
    with locks(node, 3_000, words):
        with Stream(node, "d/") as stream:
            assert len(stream.snapshot()) == 3_000
            before, open_before = resident(node), sockets(node)
            silent = [silent_reader(node) for _ in range(5)]
            eventually(lambda: sockets(node) == open_before + 5)
            eventually(lambda: sockets(node) == open_before)
            assert resident(node) < before + 5 * 20_000
            node.acquire("d/after", ttl=600)
            stream.one("granted", "d/after")
        for peer in silent:
            peer.close()
    assert node.stop() == 0


def silent_reader(node: Node) -> socket.socket:
    peer = socket.socket()
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    peer.connect((node.host, node.port))
    peer.sendall(b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
    return peer


@contextmanager
def locks(node: Node, number: int, meta: dict[str, str]) -> Iterator[None]:
    """So many locks, acquired over one connection."""
    connection = http.client.HTTPConnection(node.host, node.port, timeout=100)
    for one in range(number):
        body = json.dumps({"name": f"d/{one}", "ttl": 600, "meta": meta})
        connection.request("POST", "/v1/acquire", body, {"Content-Type": "application/json"})
        connection.getresponse().read()
    connection.close()
    yield


def in_process() -> ServiceNode:
    """A node without a process or a socket, in the loop that runs."""
    world = AioWorld()
    kind, address = engines.resolve("memory://", {})
    return ServiceNode(world, kind(world, address), Access(None), NoAudit(), Limits())


def test_a_node_that_is_busy_does_not_take_its_engine_for_away() -> None:
    async def scenario() -> None:
        node = in_process()
        hub = Events(node)
        stream = await hub.open(Call(ANONYMOUS, "", {}, 0.0, node.world.signal()), "", None, "")
        assert (await anext(stream)).startswith(b"retry")
        assert b'"up":true' in await anext(stream)
        for most in (0, 100):
            node.limits = Limits(in_flight_max=most)
            late = Call(ANONYMOUS, "", {}, 0.0, node.world.signal())
            await (await hub.open(late, "", None, "")).aclose()  # it has waited for a look
        hub.publish("refused", "somebody", {"name": "a", "problem": "quota"})
        assert (await anext(stream)).startswith(b"event: refused")
        await stream.aclose()
        node.draining = True
        hub.end_all()

    asyncio.run(scenario())


def test_a_backlog_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "BACKLOG_MAX", 50)

    async def scenario() -> None:
        node = in_process()
        world, hub = node.world, Events(node)
        calls = [Call(ANONYMOUS, "", {}, 0.0, world.signal()) for _ in range(2)]
        slow, quick = [await hub.open(call, "", None, "") for call in calls]
        for stream in (slow, quick):
            assert (await anext(stream)).startswith(b"retry")
            assert b"event: snapshot" in await anext(stream)
        told = b""
        for number in range(60):
            facts = {"name": f"n{number}", "problem": "quota"}
            hub.publish("refused", "somebody", facts)
            told += await anext(quick)
        assert told.count(b"event: refused") == 60
        assert [piece async for piece in slow] == []
        assert len(hub) == 1
        await quick.aclose()
        assert len(hub) == 0
        node.draining = True
        hub.end_all()

    asyncio.run(scenario())


def test_what_cannot_be_asked_for_is_refused(node: Node) -> None:
    assert node.call("events?after=x").problem == "malformed"
    assert node.call("events?prefix=%00").problem == "invalid"
    assert node.send("POST", "/v1/events").problem == "method-not-allowed"
