"""What an identity cannot reach: other prefixes, other ids, other locks, by any spelling."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.cli.program import Program, children
from tests.faults import engines
from tests.servers.redis import Redis
from tests.service.nodes import Node, Reply, held, new_id
from tests.service.test_access import VERBS, Tokens, identity, right, start

GAMES = [
    *("team-ab", "team-ab/x", "team-A/x", "TEAM-A/x", "Team-a", "team-a.x", "team-a-x", "team-a x"),
    *("/team-a/x", "./team-a/x", "../team-a/x", "other/../team-a/x", "team-b/../team-a", "team-"),
    *("team-a%2Fx", "team-a%3Ax", "team%2Da/x", "team-a\\x", "team-a;x", "team-a?x", "team-a#x"),
    *(
        "team\u2010a/x",
        "team-\u0430/x",
        "\uff54eam-a/x",
        "team-a\u200b/x",
        "team-a\u2215x",
        "team-a\uff0fx",
    ),
    *("team-a\u00a0/x", "\u202eteam-a/x", "team-a\u0338/x", "*", "%", "team_a/x", "team?a/x"),
]
OWN = [
    "team-a",
    "team-a/x",
    "team-a:x",
    "team-a/../team-b",
    "team-a/%2e%2e/b",
    "team-a//",
    "team-a::",
]


class Shop:
    """A node, with somebody who may do all within one prefix, and somebody who may do all."""

    def __init__(self, program: Program, url: str | None = None) -> None:
        self.tokens = Tokens(program, "a", "b", "root")
        self.audit = program.folder / "audit.log"
        text = f'audit = "{self.audit}"\n' + identity(self.tokens, "a", right("team-a", *VERBS))
        text += identity(self.tokens, "b", right("team-a", *VERBS))
        text += identity(self.tokens, "root", right("", *VERBS))
        if url is not None:
            program.environment["FENCELOCK_URL"] = url
        self.node = start(program, text)

    def call(self, who: str, verb: str, body: object = None) -> Reply:
        return self.node.call(verb, body, self.tokens[who])


@pytest.fixture
def shop(program: Program) -> Shop:
    return Shop(program)


@pytest.fixture(scope="module")
def open_shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    """The same, for tests that lock nothing."""
    program = Program(tmp_path_factory.mktemp("shop"))
    yield Shop(program)
    program.close()


def test_a_prefix_is_not_got_round_by_another_spelling(shop: Shop) -> None:
    """By every call that takes a name; the answer is the same whether the lock exists."""
    some = {"id": new_id(), "fence": 1}
    calls: dict[str, Any] = {
        "acquire": lambda name: {"name": name},
        "inspect": lambda name: {"name": name},
        "revoke": lambda name: {"name": name, "reason": "r"},
        "renew": lambda name: {"leases": [{"name": name, **some}]},
        "release": lambda name: {"leases": [{"name": name, **some}]},
        "withdraw": lambda name: {"wants": [{"name": name, "id": some["id"]}]},
        "wait": lambda name: {"inbox": "i", "hold": 0, "wants": [{"name": name, "id": new_id()}]},
    }
    for game in GAMES:
        for verb, body in calls.items():
            reply = shop.call("a", verb, body(game))
            assert reply.status in (403, 422), (verb, game, reply)
    for verb, body in calls.items():
        for name in OWN:
            assert shop.call("a", verb, body(name)).status in (200, 409), (verb, name)
    assert {one["name"] for one in shop.call("root", "locks").body["locks"]} <= {*OWN}


def test_a_listing_is_not_got_round_by_its_parameters(shop: Shop) -> None:
    for name in [*OWN, "team-ab", "secret", "team-b/x"]:
        assert shop.call("root", "acquire", {"name": name}).status == 200
    for prefix in ["", "team", "team-ab", "s", "%", "*", "_", "team-a/../team-b"]:
        for after in ["", "a", "team-a", "team-z"]:
            query = f"locks?prefix={quote(prefix)}&after={quote(after)}&limit=1000"
            seen = {one["name"] for one in shop.call("a", query).body["locks"]}
            assert seen <= {*OWN}, (prefix, after)
    paged: list[str] = []
    after = ""
    for _ in range(20):
        page = shop.call("a", f"locks?limit=1&after={quote(after)}").body
        paged += [one["name"] for one in page["locks"]]
        after = page["next"]
        if after is None:
            break
    assert sorted(paged) == sorted(OWN)


@pytest.mark.parametrize("verb", ["renew", "release", "withdraw", "wait"])
def test_one_foreign_name_among_many_refuses_the_call_and_nothing_is_done(
    verb: str, shop: Shop
) -> None:
    lease = shop.call("a", "acquire", {"name": "team-a/x", "id": new_id(), "ttl": 60}).body
    free = {"name": "team-a/free", "id": new_id(), "ttl": 60}
    if verb in ("renew", "release"):
        body: dict[str, Any] = {"leases": [held(lease), held({**lease, "name": "team-b"})]}
    elif verb == "withdraw":
        both = [{"name": name, "id": lease["id"]} for name in ("team-a/x", "team-b")]
        body = {"wants": both}
    else:
        body = {"inbox": "i", "wants": [free, {**free, "name": "team-b"}]}
    assert shop.call("a", verb, body).problem == "forbidden"
    assert shop.call("a", "inspect", {"name": "team-a/x"}).body["holders"]
    assert shop.call("a", "inspect", {"name": "team-a/free"}).body["holders"] == []
    assert shop.call("a", "renew", {"leases": [held(lease)]}).body["leases"][0]["held"] is True


def test_a_fence_in_a_request_is_never_believed(shop: Shop) -> None:
    """Neither that of the holder nor the next one becomes what a client says."""
    lease = shop.call("a", "acquire", {"name": "team-a/x", "id": new_id(), "ttl": 60}).body
    for fence in (lease["fence"] + 1, 1, 2**53 - 1):
        wrong = {"leases": [held({**lease, "fence": fence})]}
        assert shop.call("a", "renew", wrong).status == 200
        (holder,) = shop.call("a", "inspect", {"name": "team-a/x"}).body["holders"]
        assert holder["fence"] == lease["fence"]
        again = shop.call("a", "acquire", {"name": "team-a/x", "id": lease["id"], "ttl": 60})
        assert again.body["fence"] == lease["fence"]
    assert shop.call("a", "revoke", {"name": "team-a/x", "reason": "r"}).body["revoked"] is True
    after = shop.call("a", "acquire", {"name": "team-a/x"}).body
    assert lease["fence"] < after["fence"] < 2**53 - 1_000_000


def test_an_id_of_another_identity_withdraws_nothing(shop: Shop) -> None:
    lease = shop.call("a", "acquire", {"name": "team-a/x", "id": new_id(), "ttl": 60}).body
    wants = {"wants": [{"name": "team-a/x", "id": lease["id"]}]}
    unknown = {"wants": [{"name": "team-a/x", "id": new_id()}]}
    assert shop.call("b", "withdraw", wants).body == shop.call("b", "withdraw", unknown).body
    assert shop.call("a", "renew", {"leases": [held(lease)]}).body["leases"][0]["held"] is True
    again = shop.call("a", "acquire", {"name": "team-a/x", "id": lease["id"], "ttl": 60})
    assert again.body["fence"] == lease["fence"], "the withdrawal of another has spent the id"


def test_one_id_for_many_names_does_not_get_round_a_quota(program: Program) -> None:
    tokens = Tokens(program, "a")
    node = start(program, identity(tokens, "a", right("", "acquire"), "held = 2, waiting = 2"))
    one = new_id()
    held_names = [node.call("acquire", {"name": f"n{n}", "id": one}, tokens["a"]) for n in range(4)]
    assert [reply.status for reply in held_names] == [200, 200, 429, 429]


HOSTILE = [
    "'; DROP TABLE fencelock_locks; --",
    "\\'; DELETE FROM locks; --",
    '" OR 1=1 --',
    "$1) ; SELECT pg_sleep(10); --",
    "x' || pg_sleep(10) || '",
    "%s %(name)s {0} ${jndi:ldap://127.0.0.1/a}",
    '"]] redis.call("FLUSHALL") --[[',
    "\\r\\n*1\\r\\n$8\\r\\nFLUSHALL\\r\\n",
    "{a}{b} {}",
    "*",
    "_%",
    "[a-z]*?",
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "`id`; $(id)",
    "../../../etc/passwd",
    "a/b/lock-0000000001",
    "CON",
    "\u2028\u2029\ufeff",
    "\U0001f512",
]
BROKEN = ["a\nb", "a\r\nSet-Cookie: x", "a\0b", "\x1b[31mred", "a\u0085b", "\x7f"]


@pytest.mark.parametrize("kind", ["sqlite", "redis", "postgresql", "etcd"])
def test_names_words_and_reasons_are_data_everywhere(
    kind: str, program: Program, tmp_path: Path
) -> None:
    """Into SQL, Lua, RESP, keys, the audit and JSON: each comes back as it was given."""
    shop = Shop(program, engines.fresh(kind, tmp_path))
    guard = shop.call("root", "acquire", {"name": "guard", "id": new_id(), "ttl": 600}).body
    for word in HOSTILE:
        body = {"name": word, "id": new_id(), "ttl": 600, "meta": {"why": word}}
        lease = shop.call("root", "acquire", body)
        assert (lease.status, lease.body.get("name")) == (200, word)
        (seen,) = shop.call("root", "inspect", {"name": word}).body["holders"]
        assert (seen["name"], seen["meta"]["why"]) == (word, word)
        listed = shop.call("root", f"locks?prefix={quote(word)}").body["locks"]
        assert [one["name"] for one in listed] == [word], word
        reason = {"name": word, "reason": word}
        assert shop.call("root", "revoke", reason).body["revoked"] is True
        lost = shop.call("root", "renew", {"leases": [held(lease.body)]}).body["leases"][0]
        assert (lost["held"], lost["loss"], lost["reason"]) == (False, "revoked", word)
    for word in BROKEN:
        assert shop.call("root", "acquire", {"name": word}).status == 422, word
        assert shop.call("root", "revoke", {"name": "guard", "reason": word}).status in (200, 422)
        guard = (
            shop.call("root", "acquire", {"name": "guard", "id": guard["id"], "ttl": 600}).body
            or guard
        )
    lines = shop.audit.read_bytes().splitlines()
    assert all(json.loads(line)["event"] for line in lines)
    assert b"\x1b" not in shop.audit.read_bytes()
    assert shop.node.stop() == 0
    assert shop.node.process.stderr is not None
    said = shop.node.process.stderr.read()
    assert "Traceback" not in said
    assert "\x1b" not in said


HEADERS = {
    "X-Forwarded-For": "10.0.0.1\x1b[31m",
    "X-Forwarded-Host": "evil.example",
    "Forwarded": "for=evil;host=evil",
    "User-Agent": "${jndi:ldap://127.0.0.1/a}\xff",
    "Origin": "https://evil.example",
    "Cookie": "token=x; session=y",
    "X-HTTP-Method-Override": "DELETE",
    "Upgrade": "h2c",
}


def test_headers_of_others_change_nothing(shop: Shop) -> None:
    """Who calls, and from where, is what the connection says."""
    token = {"Authorization": f"Bearer {shop.tokens['a']}"}
    plain = shop.node.send("GET", "/v1/about", None, token)
    for name, value in HEADERS.items():
        reply = shop.node.send("GET", "/v1/about", None, {**token, name: value})
        assert reply.status in (200, 400), name
        if reply.status == 200:
            assert reply.body == plain.body
            assert not {"set-cookie", "access-control-allow-origin"} & reply.headers.keys()
    cookie = {"Cookie": f"token={shop.tokens['a']}; authorization=Bearer {shop.tokens['a']}"}
    assert shop.node.send("GET", "/v1/about", None, cookie).status == 401
    asked = {"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}
    preflight = shop.node.send("OPTIONS", "/v1/acquire", None, asked)
    assert preflight.status == 405
    assert not [name for name in preflight.headers if name.startswith("access-control")]
    peers = [json.loads(line)["peer"] for line in shop.audit.read_text().splitlines()]
    assert {*peers} <= {"127.0.0.1"}


@pytest.mark.parametrize(
    "path", ["/v1%2Fabout", "/%76%31/about", "/v1/%61bout", "//v1/about", "/v1/about/..%2fabout"]
)
def test_a_call_has_one_spelling(path: str, open_shop: Shop) -> None:
    """Whoever filters paths in front of the service is not got round."""
    shop = open_shop
    reply = shop.node.send("GET", path, None, {"Authorization": f"Bearer {shop.tokens['a']}"})
    assert (reply.status, reply.problem) == (404, "not-found")


SECRETS = ["token", "access_token", "Token", "TOKEN", "api_key", "authorization", "password"]


@pytest.mark.parametrize("name", SECRETS)
def test_a_credential_in_a_query_is_refused_even_beside_a_valid_one(
    name: str, open_shop: Shop
) -> None:
    shop = open_shop
    token = shop.tokens["a"]
    for headers in ({}, {"Authorization": f"Bearer {token}"}):
        reply = shop.node.send("GET", f"/v1/about?{name}={token}", None, headers)
        assert (reply.status, reply.problem) == (400, "malformed")
        assert token not in json.dumps(reply.body)


@pytest.fixture
def guarded() -> Iterator[Redis]:
    with Redis(password="planted-password-7c1") as server:
        yield server


def test_no_secret_comes_out_when_the_engine_fails(guarded: Redis, program: Program) -> None:
    """Password, tokens and ids are planted, calls fail in many ways, and everything is searched."""
    shop = Shop(program, guarded.url)
    assert "planted-password-7c1" in guarded.url
    given = new_id()
    lease = shop.call("a", "acquire", {"name": "team-a/x", "id": given, "ttl": 60}).body
    said: list[object] = []
    mine = [shop.call("a", "renew", {"leases": [held(lease)]}).body]
    guarded.stop()
    for verb, body in {
        "acquire": {"name": "team-a/x", "id": given},
        "renew": {"leases": [held(lease)]},
        "release": {"leases": [held(lease)]},
        "inspect": {"name": "team-a/x"},
        "wait": {"inbox": given, "wants": [{"name": "team-a/x", "id": given}]},
        "locks": None,
        "about": None,
    }.items():
        said += [shop.call("a", verb, body).body, shop.node.call(verb, body, "wrong").body]
    said.append(shop.node.send("GET", "/readyz").body)
    pids = [shop.node.process.pid, *children(shop.node.process.pid)]
    commands = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in pids]
    assert shop.node.stop() == 0
    assert shop.node.process.stderr is not None
    files = [path for path in program.folder.rglob("*") if path.is_file()]
    everything = json.dumps(said).encode() + b"".join(commands)
    everything += shop.node.process.stderr.read().encode()
    everything += b"".join(path.read_bytes() for path in files if os.access(path, os.R_OK))
    assert b"team-a/x" in everything, "nothing was searched"
    secrets = [given, "planted-password-7c1", shop.tokens["a"], shop.tokens["root"]]
    assert [one for one in secrets if one.encode() in everything] == []
    assert mine[0]["leases"][0]["held"] is True


def test_a_password_on_the_command_line_is_warned_of(guarded: Redis, program: Program) -> None:
    node = Node(program, "--insecure", "--drain", "0s", url=guarded.url)
    assert node.stop() == 0
    assert node.process.stderr is not None
    said = node.process.stderr.read()
    assert "FENCELOCK_URL" in said
    assert "planted-password" not in said
