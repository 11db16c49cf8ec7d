"""The command line over a lock service: as over any other engine, and who may not is told why."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.program import Program, end, eventually, line
from tests.servers.service import Service

PLANTED = "planted-token-0123456789"


class Identity:
    """A caller of a service with a token of its own."""

    def __init__(self, program: Program, name: str, verbs: str) -> None:
        found = program.json("token", name)
        self.token = str(found["token"])
        allow = f'allow = [{{ prefix = "{name}", verbs = [{verbs}] }}]'
        self.lines = f'[[identity]]\nname = "{name}"\ntokens = ["{found["digest"]}"]\n{allow}\n'


@pytest.fixture
def team(program: Program, tmp_path: Path) -> Iterator[tuple[Service, str]]:
    """A service that knows one identity, and the token of that."""
    identity = Identity(program, "team", '"acquire", "observe"')
    config = tmp_path / "fencelock.toml"
    config.touch(mode=0o600)
    config.write_text(identity.lines)
    with Service(folder=tmp_path / "node", words=["--config", str(config)]) as node:
        program.environment["FENCELOCK_URL"] = node.url
        program.environment["FENCELOCK_TOKEN"] = identity.token
        yield node, identity.token


def test_every_verb_works_with_a_token(team: tuple[Service, str], program: Program) -> None:
    node, token = team
    name = "team/job"
    watch = program.start("watch", "--json", "--interval", "20ms")
    holder = program.start("hold", name, "--json", "--ttl", "1m")
    facts = json.loads(line(holder))
    assert [lock["name"] for lock in program.json("ls")["locks"]] == [name]
    shown = program.json("show", name)
    assert shown["holders"][0]["fence"] == facts["fence"]
    assert shown["holders"][0]["meta"]["identity"] == "team"
    assert program.run("run", name, "-n", "--", "true").returncode == 75
    waiter = program.start("run", name, "-w", "1m", "--", "echo", "served")
    eventually(lambda: program.json("show", name)["waiters"])
    holder.send_signal(signal.SIGTERM)
    end(holder)
    assert "served" in end(waiter).stdout
    eventually(lambda: name in line(watch))
    watch.send_signal(signal.SIGTERM)
    end(watch)
    doctor = program.json("doctor", f"{node.url}?prefix=team/")
    assert {"service", "identity", "tls", "rights"} <= {one["topic"] for one in doctor["findings"]}
    said = program.run("doctor").stdout + program.run("show", name).stdout
    assert token not in said


def test_who_may_not_is_told_what_to_do(team: tuple[Service, str], program: Program) -> None:
    node, _ = team
    program.json("acquire", "team/job")
    for words in (["acquire", "other"], ["revoke", "team/job", "--reason", "x", "--yes"]):
        ran = program.run(*words)
        assert ran.returncode not in (0, 1), ran
        assert "lacks the right" in ran.stderr
        assert "Traceback" not in ran.stderr
    url = node.url.replace("http://", f"http://{PLANTED}@")
    for words in (["ls", "--url", url], ["doctor", url], ["run", "--url", url, "a", "--", "true"]):
        ran = program.run(*words)
        assert ran.returncode not in (0, 1), ran
        assert "valid token" in ran.stderr + ran.stdout
        assert PLANTED not in ran.stderr + ran.stdout
        assert "Traceback" not in ran.stderr


def test_a_service_does_not_stand_on_another_one(program: Program) -> None:
    refused = program.run("serve", "--insecure", "--url", "http://127.0.0.1:9")
    assert refused.returncode == 78
    assert "http://127.0.0.1:9 is a lock service itself: name the store behind it" in refused.stderr
    refused = program.run("serve", "--insecure", "--url", f"http://{PLANTED}@127.0.0.1:9")
    assert "http://127.0.0.1:9 is a lock service itself" in refused.stderr
    assert PLANTED not in refused.stderr


def test_a_service_that_is_not_there_is_unavailable(program: Program, tmp_path: Path) -> None:
    with Service(folder=tmp_path / "node") as node:
        url = node.url
    for words in (["ls", "--url", url], ["run", "--url", url, "a", "--", "true"]):
        ran = program.run(*words)
        assert ran.returncode == 69
        assert "cannot be reached" in ran.stderr
        assert "Traceback" not in ran.stderr
