"""``fencelock torture``: real clients are frozen and killed, and the verdict is what happened."""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from fencelock.judge import History
from fencelock.web.bundle import held
from tests.cli.program import Program, children, eventually
from tests.cli.stealing import stealing

SAFE = {
    "never two holders",
    "fences strictly grow",
    "no acknowledged update is lost",
    "no stale operation is accepted",
}
QUICK = ("--seconds", "3", "--ttl", "500ms", "--clients", "3")
LONGER = ("--seconds", "6", "--ttl", "2s", "--clients", "4", "--faults", "pause")


def outcomes(facts: dict[str, Any]) -> dict[str, str]:
    return {row["question"]: row["outcome"] for row in facts["verdict"]}


def shown(page: Path) -> list[dict[str, Any]]:
    """The traces that a page holds."""
    kept: Any = held(page.read_text(encoding="utf-8"))
    return [part["trace"] for part in kept["parts"]]


def test_a_torture_of_sqlite_keeps_its_promises_and_leaves_nothing(program: Program) -> None:
    facts = program.json("torture", *QUICK, "--html", "page.html", "--history", "run.jsonl")
    found = outcomes(facts)
    assert {found[question] for question in SAFE} == {"passed"}
    assert facts["passed"]
    assert facts["tenures"] > 0
    assert facts["faults"]["pause"] + facts["faults"]["kill"] > 0
    assert {*facts["not_applicable"]} == {"lose", "partition"}
    assert facts["guarded"]["lost"] == 0
    assert facts["comparison"] is None
    assert not [name for name in os.listdir(program.folder) if name.startswith("locks.db")]
    history = History.load(program.folder / "run.jsonl")
    grants = [one for one in history.operations("acquire") if one.outcome == "ok"]
    assert len(grants) == facts["tenures"]
    traces = shown(program.folder / "page.html")
    holds = [span for trace in traces for span in trace["spans"] if span["kind"] == "holds"]
    assert {span["fence"] for span in holds} == {grant.fence for grant in grants}
    assert {one["outcome"] for one in traces[0]["verdict"]} <= {"held", "not judged", "undecided"}
    told = dict(traces[0]["run"]["facts"])
    assert told["command"] == (
        f"fencelock torture {told['engine']} --seconds 3 --faults pause,kill,lose,partition "
        "--clients 3 --ttl 0.5 --seed 1"
    )


def test_a_file_that_was_there_stays_with_the_locks_that_are_in_it(program: Program) -> None:
    with program.client() as client, client.lock("theirs") as lease:
        ran = program.run("torture", *QUICK, "--faults", "kill", "--seconds", "1")
        assert "not applicable" not in ran.stdout.partition("\n  passed")[0]
        assert [holding.name for holding in client.scan()] == ["theirs"]
        lease.check()
    assert program.file.exists()


@pytest.mark.parametrize(
    ("words", "question", "role"),
    [
        (("--semaphore", "2"), "never two holders of one slot", "semaphore"),
        (("--rw",), "nobody reads or writes beside a writer", "write"),
    ],
)
def test_a_share_is_tortured_and_a_stolen_one_is_a_broken_promise(
    program: Program, words: tuple[str, ...], question: str, role: str
) -> None:
    ran = program.run("torture", *QUICK, *words, "--json", "--history", "events", "--html", "page")
    facts, history = json.loads(ran.stdout), History.load(program.folder / "events")
    assert outcomes(facts)[question] == "passed", ran.stdout
    assert "never two holders" not in outcomes(facts)
    assert facts["tenures"] > 5
    assert role in {one.role for one in history.operations("acquire") if one.outcome == "ok"}
    assert facts["guarded"]["lost"] == 0
    url = stealing(program)
    ran = program.run("torture", url, *LONGER, *words, "--json")
    facts = json.loads(ran.stdout)
    assert (ran.returncode, facts["passed"]) == (80, False), ran.stderr
    assert outcomes(facts)[question] == "violated"


def test_a_lock_that_is_stolen_is_a_broken_promise(program: Program) -> None:
    """The judge is no rubber stamp: it ends with its own exit code, and the page marks it."""
    url = stealing(program)
    ran = program.run("torture", url, *LONGER, "--json", "--html", "page.html")
    facts = json.loads(ran.stdout)
    assert (ran.returncode, facts["passed"]) == (80, False), ran.stderr
    assert outcomes(facts)["never two holders"] == "violated"
    assert facts["violations"]
    first = shown(program.folder / "page.html")[0]
    assert first["run"]["conclusion"] == "a promise was broken"
    (stolen,) = [one for one in first["verdict"] if one["checker"] == "one_holder"]
    assert stolen["outcome"] == "broken"
    assert all(one["parts"] for one in stolen["violations"]), "each can be gone to"
    told = program.run("torture", url, *LONGER)
    assert told.returncode == 80
    assert re.search(r"(?m)^  violated +never two holders", told.stdout)
    assert told.stdout.endswith("verdict: a promise was broken\n")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_no_client_outlives_the_torture(program: Program, number: signal.Signals) -> None:
    words = ["--seconds", "60", "--faults", "pause", "--clients", "2", "--html", "page.html"]
    process = program.start("torture", *words)
    eventually(lambda: len(children(process.pid)) == 2)
    (program.folder / "seen").touch()
    process.send_signal(number)
    process.communicate(timeout=30)
    eventually(lambda: not program.marked())
    expected = {signal.SIGKILL: -9, signal.SIGTERM: 143, signal.SIGINT: 130}
    assert process.returncode == expected[number]
    page = program.folder / "page.html"
    assert page.exists() is (number == signal.SIGKILL), "an empty page is left behind"


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--faults", "pause,earthquake"], 78, "there is no fault 'earthquake'; known: pause"),
        (["--faults", ","], 78, "no fault is named"),
        (["--faults", "lose"], 78, "none of these faults can happen here (lose): sqlite is"),
        (["--seconds", "0"], 78, "--seconds must be 1 to 3600"),
        (["--seconds", "2", "--ttl", "5"], 78, "--ttl 5 is longer than --seconds 2"),
        (["--ttl", "0"], 78, "--ttl"),
        (["--clients", "1"], 125, "not a whole number from 2 to 64"),
        (["--library", "guesswork"], 78, "there is no library 'guesswork' to compare; known"),
        (["--library", "redis-py"], 78, "redis-py cannot use sqlite://: it needs redis://"),
        (["--semaphore", "0"], 125, "not a whole number from 1 to 64"),
        (["--semaphore", "2", "--rw"], 78, "--semaphore and --rw are two tortures"),
        (["--rw", "--library", "filelock"], 78, "--library is about mutexes"),
        (["--html", "missing/page.html"], 78, "missing/page.html cannot be written"),
        (["memory://here"], 78, "lives in one process, and a torture needs several"),
        (["nonsense"], 78, "is not an engine URL"),
        (["redis://127.0.0.1:1/0"], 69, "127.0.0.1:1"),
    ],
)
def test_a_wrong_line_is_told_in_one(
    words: list[str], code: int, message: str, program: Program
) -> None:
    ran = program.run("torture", *words)
    assert ran.returncode == code, ran.stderr
    assert message in ran.stderr
    assert len(ran.stderr.splitlines()) == 1
    assert ran.stdout == ""
    assert Path(program.folder, "locks.db").exists() is False
