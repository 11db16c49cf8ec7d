"""The client's side, against a real server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any
from uuid import uuid4

import httpx
import pytest
import requests

import fencelock
from fencelock import LeaseLost, StaleFence, UsageError
from fencelock.guards.http import RequestsAuth, fencing_headers, httpx_auth, raise_if_stale
from tests.guards.contract import Token
from tests.guards.http.service import AsgiService
from tests.servers.shared import shared


@pytest.fixture
def url() -> str:
    return f"http://127.0.0.1:{shared(AsgiService).port}/counters/{uuid4().hex}"


def by_requests(url: str, lease: fencelock.Lease) -> int:
    with requests.Session() as session:
        return session.put(url, data="1", auth=RequestsAuth(lease), timeout=30).status_code


def by_httpx(url: str, lease: fencelock.Lease) -> int:
    with httpx.Client(trust_env=False, timeout=30) as client:
        return client.put(url, content="1", auth=httpx_auth(lease)).status_code


def by_async_httpx(url: str, lease: fencelock.Lease) -> int:
    async def put() -> int:
        async with httpx.AsyncClient(trust_env=False, timeout=30) as client:
            return (await client.put(url, content="1", auth=httpx_auth(lease))).status_code

    return asyncio.run(put())


@pytest.mark.parametrize("put", [by_requests, by_httpx, by_async_httpx])
def test_a_refusal_becomes_stale_fence(
    put: Callable[[str, fencelock.Lease], int], url: str
) -> None:
    with fencelock.connect("memory://") as client:
        with client.lock("seat") as first:
            assert put(url, first) == 200
        with client.lock("seat") as second:
            assert put(url, second) == 200
            old: Any = Token("seat", first.fence)  # as of a process that does not know
            with pytest.raises(StaleFence) as caught:
                put(url, old)
        with pytest.raises(LeaseLost):
            put(url, first)
    error = caught.value
    assert (error.name, error.offered, error.highest) == ("seat", first.fence, second.fence)


def test_a_lease_that_ends_between_two_requests_is_noticed(url: str) -> None:
    with (
        fencelock.connect("memory://") as client,
        httpx.Client(trust_env=False, timeout=30) as http,
    ):
        with client.lock("seat") as lease:
            auth, other = httpx_auth(lease), RequestsAuth(lease)
            assert http.put(url, content="1", auth=auth).status_code == 200
        with pytest.raises(LeaseLost):
            http.put(url, content="2", auth=auth)
        with pytest.raises(LeaseLost):
            requests.put(url, data="2", auth=other, timeout=30)
        with pytest.raises(LeaseLost):
            fencing_headers(lease)
        assert http.get(url).text == "1"


def test_the_headers_of_a_lease_and_of_a_bare_fence() -> None:
    with fencelock.connect("memory://") as client, client.lock("seat: ä") as lease:
        expected = {"Fencing-Token": str(lease.fence), "Fencing-Name": "seat%3A%20%C3%A4"}
        assert fencing_headers(lease) == expected
        assert fencing_headers(lease, name="seat: ä") == expected
        with pytest.raises(UsageError):
            fencing_headers(lease, name="other")
    assert fencing_headers(7) == {"Fencing-Token": "7"}
    assert fencing_headers(7, name="a") == {"Fencing-Token": "7", "Fencing-Name": "a"}


@pytest.mark.parametrize("fence", [0, -1, 2**53, True])
def test_what_is_no_fence_is_not_sent(fence: int) -> None:
    for make in (fencing_headers, RequestsAuth, httpx_auth):
        with pytest.raises(UsageError):
            make(fence)


class Precondition(BaseHTTPRequestHandler):
    """A server whose 412 has nothing to do with fences."""

    def do_PUT(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(412)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.mark.parametrize("put", [by_requests, by_httpx, by_async_httpx])
def test_other_preconditions_are_left_alone(put: Callable[[str, fencelock.Lease], int]) -> None:
    with HTTPServer(("127.0.0.1", 0), Precondition) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            with fencelock.connect("memory://") as client, client.lock("seat") as lease:
                assert put(f"http://127.0.0.1:{server.server_port}/", lease) == 412
        finally:
            server.shutdown()
            thread.join(30)


@pytest.mark.parametrize("body", ["", "[]", "{}", '{"type": "other", "highest": 1}', b"\xff"])
def test_answers_of_others_are_not_taken_for_a_guards(body: str | bytes) -> None:
    raise_if_stale(412, body, 1)


def test_an_answer_of_a_guard_is_understood() -> None:
    body = b'{"type": "urn:fencelock:problem:stale-fence", "highest": 9}'
    raise_if_stale(200, body, 1)
    with pytest.raises(StaleFence):
        raise_if_stale(412, body, 1)
