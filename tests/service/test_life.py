"""Start, health, drain and end of a node, and what it says while its engine is away."""

from __future__ import annotations

import json
import signal
import socket
from functools import partial
from pathlib import Path

import pytest

from tests.cli.program import Program, end, eventually, line
from tests.servers.redis import Redis
from tests.service.nodes import Node, Reply, answer_of, new_id


def test_a_drained_node_refuses_calls_answers_polls_and_releases_nothing(program: Program) -> None:
    node = Node(program, "--insecure", "--drain", "3s")
    lease = node.acquire("a", ttl=60)
    given = new_id()
    wants = [{"name": "a", "id": given}]
    poll = node.begin("wait", {"inbox": "i", "wants": wants})
    acquire = node.begin("acquire", {"name": "a", "wait": 55})
    node.queue("a", 2)
    node.process.send_signal(signal.SIGTERM)
    answered = answer_of(poll)
    assert answered.status == 200
    assert (answered.body["granted"], answered.body["retry_in"]) == ([], 0)
    assert [one["id"] for one in answered.body["waiting"]] == [given]
    assert answered.headers["connection"] == "close"
    refused = answer_of(acquire)
    assert (refused.status, refused.problem) == (503, "draining")
    late = node.call("acquire", {"name": "b"})
    assert (late.status, late.problem, late.body["may_have_happened"]) == (503, "draining", False)
    assert late.headers["connection"] == "close"
    assert late.headers["retry-after"] == "0"
    ready = node.send("GET", "/readyz")
    assert (ready.status, ready.body["draining"]) == (503, True)
    assert node.send("GET", "/healthz").status == 200
    assert node.process.wait(60) == 0
    with program.client() as client:
        state = client.inspect("a")
        assert [holder.fence for holder in state.holders] == [lease["fence"]]
        assert len(state.waiters) == 2


def test_a_call_under_way_is_answered_although_the_node_ends(program: Program) -> None:
    with Redis() as server:
        node = Node(program, "--insecure", "--drain", "0s", url=server.url)
        server.pause()
        asked = node.begin("acquire", {"name": "a"})
        eventually(lambda: node.send("GET", "/healthz").status == 200)
        node.process.send_signal(signal.SIGTERM)
        server.resume()
        assert answer_of(asked).status in (200, 503)  # it was asked, or came after the signal
        assert node.process.wait(60) == 0


def test_a_node_without_an_engine_does_not_listen(program: Program) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    ran = program.run("serve", "--insecure", "--port", "0", "--url", f"redis://127.0.0.1:{port}")
    assert (ran.returncode, ran.stdout) == (69, "")
    assert "Traceback" not in ran.stderr


def test_a_port_that_is_taken_is_said(program: Program) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ran = program.run("serve", "--insecure", "--port", str(taken.getsockname()[1]))
    assert ran.returncode == 78
    assert "cannot be bound" in ran.stderr


def test_while_the_engine_is_away_nothing_is_answered_from_memory(program: Program) -> None:
    with Redis() as server:
        node = Node(program, "--insecure", "--drain", "0s", url=server.url)
        lease = node.acquire("a", ttl=60)
        assert node.send("GET", "/readyz").status == 200
        server.stop()
        for verb, body in {
            "acquire": {"name": "a", "id": lease["id"]},
            "inspect": {"name": "a"},
            "renew": {"leases": [{"name": "a", "id": lease["id"], "fence": lease["fence"]}]},
        }.items():
            reply = eventually(partial(_settled, node, verb, body))
            assert reply is not None
            assert reply.problem == "engine-unavailable"
            assert reply.body["may_have_happened"] is False
            assert int(reply.headers["retry-after"]) >= 0
            assert str(server.port) not in json.dumps(reply.body)
        assert node.send("GET", "/readyz").status == 503
        assert node.send("GET", "/healthz").status == 200
        server.start()
        eventually(lambda: node.send("GET", "/readyz").status == 200)
        eventually(lambda: node.call("acquire", {"name": "b"}).status == 200)
        assert node.stop() == 0


def _settled(node: Node, verb: str, body: object) -> Reply | None:
    """The answer, once it is certain: the first calls may have met the end of the server."""
    reply = node.call(verb, body)
    return None if reply.status == 504 else reply


def test_systemd_is_told(program: Program, tmp_path: Path) -> None:
    where = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notified:
        notified.settimeout(60)
        notified.bind(str(where))
        program.environment["NOTIFY_SOCKET"] = str(where)
        node = Node(program, "--insecure", "--drain", "0s")
        assert notified.recv(100) == b"READY=1"
        node.process.send_signal(signal.SIGTERM)
        assert notified.recv(100) == b"STOPPING=1"
    assert node.process.wait(60) == 0


def test_people_are_told_where_it_listens(program: Program) -> None:
    process = program.start("serve", "--insecure", "--port", "0", "--drain", "0s")
    assert line(process).startswith("listening on http://127.0.0.1:")
    process.send_signal(signal.SIGINT)
    assert end(process).returncode == 0


def test_a_token_is_printed_once_with_what_to_configure(program: Program) -> None:
    token, _, *lines = program.run("token", "billing").stdout.splitlines()
    assert len(token) == 43
    assert lines[:2] == ["[[identity]]", 'name = "billing"']
    assert token not in "".join(lines)
    assert program.run("token", "a b").returncode == 125


@pytest.mark.parametrize("given", [["--tls-cert", "x"], ["--tls-client-ca", "x"]])
def test_half_of_tls_is_refused(given: list[str], program: Program) -> None:
    assert program.run("serve", "--insecure", *given).returncode == 125
