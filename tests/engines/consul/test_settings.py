"""How an agent is reached and as whom, and what is said when that fails."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import fencelock
from fencelock import Denied, Misconfigured, OutcomeUnknown, Unavailable, Unsupported
from fencelock._client import administration
from fencelock.engines.consul.settings import VARIABLE
from tests.faults.flavors import Lab, run
from tests.servers.consul import Consul
from tests.servers.server import free_port

SECRET = "11111111-2222-3333-4444-555555555555"
POLICY = """
key_prefix "ours/" { policy = "write" }
session_prefix "" { policy = "write" }
"""


@contextmanager
def answering(status: int, body: bytes, verb: str = "") -> Iterator[str]:
    """The address of a server that says this to requests for a path, and is a leader otherwise."""

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("content-length", 0)))
            said = (status, body) if verb in self.path else (200, b'"127.0.0.1:8300"')
            self.send_response(said[0])
            self.send_header("content-length", str(len(said[1])))
            self.end_headers()
            self.wfile.write(said[1])

        do_PUT = do_GET  # noqa: N815  # the name that the base class looks for

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("consul://", "names no agent"),
        ("consul://h/locks", "prefix="),
        ("consul://me:secret@h", "no user: give the token by token="),
        ("consul://h?token=two%20words", "token must be the SecretID"),
        ("consul://h?lock_delay=61", "lock_delay must be a number of seconds from 0 to 60"),
        ("consul://h?session_ttl_min=0.5", "session_ttl_min must be"),
        ("consul://h?tls=no&ca=x.pem", "tls=no and ca= contradict"),
        ("consul://h?dc=other", "has no option 'dc'"),
    ],
)
def test_a_url_that_cannot_be_meant_is_refused(url: str, why: str) -> None:
    with pytest.raises(Misconfigured, match=why), fencelock.connect(url) as client:
        client.open()


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (500, b"No cluster leader", Unavailable),
        (500, b"rpc error making call: RPC rate limit exceeded", Unavailable),
        (429, b"", Unavailable),
        (500, b"rpc error making call: leadership lost while committing log", OutcomeUnknown),
        (503, b"<html>", OutcomeUnknown),
        (200, b"<html>", OutcomeUnknown),
        (403, b"Permission denied", Denied),
        (409, b'{"Errors":[{"OpIndex":0,"What":"Permission denied"}]}', Denied),
        (400, b"Bad request", Misconfigured),
    ],
)
def test_what_an_agent_answers_is_told_as_what_became_of_it(
    flavor: str, status: int, body: bytes, error: type[Exception]
) -> None:
    """Only where it is certain that nothing was done may a caller be told so."""

    async def scenario(lab: Lab) -> None:
        with answering(status, body, "/v1/txn") as address:
            client = await lab.connect(f"consul://{address}")
            with pytest.raises(error):
                await client._core.engine._agents.transact()  # type: ignore[attr-defined]

    run(flavor, scenario)


def test_an_agent_that_cannot_serve_is_passed_over(flavor: str, consul: Consul) -> None:
    """One says that nobody leads and nothing was done, one is not there: the third is asked."""

    async def scenario(lab: Lab) -> None:
        with answering(500, b"No cluster leader") as address:
            url = consul.fresh_url().replace(
                consul.address, f"{address},127.0.0.1:{free_port()},{consul.address}"
            )
            client = await lab.connect(url)
            async with client.lock("seat", ttl=30) as lease:
                assert lease.fence

    run(flavor, scenario)


@pytest.mark.parametrize("body", [b"<html>", b"{}", b"17"])
def test_what_is_no_consul_is_not_taken_for_one(flavor: str, body: bytes) -> None:
    async def scenario(lab: Lab) -> None:
        with answering(200, body) as address:
            with pytest.raises(
                (Misconfigured, Unavailable), match="not answer as an agent of Consul"
            ):
                _ = await lab.connect(f"consul://{address}")

    run(flavor, scenario)


def test_a_session_that_consul_finds_too_short_is_said(flavor: str) -> None:
    said = b"Invalid Session TTL '1000000000', must be between [10s=24h0m0s]"

    async def scenario(lab: Lab) -> None:
        with answering(500, said, "/v1/session/create") as address:
            client = await lab.connect(f"consul://{address}?session_ttl_min=1")
            with pytest.raises(Misconfigured, match="set session_ttl_min"):
                await client.lock("seat", ttl=1).acquire()

    run(flavor, scenario)


def test_a_token_opens_what_its_policy_allows(flavor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without one, or under another prefix, the error says what to do; no message has the token."""
    rules = {"enabled": True, "default_policy": "deny", "tokens": {"master": SECRET}}
    server = Consul(settings={"acl": rules})
    server.token = SECRET
    with server:
        policy = {"Name": "locks", "Rules": POLICY}
        server.ask("PUT", "acl/policy", policy)
        made = server.ask("PUT", "acl/token", {"Policies": [{"Name": "locks"}]})

        async def scenario(lab: Lab) -> None:
            url = f"consul://{server.address}?prefix=ours/"
            stranger = await lab.connect(url)
            with pytest.raises(Denied, match="give one by token=, or CONSUL_HTTP_TOKEN"):
                await stranger.lock("seat", ttl=30).acquire()
            client = await lab.connect(url, token=made["SecretID"])
            async with client.lock("seat", ttl=30):
                assert [one.name for one in await client.scan()] == ["seat"]
            assert made["SecretID"] not in repr(client) + str(client._core.engine._settings)  # type: ignore[attr-defined]
            topics = {one.topic: one.level for one in await administration.diagnose(client._core)}
            assert topics["agent"] == "note"
            monkeypatch.setenv(VARIABLE, made["SecretID"])
            by_variable = await lab.connect(f"consul://{server.address}?prefix=theirs/")
            with pytest.raises(Denied):
                await by_variable.lock("seat", ttl=30).acquire()

        run(flavor, scenario)


def test_names_with_several_holders_and_memory_are_refused_in_words(
    flavor: str, consul: Consul
) -> None:
    async def scenario(lab: Lab) -> None:
        client = await lab.connect(consul.fresh_url())
        with pytest.raises(Unsupported):
            await client.semaphore("pool", limit=2).acquire()
        with pytest.raises(Unsupported):
            await client._core.engine.recall("done")

    run(flavor, scenario)


def test_the_doctor_says_what_a_single_server_and_a_short_memory_cost(
    flavor: str, own_consul: Consul
) -> None:
    async def scenario(lab: Lab) -> None:
        client = await lab.connect(own_consul.url)
        found = {one.topic: one for one in await administration.diagnose(client._core)}
        assert (found["servers"].level, found["agent"].level) == ("warning", "ok")
        assert "1.8.7" in found["agent"].text or "Consul" in found["agent"].text
        assert "data" not in found
        assert json.dumps([one.text for one in found.values()])

    run(flavor, scenario)
