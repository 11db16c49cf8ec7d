"""``run`` under a semaphore, a read/write lock, and a lock that is kept for a while."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from tests.cli.engines import fresh, lasting
from tests.cli.program import Program, end, eventually, line

# What each engine grants is judged by the conformance checks: here a file and a server will do.
ITSELF = f"{sys.executable} -m fencelock"
SLOT = "echo ${FENCELOCK_SLOT-none}; read x; exit 0"


@pytest.mark.parametrize("engine", ["sqlite", "zookeeper"])
def test_a_semaphore_runs_so_many_at_a_time(engine: str, program: Program, tmp_path: Path) -> None:
    program.environment["FENCELOCK_URL"] = fresh(engine, tmp_path)
    limit = ["pool", "--limit", "2", "--ttl", "1m"]
    running = [program.start("run", *limit, "-c", SLOT) for _ in range(2)]
    assert sorted(line(process) for process in running) == ["0", "1"]
    ran = program.answered("run", *limit, "-n", "--", "true")
    assert ran.returncode == 75
    assert "and 1 other" in ran.stderr
    assert program.json("show", "pool")["kinds"]["semaphore"]["held"] == 2
    other = program.answered("run", "pool", "--limit", "3", "-n", "--", "true")
    assert other.returncode == 78
    assert "limit=2" in other.stderr
    assert end(running[0]).returncode == 0
    assert program.run("run", *limit, "-w", "1m", "--", "true").returncode == 0
    end(running[1])


@pytest.mark.parametrize("engine", ["sqlite", "redis"])
def test_many_read_and_one_writes(engine: str, program: Program, tmp_path: Path) -> None:
    program.environment["FENCELOCK_URL"] = fresh(engine, tmp_path)
    readers = [program.start("run", "a", "--read", "--ttl", "1m", "-c", SLOT) for _ in range(2)]
    assert [line(process) for process in readers] == ["none", "none"]
    assert program.answered("run", "a", "--write", "-n", "--", "true").returncode == 75
    assert program.answered("run", "a", "-n", "--", "true").returncode == 0, (
        "a lock is something else"
    )
    for process in readers:
        end(process)
    writer = program.start("run", "a", "--write", "--ttl", "1m", "-c", SLOT)
    line(writer)
    assert program.answered("run", "a", "--read", "-n", "--", "true").returncode == 75
    end(writer)
    assert program.json("show", "a")["held"] is False


def test_a_slot_is_told_to_nobody_else(program: Program) -> None:
    """A lock taken within a semaphore has no slot; the status has."""
    inner = f'{ITSELF} run b -c "echo ${{FENCELOCK_SLOT-none}}"'.replace("$", "\\$")
    ran = program.run("run", "a", "--limit", "3", "-c", inner)
    assert (ran.returncode, ran.stdout) == (0, "none\n")
    ran = program.run("run", "a", "--limit", "3", "--json", "--", "true")
    assert '"slot": 0' in ran.stderr


def test_a_killed_wrapper_gives_its_slot_back(program: Program) -> None:
    process = program.start("run", "a", "--limit", "1", "--ttl", "10m", "-c", "echo up; sleep 600")
    assert line(process) == "up"
    process.kill()
    ran = program.run("run", "a", "--limit", "1", "--", "echo", "mine")
    assert ran.stdout == "mine\n"


def test_a_script_has_a_slot(program: Program) -> None:
    shell = (
        f'eval "$({ITSELF} acquire a --limit 2 --shell)"; echo slot $FENCELOCK_SLOT; '
        f"{ITSELF} renew && {ITSELF} release; "
        f'eval "$({ITSELF} acquire b --shell)"; echo slot ${{FENCELOCK_SLOT-none}}'
    )
    ran = program.run("run", "outer", "-c", shell)
    assert ran.stdout == "slot 0\nslot none\n"
    assert program.json("show", "a")["held"] is False


@pytest.mark.parametrize(
    "words",
    [
        "--limit 2 --read",
        "--read --write",
        "--limit 0",
        "--limit 1.5",
        "--limit 2 --hold-at-least 3",
        "--read --hold-at-least 3",
        "--once-per 1h --limit 2",
        "--once-per 1h --write",
        "--once-per 1h --hold-at-least 3",
        "--hold-at-least x",
    ],
)
def test_what_means_nothing_together_is_refused(words: str, program: Program) -> None:
    ran = program.run("run", "a", *words.split(), "--", "echo", "ran")
    assert (ran.returncode, ran.stdout) == (125, "")
    assert ran.stderr.count("\n") == 1


@pytest.mark.parametrize("engine", ["redlock", "postgresql-advisory"])
def test_an_engine_without_shares_refuses(engine: str, program: Program, tmp_path: Path) -> None:
    program.environment["FENCELOCK_URL"] = fresh(engine, tmp_path)
    for words in (["--limit", "2"], ["--read"], ["--write"]):
        ran = program.run("run", "a", *words, "--", "echo", "ran")
        assert (ran.returncode, ran.stdout) == (78, "")
        assert "no locks that several can hold" in ran.stderr


@pytest.mark.parametrize("engine", ["sqlite", "etcd", "zookeeper"])
def test_a_name_is_held_after_a_command_that_was_quick(
    engine: str, program: Program, tmp_path: Path
) -> None:
    program.environment["FENCELOCK_URL"] = lasting(engine, tmp_path)
    ran = program.run("run", "a", "--hold-at-least", "10m", "--", "echo", "ran")
    assert (ran.returncode, ran.stdout) == (0, "ran\n")
    (holder,) = program.json("show", "a")["holders"]
    assert holder["remaining_s"] > 300
    assert program.answered("run", "a", "-n", "--", "true").returncode == 75
    program.run("revoke", "a", "--reason", "the test is over", "--yes")


@pytest.mark.parametrize("engine", ["postgresql-advisory"])
def test_an_engine_that_frees_locks_with_their_process_refuses(
    engine: str, program: Program, tmp_path: Path
) -> None:
    program.environment["FENCELOCK_URL"] = fresh(engine, tmp_path)
    ran = program.run("run", "a", "--hold-at-least", "30s", "--", "echo", "ran")
    assert (ran.returncode, ran.stdout) == (78, "")
    assert "frees a lock when its holder exits" in ran.stderr


def test_what_a_session_does_not_outlast_is_refused(program: Program, tmp_path: Path) -> None:
    """Nobody renews it, so it would be over before the script that counts on it."""
    program.environment["FENCELOCK_URL"] = fresh("zookeeper", tmp_path)
    ran = program.run("run", "a", "--hold-at-least", "30s", "--", "echo", "ran")
    assert (ran.returncode, ran.stdout) == (78, "")
    assert "15 s at most, and min_hold=30 was given" in ran.stderr
    assert "session=" in ran.stderr
    ran = program.run("acquire", "a", "--ttl", "10m", "--shell")
    assert (ran.returncode, ran.stdout) == (78, "(exit 78)\n")
    assert "lasts 15s at most" in ran.stderr
    assert "session=" in ran.stderr
    assert program.json("show", "a")["holders"] == []
    lease = program.json("acquire", "a", "--ttl", "10s")["lease"]
    ran = program.run("renew", lease, "--ttl", "10m", "-v")
    assert ran.returncode == 0
    assert "for 15s only" in ran.stderr
    assert "10m" not in ran.stderr
    assert program.json("release", lease)["released"] is True


def test_a_name_is_held_after_a_wrapper_that_was_killed(program: Program) -> None:
    words = ["run", "a", "--ttl", "20s", "--hold-at-least", "10m", "-c", "echo up; sleep 600"]
    process = program.start(*words)
    assert line(process) == "up"
    os.kill(process.pid, signal.SIGKILL)
    with program.client() as client:
        eventually(lambda: [h for h in client.holders("a") if h.remaining > 300])
        client.revoke("a", "the test is over")
