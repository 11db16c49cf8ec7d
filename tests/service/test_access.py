"""Who may call, what, and how often."""

from __future__ import annotations

import json
import math
import signal
import socket
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fencelock.service.audit import FailedLogins
from tests.cli.program import Program, eventually
from tests.service.nodes import Node, answer_of, configured, held, new_id

VERBS: dict[str, tuple[str, dict[str, object]]] = {
    "acquire": ("acquire", {}),
    "observe": ("inspect", {}),
    "revoke": ("revoke", {"reason": "a test"}),
}


class Tokens:
    """Identities by name, each with a token that the program has made."""

    def __init__(self, program: Program, *names: str) -> None:
        self.made = {name: program.json("token", name) for name in names}

    def __getitem__(self, name: str) -> str:
        return str(self.made[name]["token"])

    def digest(self, name: str) -> str:
        return str(self.made[name]["digest"])


def identity(tokens: Tokens, name: str, allow: str, quota: str = "") -> str:
    more = f"quota = {{ {quota} }}\n" if quota else ""
    return (
        f'[[identity]]\nname = "{name}"\ntokens = ["{tokens.digest(name)}"]\n'
        f"allow = [{allow}]\n{more}"
    )


def right(prefix: str, *verbs: str) -> str:
    return f"{{ prefix = {json.dumps(prefix)}, verbs = {json.dumps(list(verbs))} }}"


def start(program: Program, text: str, *words: str) -> Node:
    return Node(program, "--config", configured(program.folder, text), "--drain", "0s", *words)


def test_without_a_valid_token_nothing_is_told(program: Program) -> None:
    tokens = Tokens(program, "a", "other")
    node = start(program, identity(tokens, "a", right("", "acquire")))
    wrong = ["", "Bearer", "Bearer x", f"Basic {tokens['a']}", f"Bearer {tokens['other']}"]
    for header in [*wrong, f"Bearer {tokens.digest('a')}"]:
        reply = node.send("GET", "/v1/about", None, {"Authorization": header} if header else {})
        assert (reply.status, reply.problem) == (401, "unauthorized")
        assert reply.headers["www-authenticate"].startswith("Bearer")
    assert node.call("about", token=tokens["a"]).body["identity"] == "a"
    assert node.send("GET", "/healthz").status == 200


def test_every_call_that_is_described_demands_a_token(program: Program) -> None:
    tokens = Tokens(program, "a")
    node = start(program, identity(tokens, "a", right("", *VERBS)))
    described = node.send("GET", "/openapi.json").body["paths"]
    assert {"/v1/acquire", "/v1/revoke", "/v1/events"} < set(described)
    calls = [
        (method.upper(), path, headers)
        for path, methods in described.items()
        for method in {*methods} & {"get", "post"}
        for headers in ({}, {"Authorization": "Bearer x"})
    ]
    with ThreadPoolExecutor(len(calls)) as pool:  # the answer to a wrong token takes its time
        replies = list(pool.map(lambda one: node.send(one[0], one[1], b"{}", one[2]), calls))
    public = {"/openapi.json"}
    for (_, path, _), reply in zip(calls, replies, strict=True):
        assert (path, reply.status) == (path, 200 if path in public else 401)


def test_rights_are_verb_and_prefix_and_identity(program: Program) -> None:
    tokens = Tokens(program, "a", "b", "root", "nobody")
    text = identity(tokens, "a", right("team-a", "acquire"))
    text += identity(
        tokens, "b", f"{right('team-b', 'acquire', 'observe')}, {right('x/', 'revoke')}"
    )
    text += identity(tokens, "root", right("", *VERBS)) + identity(tokens, "nobody", "")
    node = start(program, text)
    names = ["team-a", "team-a/x", "team-a:x", "team-ab", "team-a-b", "team-b/1", "x/y", "x", "x/"]
    allowed = {
        ("a", "acquire"): {"team-a", "team-a/x", "team-a:x"},
        ("b", "acquire"): {"team-b/1"},
        ("b", "observe"): {"team-b/1"},
        ("b", "revoke"): {"x/y", "x/"},
        **{("root", verb): set(names) for verb in VERBS},
    }
    words: set[str] = set()
    for who in ("a", "b", "nobody", "root"):
        for verb, (call, body) in VERBS.items():
            found = set()
            for name in names:
                reply = node.call(call, {"name": name, **body}, tokens[who])
                if reply.status == 403:
                    assert reply.problem == "forbidden"
                    words.add(json.dumps(reply.body))
                else:
                    assert reply.status in (200, 409), reply
                    found.add(name)
                if reply.status == 200 and call == "acquire":
                    leases = {"leases": [held(reply.body)]}
                    assert node.call("release", leases, tokens[who]).status == 200
            assert found == allowed.get((who, verb), set()), (who, verb)
    assert len(words) == 1, "the answer tells whether the lock exists"


@pytest.mark.parametrize("verb", ["renew", "release"])
def test_an_id_of_another_identity_is_of_no_use(verb: str, program: Program) -> None:
    tokens = Tokens(program, "a", "b")
    both = [identity(tokens, name, right("", *VERBS)) for name in ("a", "b")]
    node = start(program, "".join(both))
    lease = node.call("acquire", {"name": "n", "id": new_id()}, tokens["a"]).body
    foreign = node.call(verb, {"leases": [held(lease)]}, tokens["b"]).body["leases"]
    unknown = node.call(verb, {"leases": [held({**lease, "id": new_id()})]}, tokens["b"]).body
    assert foreign == unknown["leases"]
    assert not next(iter(foreign[0].values()))
    renewed = node.call("renew", {"leases": [held(lease)]}, tokens["a"]).body["leases"]
    assert renewed[0]["held"] is True
    assert node.call("acquire", {"name": "n", "id": lease["id"]}, tokens["b"]).status == 409


def test_a_listing_shows_only_what_may_be_observed(program: Program) -> None:
    tokens = Tokens(program, "a", "root", "blind")
    text = identity(tokens, "a", right("a", "observe"))
    text += identity(tokens, "root", right("", *VERBS)) + identity(tokens, "blind", "")
    node = start(program, text)
    for name in ("a/1", "a/2", "ab", "b"):
        assert node.call("acquire", {"name": name}, tokens["root"]).status == 200
    seen = node.call("locks", token=tokens["a"]).body["locks"]
    assert [one["name"] for one in seen] == ["a/1", "a/2"]
    assert node.call("locks", token=tokens["blind"]).problem == "forbidden"


def test_quotas_limit_what_is_held_waited_for_and_called(program: Program) -> None:
    tokens = Tokens(program, "a", "fast", "root")
    text = identity(tokens, "a", right("", "acquire"), 'held = 2, waiting = 1, ttl_max = "1m"')
    text += identity(tokens, "fast", right("", "acquire"), "calls_per_s = 1")
    text += identity(tokens, "root", right("", *VERBS))
    node = start(program, text)

    def acquire(name: str, **body: object) -> tuple[int, object]:
        reply = node.call("acquire", {"name": name, **body}, tokens["a"])
        return reply.status, reply.body

    assert acquire("long", ttl=61)[0] == 422
    busy = node.call("acquire", {"name": "busy", "ttl": 600}, tokens["root"])
    assert busy.status == 200
    wants = [{"name": "busy", "id": new_id()} for _ in range(2)]
    too_many = node.call("wait", {"inbox": "i", "wants": wants}, tokens["a"])
    assert (too_many.status, too_many.problem) == (429, "quota")
    assert int(too_many.headers["retry-after"]) > 0
    given = new_id()
    assert [acquire("n1", id=given)[0], acquire("n2")[0], acquire("n3")[0]] == [200, 200, 429]
    status, lease = acquire("n1", id=given)  # the same hold is no further one
    assert status == 200
    assert isinstance(lease, dict)
    assert node.call("release", {"leases": [held(lease)]}, tokens["a"]).status == 200
    assert acquire("n3")[0] == 200
    calls = [node.call("about", token=tokens["fast"]).status for _ in range(10)]
    assert calls[0] == 200
    assert 429 in calls


def test_two_tokens_are_valid_while_one_takes_the_place_of_another(program: Program) -> None:
    tokens = Tokens(program, "old", "new")
    both = f'tokens = ["{tokens.digest("old")}", "{tokens.digest("new")}"]'
    node = start(program, f'[[identity]]\nname = "a"\n{both}\n')
    assert [node.call("about", token=tokens[t]).status for t in ("old", "new")] == [200, 200]


def test_a_reload_takes_what_is_right_and_refuses_what_is_broken(program: Program) -> None:
    tokens = Tokens(program, "a", "b")
    node = start(program, identity(tokens, "a", right("", *VERBS)))
    lease = node.call("acquire", {"name": "n", "ttl": 60}, tokens["a"]).body
    waiting = node.begin("acquire", {"name": "n"})
    assert answer_of(waiting).problem == "unauthorized"
    file = Path(configured(program.folder, "[limits]\nttl_max = nonsense\n"))
    node.process.send_signal(signal.SIGHUP)
    assert node.call("about", token=tokens["a"]).status == 200
    file.write_text(identity(tokens, "b", right("", *VERBS)))
    node.process.send_signal(signal.SIGHUP)
    eventually(lambda: node.call("about", token=tokens["b"]).status == 200)
    assert node.call("about", token=tokens["a"]).status == 401
    assert node.call("acquire", {"name": "n"}, tokens["b"]).problem == "busy"
    assert lease["fence"]


REFUSED: dict[str, tuple[list[str], str | None, str]] = {
    "nobody may call": ([], "", "nobody may call"),
    "open to the network": (["--insecure", "--host", "0.0.0.0"], None, "reached from elsewhere"),
    "both": (["--insecure"], "identity", "contradict"),
    "an unknown word": ([], "[limit]\n", "not 'limit'"),
    "an unknown verb": ([], "verbs", "not 'write'"),
    "a token instead of its digest": ([], "token", "fencelock token"),
    "a number that is none": ([], "[limits]\nwaiting_max = true\n", "whole number"),
    "every address and no names": (["--host", "0.0.0.0"], "identity", "hosts"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_service_that_would_be_open_or_is_misconfigured_does_not_start(
    what: str, program: Program
) -> None:
    words, text, why = REFUSED[what]
    one = identity(Tokens(program, "a"), "a", right("", "acquire"))
    written = {
        "identity": one,
        "verbs": one.replace('"acquire"', '"write"'),
        "token": one.replace("sha256:", ""),
    }
    if text is not None:
        words = [*words, "--config", configured(program.folder, written.get(text, text))]
    ran = program.run("serve", "--port", "0", *words)
    assert (ran.returncode, ran.stdout) == (78, "")
    assert why in ran.stderr


def test_a_configuration_that_others_can_read_is_refused(program: Program) -> None:
    file = Path(configured(program.folder, identity(Tokens(program, "a"), "a", "")))
    for mode in (0o640, 0o604, 0o660):
        file.chmod(mode)
        ran = program.run("serve", "--port", "0", "--config", str(file))
        assert ran.returncode == 78
        assert "chmod 600" in ran.stderr
    assert stat.S_IMODE(file.stat().st_mode) == 0o660


def test_no_secret_is_shown_anywhere(program: Program) -> None:
    """Tokens, ids and the password of the engine: in no answer, log, audit or command line."""
    tokens = Tokens(program, "a")
    audit = program.folder / "audit.log"
    text = f'audit = "{audit}"\n' + identity(tokens, "a", right("", *VERBS))
    given = new_id()
    node = start(program, text)
    said = [node.call("acquire", {"name": "n", "id": given}, tokens["a"]).body]
    told = [
        node.call("acquire", {"name": "n"}, tokens["a"]).body,
        node.call("locks", token=tokens["a"]).body,
        node.call("inspect", {"name": "n"}, tokens["a"]).body,
        node.call("about", token=tokens["a"]).body,
        node.call("revoke", {"name": "n", "reason": "r"}, tokens["a"]).body,
        node.call("renew", {"leases": [held(said[0])]}, tokens["a"]).body,
    ]
    command = Path(f"/proc/{node.process.pid}/cmdline").read_bytes().decode()
    assert node.stop() == 0
    assert node.process.stderr is not None
    everything = json.dumps(told) + command + node.process.stderr.read() + audit.read_text()
    assert given not in everything
    assert tokens["a"] not in everything
    assert str(program.file) not in json.dumps(told)


def test_the_audit_has_a_line_for_what_happened(program: Program) -> None:
    tokens = Tokens(program, "a", "b")
    audit = program.folder / "audit.log"
    text = f'audit = "{audit}"\n' + identity(tokens, "a", right("", *VERBS))
    node = start(program, text + identity(tokens, "b", right("b", "acquire")))
    name = "a\u2028 b"
    lease = node.call("acquire", {"name": name}, tokens["a"]).body
    node.call("acquire", {"name": name}, tokens["a"])
    node.call("acquire", {"name": name}, tokens["b"])
    node.call("about", token="wrong")
    node.call("revoke", {"name": name, "reason": "because"}, tokens["a"])
    node.call("renew", {"leases": [held(lease)]}, tokens["a"])
    node.call("release", {"leases": [held(lease)]}, tokens["a"])
    lines = [json.loads(line) for line in audit.read_text().split("\n") if line]
    seen = [(one["event"], one["identity"], one.get("problem")) for one in lines]
    assert seen == [
        ("granted", "a", None),
        ("refused", "a", "busy"),
        ("refused", "b", "forbidden"),
        ("refused", "anonymous", "unauthorized"),
        ("revoke", "a", None),
        ("revoked", "a", None),
        ("lost", "a", None),
        ("released", "a", None),
    ]
    assert {one["peer"] for one in lines} == {"127.0.0.1"}
    assert stat.S_IMODE(audit.stat().st_mode) == 0o600


def test_failed_logins_are_counted_and_not_written_one_by_one(program: Program) -> None:
    """Strangers cause the first line of an address in a minute, and one for the rest of it."""
    audit = program.folder / "audit.log"
    tokens = Tokens(program, "a")
    node = start(program, f'audit = "{audit}"\n' + identity(tokens, "a", right("", *VERBS)))
    sources = ["127.0.0.1"] * 5 + ["127.0.0.2"]
    request = b"GET /v1/about HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer x\r\n\r\n"
    peers = [socket.create_connection((node.host, node.port), 60, (one, 0)) for one in sources]
    for peer in peers:
        peer.sendall(request)
    assert [answer_of(peer).status for peer in peers] == [401] * 6
    assert node.stop() == 0
    lines = [json.loads(line) for line in audit.read_text().splitlines()]
    assert {(one["event"], one["problem"]) for one in lines} == {("refused", "unauthorized")}
    assert sorted((one["peer"], one["times"]) for one in lines) == [
        ("127.0.0.1", 1),
        ("127.0.0.1", 4),
        ("127.0.0.2", 1),
    ]


def test_failed_logins_of_many_addresses_are_few_lines() -> None:
    lines: list[tuple[str, int]] = []
    logins = FailedLogins(lambda peer, times: lines.append((peer, times)))
    for minute in range(2):
        lines.clear()
        for number in range(3000):
            logins.add(f"10.0.0.{number % 1000}", 60.0 * minute + number / 3000)
        logins.flush(60.0 * minute + 30.0)
        assert lines == [(f"10.0.0.{number}", 1) for number in range(100)]
        logins.flush(60.0 * minute + 60.0)
        assert lines[100:] == [*((f"10.0.0.{number}", 2) for number in range(100)), ("", 2700)]
    logins.flush(math.inf)
    assert len(lines) == 201


def test_a_full_disk_stops_revocations_and_not_locks(program: Program) -> None:
    tokens = Tokens(program, "a")
    node = start(program, 'audit = "/dev/full"\n' + identity(tokens, "a", right("", *VERBS)))
    assert node.call("acquire", {"name": "n"}, tokens["a"]).status == 200
    refused = node.call("revoke", {"name": "n", "reason": "r"}, tokens["a"])
    assert (refused.status, refused.problem) == (503, "audit-unwritable")
    assert len(node.call("inspect", {"name": "n"}, tokens["a"]).body["holders"]) == 1
    ready = node.send("GET", "/readyz")
    assert (ready.status, ready.body["audit"]) == (503, False)
