"""Which engine a command line uses: named, demanded, refused, and passed on to the command."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.engines import PLACES, fresh, lasting
from tests.cli.program import Program
from tests.servers.redis import Redis

PASSWORD = "hunter2/@:"
ITSELF = [sys.executable, "-m", "fencelock"]
PORTABLE = [name for name, place in PLACES.items() if place.portable]
BOUND = [name for name, place in PLACES.items() if not place.portable]


@pytest.mark.parametrize("engine", PORTABLE)
def test_a_script_carries_its_lease_over_every_engine(
    engine: str, program: Program, tmp_path: Path
) -> None:
    program.environment["FENCELOCK_URL"] = lasting(engine, tmp_path)
    facts = program.json("acquire", "a", "--ttl", "1m")
    lease = facts["lease"]
    shown = program.json("show", "a")
    assert [holder["fence"] for holder in shown["holders"]] == [facts["fence"]]
    assert program.answered("acquire", "a", "-n").returncode == 75
    assert program.json("renew", lease, "--ttl", "2m")["ttl_s"] == 120
    assert program.json("show", "a")["holders"][0]["remaining_s"] > 60
    words = program.run("show", "a").stdout
    assert "of 1m00s" not in words, "it has more time than it began with"
    assert program.json("release", lease)["released"] is True
    assert program.json("show", "a")["holders"] == []
    assert program.run("renew", lease).returncode == 79
    assert program.run("release", lease).returncode == 79
    assert program.json("acquire", "a")["fence"] > facts["fence"]


@pytest.mark.parametrize("engine", BOUND)
def test_a_lease_that_would_end_with_acquire_is_refused(
    engine: str, program: Program, tmp_path: Path
) -> None:
    program.environment["FENCELOCK_URL"] = fresh(engine, tmp_path)
    ran = program.run("acquire", "a", "--ttl", "10m", "--shell")
    assert (ran.returncode, ran.stdout) == (78, "(exit 78)\n")
    assert "ends with the process that acquired it" in ran.stderr
    assert "use fencelock run" in ran.stderr
    assert program.run("run", "a", "-w", "20s", "--", "true").returncode == 0


@pytest.mark.parametrize("words", [["run", "a", "--", "true"], ["acquire", "a"], ["hold", "a"]])
def test_locks_that_no_other_process_could_meet_are_refused(
    words: list[str], program: Program
) -> None:
    ran = program.run(words[0], "--url", "memory://", *words[1:])
    assert (ran.returncode, ran.stdout) == (78, "")
    assert "one process" in ran.stderr


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Redis]:
    with Redis(tmp_path / "redis", password=PASSWORD) as server:
        yield server


@pytest.mark.parametrize("named", ["environment", "option"])
def test_the_command_can_lock_by_the_same_engine(
    named: str, guarded: Redis, program: Program
) -> None:
    """The password is the command's to know, too: one wrapper runs another."""
    url = guarded.url
    assert PASSWORD not in url, "it is percent-encoded"
    if named == "environment":
        program.environment["FENCELOCK_URL"] = url
    option = ["--url", url] if named == "option" else []
    show = "import os; print(os.environ['FENCELOCK_URL'], os.environ['FENCELOCK_ENGINE'])"
    inner = [*ITSELF, "run", "b", "--", sys.executable, "-c", show]
    ran = program.run("run", *option, "a", "--", *inner)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.split() == [url, f"redis://{guarded.address}/0"]


def test_a_script_finds_the_engine_whose_lease_it_carries(guarded: Redis, program: Program) -> None:
    ran = program.run("acquire", "a", "--url", guarded.url, "--shell")
    exports = dict(line.removeprefix("export ").split("=", 1) for line in ran.stdout.splitlines())
    assert exports["FENCELOCK_URL"].strip("'") == guarded.url
    assert program.run("release", env={k: v.strip("'") for k, v in exports.items()}).returncode == 0


@pytest.mark.parametrize("verb", ["run", "acquire", "ls", "doctor"])
def test_an_empty_variable_names_no_engine(verb: str, program: Program) -> None:
    words = {"run": ["run", "a", "--", "true"], "acquire": ["acquire", "a"]}.get(verb, [verb])
    for empty in ("", " "):
        ran = program.run(*words, env={"FENCELOCK_URL": empty})
        assert ran.returncode == 78
        assert "FENCELOCK_URL is set and empty" in ran.stderr
    assert not os.path.exists(program.folder / ".local")
    assert program.run(words[0], "--url", "", *words[1:]).returncode == 78


def test_scope_demands_an_engine_that_excludes_so_many(program: Program, tmp_path: Path) -> None:
    ran = program.run("run", "a", "--scope", "network", "--", "echo", "ran")
    assert (ran.returncode, ran.stdout) == (78, "")
    assert "processes of one host" in ran.stderr
    assert "redis://" in ran.stderr
    assert program.run("run", "a", "--scope", "host", "--", "true").returncode == 0
    url = fresh("redis", tmp_path)
    assert program.run("run", "a", "--scope=network", "--url", url, "--", "true").returncode == 0
    ran = program.run("ls", "--scope", "host", "--url", "memory://")
    assert ran.returncode == 78
    assert "threads of one process" in ran.stderr
