"""`elect` runs a command while it leads, and again after a loss; `leader` tells who does."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from fencelock._client import policy
from fencelock.recipes import board
from tests.cli.program import Program, eventually


def terms(folder: Path) -> list[int]:
    """The fences under which the command was run."""
    file = folder / "terms"
    return [int(line) for line in file.read_text().split()] if file.exists() else []


NOTE = 'echo "$FENCELOCK_FENCE" >> terms'


def test_the_command_runs_while_it_leads_and_its_code_comes_back(program: Program) -> None:
    ran = program.run("elect", "boss", "--", "sh", "-c", f"{NOTE}; exit 7")
    assert ran.returncode == 7, ran.stderr
    assert len(terms(program.folder)) == 1
    with program.client() as client:
        assert client.election("boss").leader() is None


def test_a_lost_term_is_followed_by_another(program: Program) -> None:
    process = program.start("elect", "boss", "--ttl", "5s", "--", "sh", "-c", f"{NOTE}; sleep 60")
    with program.client() as client:
        eventually(lambda: len(terms(program.folder)) == 1)
        pid = process.pid
        for count in (2, 3):
            eventually(lambda: client.revoke("boss", "another shall lead"))
            eventually(lambda n=count: len(terms(program.folder)) == n)  # type: ignore[misc]
        leader = client.election("boss").leader()
        assert leader is not None
        assert leader.fence == terms(program.folder)[-1]
        assert leader.meta["pid"] == pid  # the same process, for whoever waits for it
        assert terms(program.folder) == sorted({*terms(program.folder)})
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 128 + signal.SIGTERM
        assert client.election("boss").leader() is None
        assert "FENCELOCK_CAMPAIGN" not in process.stderr.read()  # type: ignore[union-attr]


def test_those_who_observe_are_told_of_each_term(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(policy, "LOOK_MAX_S", 3600.0)  # else they might see it by themselves
    monkeypatch.setattr(board, "LOOK_S", 3600.0)
    with program.client() as client:
        leaders = client.election("boss").observe()
        assert next(leaders) is None
        process = program.start("elect", "boss", "--ttl", "1h", "--", "cat")
        leader = next(leaders)
        assert leader is not None
        assert leader.meta["pid"] == process.pid
        process.stdin.close()  # type: ignore[union-attr]
        assert next(leaders) is None
        assert process.wait(30) == 0


def test_there_is_a_status_for_each_term(program: Program) -> None:
    read, write = os.pipe()
    process = program.start(
        *("elect", "boss", "--ttl", "5s", "--status-fd", str(write), "--"),
        *("sh", "-c", f'{NOTE}; [ -e stop ] || sleep 60; test -z "$FENCELOCK_CAMPAIGN"'),
        pass_fds=[write],
    )
    os.close(write)
    with program.client() as client, os.fdopen(read) as statuses:
        eventually(lambda: len(terms(program.folder)) == 1)
        (program.folder / "stop").touch()
        assert client.revoke("boss", "another shall lead")
        assert process.wait(30) == 0
        facts = [json.loads(line) for line in statuses]
    assert [(one["outcome"], one["exit_code"]) for one in facts] == [("lost", 79), ("ran", 0)]
    assert [one["fence"] for one in facts] == terms(program.folder)


def test_another_leads_when_the_leader_resigns(program: Program) -> None:
    first = program.start("elect", "boss", "--", "sh", "-c", f"{NOTE}; cat")
    eventually(lambda: len(terms(program.folder)) == 1)
    second = program.start("elect", "boss", "-q", "--", "sh", "-c", f"{NOTE}; exit 3")
    program.queue("boss", 1)
    assert program.run("elect", "boss", "-n", "--", "true").returncode == 75
    first.communicate("", timeout=30)
    assert second.wait(30) == 3
    assert len(terms(program.folder)) == 2


def test_an_engine_that_cannot_be_reached_is_told_at_once(program: Program) -> None:
    url = "redis://127.0.0.1:1"
    assert program.run("elect", "boss", "--url", url, "--", "true").returncode == 69


def test_a_command_may_not_outlive_its_term(program: Program) -> None:
    ran = program.run("elect", "boss", "--on-lost", "warn", "--", "true")
    assert ran.returncode == 125
    assert "unrecognized arguments: --on-lost" in ran.stderr


def test_who_leads_is_told(program: Program) -> None:
    nobody = program.run("leader", "boss")
    assert nobody.returncode == 1
    assert "nobody leads boss" in nobody.stderr
    assert json.loads(program.run("leader", "boss", "--json").stdout)["leader"] is None
    with program.client() as client, client.election("boss") as term:
        assert f"fence {term.fence}" in program.run("leader", "boss").stdout
        assert program.json("leader", "boss")["leader"]["fence"] == term.fence
    assert '"elect", "a", "--json"' in Path(__file__).read_text()  # its stdout is the command's


# Once per window


def test_the_others_skip_a_window_that_was_done(program: Program) -> None:
    with program.client() as client:
        client.open()
        remembers = client.traits.remembers
    words = ["run", "job", "--once-per", "30d", "--"]
    if not remembers:
        refused = program.run(*words, "true")
        assert refused.returncode == 78
        assert "remembers nothing" in refused.stderr
        return
    assert program.run(*words, "sh", "-c", f"{NOTE}; exit 4").returncode == 4
    assert program.run(*words, "sh", "-c", NOTE).returncode == 0
    skipped = program.run(*words, "sh", "-c", NOTE)
    assert skipped.returncode == 0
    assert "skipped" in skipped.stderr
    assert not program.run("run", "job", "-q", "--once-per", "30d", "--", "false").stderr
    status = program.run("run", "job", "--json", "--once-per", "30d", "--", "false")
    assert json.loads(status.stderr)["outcome"] == "skipped"
    assert len(terms(program.folder)) == 2
    with program.client() as client, client.lock("busy"):
        busy = program.run("run", "busy", "-n", "--once-per", "30d", "--", "false")
        assert busy.returncode == 0
        assert "is done by another" in busy.stderr


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--once-per", "5x"], "5x"),
        (["--once-per", "100ms"], "--once-per must be between 1 and 31622400 seconds, not 0.1"),
        (["--once-per", "0"], "--once-per must be between"),
        (["--once-per", "5m", "-E", "3"], "leave out -E"),
    ],
)
def test_a_window_is_a_duration(program: Program, words: list[str], why: str) -> None:
    ran = program.run("run", "job", *words, "--", "true")
    assert ran.returncode in (78, 125)
    assert why in ran.stderr
