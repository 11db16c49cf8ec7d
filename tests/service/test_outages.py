"""What a node survives: its engine started again, with and without data, and a full audit disk."""

from __future__ import annotations

import json
import resource
import signal

import pytest

import fencelock
from tests.cli.program import Program, eventually
from tests.servers.etcd import Etcd
from tests.servers.redis import Redis
from tests.service.nodes import Node, answer_of, configured, held, new_id
from tests.service.test_access import VERBS, Tokens, identity, right


@pytest.mark.parametrize("persistence", ["always", "none"])
def test_an_engine_that_is_started_again_serves_on(persistence: str, program: Program) -> None:
    """With its data the holder keeps lock and fence; without, it is told, and fences still grow."""
    with Redis(persistence=persistence) as server:
        node = Node(program, "--insecure", "--drain", "0s", url=server.url)
        lease = node.acquire("seat", ttl=600)
        wants = [{"name": "seat", "id": new_id(), "ttl": 60}]
        waiting = node.begin("wait", {"inbox": "i", "hold": 15, "wants": wants})
        node.queue("seat", 1)
        server.restart()
        eventually(lambda: node.call("inspect", {"name": "seat"}).status == 200)
        kept = persistence == "always"
        (renewed,) = node.renew(lease)
        assert renewed["held"] is kept, renewed
        ended = answer_of(waiting)
        if kept:
            assert ended.status in (200, 503, 504)
            if ended.status == 200:
                assert ended.body["granted"] == []
            assert node.inspect("seat")["holders"][0]["fence"] == lease["fence"]
            assert node.release(lease) == [True]
        got = eventually(lambda: node.call("acquire", {"name": "other"}))
        assert got.status == 200
        again = node.call("acquire", {"name": "seat", "wait": 5})
        assert again.status == 409 or again.body["fence"] > lease["fence"]
        assert node.stop() == 0
        assert node.process.stderr is not None
        assert "Traceback" not in node.process.stderr.read()


def test_a_waiter_whose_engine_is_started_again_does_not_become_a_holder_that_nobody_knows(
    program: Program,
) -> None:
    """In etcd the first in the queue holds the lock: an entry left there would, in time."""
    with Etcd() as server:
        node = Node(program, "--insecure", "--drain", "0s", url=server.url)
        with fencelock.connect(server.url) as client:
            lease = client.lock("seat", ttl=600).acquire()
            waiting = node.begin("acquire", {"name": "seat", "wait": 55, "ttl": 600})
            node.queue("seat", 1)
            server.kill()
            ended = answer_of(waiting)
            assert (ended.status, ended.problem) == (504, "outcome-unknown")
            assert ended.body["may_have_happened"] is True
            server.start()
            eventually(lambda: not client.inspect("seat").waiters)
            assert lease.release() is True
            again = eventually(lambda: node.call("acquire", {"name": "seat"}))
            assert again.status == 200, again
        assert node.stop() == 0


def test_an_audit_that_was_full_is_written_again_without_a_call(program: Program) -> None:
    """A node that says that it is not ready gets no calls: it looks by itself."""
    tokens = Tokens(program, "a")
    audit = program.folder / "audit.log"
    text = f'audit = "{audit}"\n' + identity(tokens, "a", right("", *VERBS))
    file = configured(program.folder, text)
    node = Node(program, "--config", file, "--drain", "0s", url="memory://")
    lease = node.call("acquire", {"name": "n", "ttl": 600}, tokens["a"]).body
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    limit = audit.stat().st_size + 50  # the next line is cut short
    resource.prlimit(node.process.pid, resource.RLIMIT_FSIZE, (limit, hard))
    for _ in range(3):
        refused = node.call("revoke", {"name": "n", "reason": "r"}, tokens["a"])
        assert (refused.status, refused.problem) == (503, "audit-unwritable")
    assert node.call("renew", {"leases": [held(lease)]}, tokens["a"]).body["leases"][0]["held"]
    assert node.call("acquire", {"name": "m"}, tokens["a"]).status == 200
    ready = node.send("GET", "/readyz")
    assert (ready.status, ready.body["audit"]) == (503, False)
    resource.prlimit(node.process.pid, resource.RLIMIT_FSIZE, (hard, hard))
    assert node.send("GET", "/readyz").status == 200
    assert node.call("revoke", {"name": "n", "reason": "r"}, tokens["a"]).body["revoked"] is True
    events: list[str] = []
    broken = 0
    for line in audit.read_text().splitlines():
        try:
            events.append(json.loads(line)["event"])
        except ValueError:
            broken += bool(line)
    assert events == ["granted", "resumed", "revoke", "revoked"]
    assert broken <= 1


def test_a_reload_disturbs_nobody(program: Program) -> None:
    """Holders hold, waiters wait, and a rotated audit goes on in a new file."""
    tokens = Tokens(program, "a")
    audit = program.folder / "audit.log"
    text = f'audit = "{audit}"\n' + identity(tokens, "a", right("", *VERBS))
    node = Node(program, "--config", configured(program.folder, text), "--drain", "0s")
    lease = node.call("acquire", {"name": "n", "ttl": 600}, tokens["a"]).body
    body = json.dumps({"name": "n", "wait": 55, "ttl": 60}).encode()
    import http.client

    waiting = http.client.HTTPConnection(node.host, node.port, timeout=100)
    headers = {"Authorization": f"Bearer {tokens['a']}", "Content-Type": "application/json"}
    waiting.request("POST", "/v1/acquire", body, headers)
    eventually(lambda: len(node.call("inspect", {"name": "n"}, tokens["a"]).body["waiters"]) == 1)
    audit.rename(program.folder / "audit.1")
    for _ in range(10):
        node.process.send_signal(signal.SIGHUP)
        assert node.call("about", token=tokens["a"]).status == 200
    eventually(audit.exists)
    renewed = node.call("renew", {"leases": [held(lease)]}, tokens["a"]).body["leases"]
    assert renewed[0]["held"] is True
    assert node.call("release", {"leases": [held(lease)]}, tokens["a"]).status == 200
    answer = waiting.getresponse()
    assert answer.status == 200
    answer.read()
    waiting.close()
    assert '"granted"' in audit.read_text()
