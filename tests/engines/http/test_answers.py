"""What a client makes of each answer, and of none: nothing is said that is not known."""

from __future__ import annotations

from typing import Any

import pytest

from fencelock import (
    Denied,
    EngineError,
    Misconfigured,
    OutcomeUnknown,
    Unavailable,
    Unsupported,
    UsageError,
)
from fencelock.engine import Engine
from fencelock.errors import FencelockError
from fencelock.model import Busy, Grant, Request
from fencelock.testing.conformance.context import core_of, engine_of
from tests.engines.http.answers import ABOUT, Said, Stub, problem
from tests.faults.flavors import Lab, run

HTML = Said(502, b"<html>", "text/html")

ACQUIRE: dict[str, tuple[Said, type[FencelockError], str]] = {
    "no token": (problem(401, "unauthorized"), Denied, "FENCELOCK_TOKEN"),
    "no right": (problem(403, "forbidden"), Denied, "lacks the right"),
    "a host that is not its own": (problem(421, "wrong-host"), Misconfigured, "hosts"),
    "a quota": (problem(429, "quota"), Unavailable, "quota"),
    "an engine that is away": (problem(503, "engine-unavailable"), Unavailable, "engine"),
    "a node that ends": (problem(503, "draining"), Unavailable, "shutting down"),
    "safety": (problem(422, "unsupported-safety"), Unsupported, "safety"),
    "what the engine has not": (problem(501, "unsupported"), Unsupported, "cannot do that"),
    "a wrong value": (problem(422, "invalid"), UsageError, "the detail of invalid"),
    "a service that does not know": (problem(504, "outcome-unknown"), OutcomeUnknown, "may have"),
    "a defect": (problem(500, "internal"), OutcomeUnknown, "may have"),
    "a kind of tomorrow": (problem(418, "new-kind"), EngineError, "nothing happened"),
    "a proxy that has no backend": (HTML, OutcomeUnknown, "proxy"),
    "a proxy that is busy": (Said(503, b"busy", "text/plain"), OutcomeUnknown, "proxy"),
    "another program": (Said(404, b"not here", "text/plain"), Misconfigured, "fencelock serve"),
    "a page": (Said(200, b"<html>hello", "text/html"), OutcomeUnknown, "cannot read"),
    "a list": (Said(200, [1, 2]), OutcomeUnknown, "cannot read"),
    "a lease of tomorrow": (Said(200, {"schema": 2}), OutcomeUnknown, "cannot read"),
    "a lease that lacks its fence": (Said(200, {"schema": 1}), OutcomeUnknown, "cannot read"),
    "an odd fence": (
        Said(200, {"schema": 1, "fence": "7", "waited": "x"}),
        OutcomeUnknown,
        "cannot read",
    ),
    "the end of the connection": (Said(None), OutcomeUnknown, "did not answer"),
}


async def engine(lab: Lab, url: str, **options: Any) -> Engine:
    client = await lab.connect(url, **options)
    await core_of(client).ready()
    return engine_of(client)


@pytest.mark.parametrize("case", ACQUIRE)
def test_an_acquire_says_what_is_known(case: str, flavor: str, peer: Stub) -> None:
    said, error, words = ACQUIRE[case]

    async def scenario(lab: Lab) -> None:
        asked = await engine(lab, peer.url)
        peer.say("/v1/acquire", said)
        with pytest.raises(error, match=words) as raised:
            await asked.acquire(Request("a", "0" * 32, 10.0))
        assert type(raised.value) is error or error is EngineError
        assert sum(path == "/v1/acquire" for path, *_ in peer.asked) == 1, "it was sent twice"

    run(flavor, scenario)


READS: dict[str, tuple[Said, type[FencelockError]]] = {
    "a service that does not know": (problem(504, "outcome-unknown"), Unavailable),
    "a proxy": (HTML, Unavailable),
    "the end of the connection": (Said(None), Unavailable),
    "no right": (problem(403, "forbidden"), Denied),
    "an answer that lacks all": (Said(200, {"schema": 1}), Unavailable),
}


@pytest.mark.parametrize("case", READS)
def test_a_question_changes_nothing(case: str, flavor: str, peer: Stub) -> None:
    said, error = READS[case]

    async def scenario(lab: Lab) -> None:
        asked = await engine(lab, peer.url)
        peer.say("/v1/inspect", said)
        with pytest.raises(error):
            await asked.inspect("a")

    run(flavor, scenario)


@pytest.mark.parametrize(
    ("said", "error"),
    [
        (Said(404, b"", "text/plain"), Misconfigured),
        (Said(200, b"<html>", "text/html"), Misconfigured),
        (Said(200, {"schema": 1}), Misconfigured),
        (problem(401, "unauthorized"), Denied),
        (Said(None), Unavailable),
    ],
)
def test_a_service_that_cannot_be_opened_says_why(
    said: Said, error: type[FencelockError], flavor: str, peer: Stub
) -> None:
    peer.say("/v1/about", said)

    async def scenario(lab: Lab) -> None:
        with pytest.raises(error):
            await engine(lab, peer.url)

    run(flavor, scenario)


def test_nobody_there_is_unavailable(flavor: str, peer: Stub) -> None:
    async def scenario(lab: Lab) -> None:
        with pytest.raises(Unavailable, match="cannot be reached"):
            await engine(lab, "http://127.0.0.1:9", connect_timeout=5)
        with pytest.raises(Misconfigured, match="TLS failed"):
            await engine(lab, peer.url.replace("http:", "https:"), connect_timeout=5)

    run(flavor, scenario)


def test_a_lease_is_counted_from_when_its_call_was_sent(flavor: str, peer: Stub) -> None:
    """A wait that is longer than ours was is not believed. One that is negative shortens it."""

    async def scenario(lab: Lab) -> None:
        asked = await engine(lab, peer.url)
        for waited, earlier in ((0.0, 0.0), (3600.0, 0.0), (-5.0, 5.0)):
            body = {"schema": 1, "fence": 7, "ttl": 10.0, "waited": waited}
            peer.say("/v1/acquire", Said(200, body))
            before = asked.world.now()
            grant = await asked.acquire(Request("a", "0" * 32, 10.0))
            assert isinstance(grant, Grant)
            assert before <= grant.asked_at <= asked.world.now()
            assert grant.valid_until < grant.asked_at + 10.0 - earlier

    run(flavor, scenario)


def test_a_lease_lasts_no_longer_than_the_service_says(flavor: str, peer: Stub) -> None:
    """The engine behind it may have cut the ttl, or counted it from before the call came."""

    async def scenario(lab: Lab) -> None:
        asked = await engine(lab, peer.url)
        peer.say("/v1/acquire", Said(200, {"schema": 1, "fence": 7, "ttl": 6.0, "waited": 0.0}))
        grant = await asked.acquire(Request("a", "0" * 32, 10.0))
        assert isinstance(grant, Grant)
        assert grant.ttl == 6.0
        assert grant.valid_until < grant.asked_at + 6.0
        for renewal in ({"ttl": 6.0}, {"ttl": 4.0}, {"ttl": 6.0, "waited": -2.0}):
            peer.say("/v1/renew", Said(200, {"schema": 1, "leases": [{"held": True, **renewal}]}))
            (renewed,) = await asked.renew([grant])
            assert isinstance(renewed, Grant)
            lasts = renewal["ttl"] + renewal.get("waited", 0.0)
            assert renewed.valid_until < asked.world.now() + lasts

    run(flavor, scenario)


def test_busy_says_where_one_stands_and_who_holds(flavor: str, peer: Stub) -> None:
    async def scenario(lab: Lab) -> None:
        asked = await engine(lab, peer.url)
        peer.say("/v1/acquire", problem(409, "busy", position=3, holder={"host": "h"}))
        answer = await asked.acquire(Request("a", "0" * 32, 10.0))
        assert isinstance(answer, Busy)
        assert (answer.position, answer.queued, answer.holder) == (3, False, '{"host": "h"}')
        peer.say("/v1/acquire", problem(409, "superseded"))
        answer = await asked.acquire(Request("a", "0" * 32, 10.0, queue=True))
        assert isinstance(answer, Busy)
        assert answer.queued

    run(flavor, scenario)


def test_an_owner_is_sent_as_an_id_and_tries_again_as_another_attempt(
    flavor: str, peer: Stub
) -> None:
    async def scenario(lab: Lab) -> None:
        asked = await engine(lab, peer.url, prefix="team/")
        peer.say("/v1/acquire", problem(409, "busy"))
        peer.say("/v1/withdraw", Said(200, {"schema": 1, "withdrawn": 1}))
        odd, plain = Request("a", "short", 10.0), Request("a", "0" * 32, 10.0)
        for request in (odd, plain, plain):
            await asked.acquire(request)
        await asked.withdraw(plain)
        await asked.withdraw(plain)
        await asked.acquire(plain)
        sent = [body for path, body, _ in peer.asked if path == "/v1/acquire"]
        ids = [body["id"] for body in sent]
        assert len(ids[0]) == 64
        assert ids[1:] == [plain.owner] * 3
        assert [body.get("attempt", 0) for body in sent] == [0, 0, 0, 1]
        left = [body["wants"][0] for path, body, _ in peer.asked if path == "/v1/withdraw"]
        assert [body.get("attempt", 0) for body in left] == [0, 0]
        assert {body["name"] for body in (*sent, *left)} == {"team/a"}

    run(flavor, scenario)


def test_two_nodes_that_share_nothing_are_refused(flavor: str, peer: Stub) -> None:
    peer.say(
        "/v1/about",
        Said(200, {**ABOUT, "engine": "memory", "traits": {"safety": "", "scope": "process"}}),
    )

    async def scenario(lab: Lab) -> None:
        with pytest.raises(Misconfigured, match="name one, or give them one store"):
            await engine(lab, f"{peer.url},127.0.0.1:9")

    run(flavor, scenario)
