"""The command never outlives the lease: a frozen wrapper, a revocation, a dead engine."""

from __future__ import annotations

import json
import os
import shlex
import signal
import sqlite3
import sys
from pathlib import Path

import pytest

from tests.cli.program import COMMAND, Program, end, eventually, line

# Writes a line into a log again and again, and one last line if it is asked to stop.
WORKER = """
import signal, sys, time
log = open(sys.argv[1], "a", buffering=1)
def stop(number, frame):
    if "stubborn" not in sys.argv:
        log.write("ended\\n")
        sys.exit(0)
signal.signal(signal.SIGTERM, stop)
print("up", flush=True)
while True:
    log.write("works\\n")
    time.sleep(0.01)
"""

# Read by the program when it starts: warnings come late, and yet before the program has ended.
HEARS_LATE = """
import atexit, time
from fencelock import observe
def late(message, warn=observe.warn):
    time.sleep(1.0)
    warn(message)
observe.warn = late
atexit.register(time.sleep, 2.0)
"""


def takes_over(program: Program, *manners: str) -> list[str]:
    """Freeze a wrapper and let another run; return what the log says, in order."""
    log = program.folder / "log"
    words = (sys.executable, "-c", WORKER, str(log), *manners)
    frozen = program.start("run", "a", "--ttl", "8s", "--grace", "300ms", "--", *words)
    assert line(frozen) == "up"
    frozen.send_signal(signal.SIGSTOP)
    following = program.run("run", "a", "-w", "30s", "-c", f"echo began >> {log}")
    assert following.returncode == 0
    eventually(lambda: not (set(program.marked()) - {frozen.pid, *dogs(frozen.pid)}))
    frozen.send_signal(signal.SIGCONT)
    ran = end(frozen)
    assert ran.returncode == 79
    assert ran.stderr.count("\n") == 1, ran.stderr
    return log.read_text().split()


def dogs(pid: int) -> list[int]:
    """The watchdog of a wrapper: it shows the same command line."""
    own = Path(f"/proc/{pid}/cmdline").read_bytes()
    return [p for p in map(int, filter(str.isdigit, os.listdir("/proc"))) if shows(p) == own]


def shows(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def test_a_frozen_wrapper_has_its_command_stopped_before_the_next_begins(program: Program) -> None:
    assert takes_over(program)[-2:] == ["ended", "began"]


def test_a_command_that_ignores_term_is_killed_before_the_next_begins(program: Program) -> None:
    assert takes_over(program, "stubborn")[-2:] == ["works", "began"]


def test_what_the_command_left_in_its_group_is_stopped_too(program: Program) -> None:
    line_ = "(trap '' TERM; while :; do sleep 0.01; done) & echo up; wait"
    process = program.start("run", "a", "--ttl", "4s", "--grace", "200ms", "-c", line_)
    assert line(process) == "up"
    assert program.run("revoke", "a", "--reason", "over", "--yes").returncode == 0
    assert process.wait(30) == 79
    eventually(lambda: not program.marked())


def test_a_loss_is_said_once_although_the_log_hears_of_it_late(program: Program) -> None:
    (program.folder / "sitecustomize.py").write_text(HEARS_LATE)
    program.add_to_path(program.folder)
    revoke = f"PYTHONPATH= {shlex.join(COMMAND)} revoke a --reason maintenance --yes 2>/dev/null"
    ran = program.run("run", "a", "--ttl", "4s", "-c", f"{revoke}; exec sleep 60")
    assert ran.returncode == 79
    assert ran.stderr.count("\n") == 1, ran.stderr


@pytest.mark.parametrize(
    ("how", "code", "said"),
    [
        ("term", 79, "sent TERM and gets KILL"),
        ("kill", 79, "was killed"),
        ("warn", 0, "goes on without it"),
        ("signal:USR1", 79, "sent USR1"),
    ],
)
def test_what_is_done_on_a_loss_is_the_users_choice(
    how: str, code: int, said: str, program: Program
) -> None:
    script = "trap 'echo USR1; exit 0' USR1; echo up; read x; echo on"
    words = ("run", "a", "--ttl", "5s", "--on-lost", how, "--status-fd", "2", "-c", script)
    process = program.start(*words)
    assert line(process) == "up"
    assert program.run("revoke", "a", "--reason", "audit", "--yes").returncode == 0
    assert process.stderr is not None
    message = process.stderr.readline()
    assert "audit" in message
    assert said in message
    if how == "warn":
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    status = json.loads(process.stderr.readline())  # it may have come with the first line
    ran = end(process)
    assert ran.returncode == code
    assert status["lost_reason"] == "audit"
    assert status["outcome"] == ("ran" if how == "warn" else "lost")
    if how == "signal:USR1":
        assert ran.stdout == "USR1\n"
    if how == "warn":
        assert ran.stdout == "on\n"


def test_a_shell_sees_the_end_of_the_lease_pipe(program: Program) -> None:
    script = 'echo up; cat "/dev/fd/$FENCELOCK_LEASE_FD"; echo "the pipe ended"'
    process = program.start("run", "a", "--ttl", "4s", "--on-lost", "warn", "-c", script)
    assert line(process) == "up"
    assert program.run("revoke", "a", "--reason", "over", "--yes").returncode == 0
    ran = end(process)
    assert (ran.returncode, ran.stdout) == (0, "the pipe ended\n")


def test_the_lease_pipe_ends_although_the_wrapper_is_frozen(program: Program) -> None:
    script = 'echo up; cat "/dev/fd/$FENCELOCK_LEASE_FD"; echo "the pipe ended"'
    process = program.start("run", "a", "--ttl", "1s", "--on-lost", "warn", "-c", script)
    assert line(process) == "up"
    process.send_signal(signal.SIGSTOP)
    assert line(process) == "the pipe ended"
    process.send_signal(signal.SIGCONT)
    assert end(process).returncode == 0


def test_an_engine_that_does_not_answer_is_warned_of_and_then_stops_the_command(
    program: Program,
) -> None:
    words = (
        "run",
        "a",
        "--ttl",
        "4s",
        "--grace",
        "200ms",
        "--url",
        f"{program.url}?request_timeout=0.1",
    )
    process = program.start(*words, "-c", "echo up; exec sleep 60")
    assert line(process) == "up"
    blocker = sqlite3.connect(program.file, isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")
    assert process.stderr is not None
    assert "tried again while the lease lasts" in process.stderr.readline()
    assert process.poll() is None, "a renewal that fails only warns"
    lost = process.stderr.readline()
    assert "lost 'a'" in lost
    blocker.execute("ROLLBACK")
    blocker.close()
    assert end(process).returncode == 79


def test_a_short_outage_costs_nothing(program: Program) -> None:
    words = ("run", "a", "--ttl", "6s", "--url", f"{program.url}?request_timeout=0.1")
    process = program.start(*words, "-c", "echo up; read x; exit 4")
    assert line(process) == "up"
    blocker = sqlite3.connect(program.file, isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")
    assert process.stderr is not None
    assert "tried again" in process.stderr.readline()
    blocker.execute("ROLLBACK")
    blocker.close()
    with program.client() as client:
        before = client.holders("a")[0].remaining
        eventually(lambda: client.holders("a")[0].remaining > before)
    ran = end(process)
    assert (ran.returncode, ran.stderr) == (4, "")


def test_a_removed_database_is_a_loss(program: Program) -> None:
    process = program.start("run", "a", "--ttl", "1s", "-c", "echo up; exec sleep 60")
    assert line(process) == "up"
    program.file.unlink()
    ran = end(process)
    assert ran.returncode == 79
    assert "lost 'a'" in ran.stderr


def test_renewal_carries_a_command_past_its_ttl(program: Program) -> None:
    words = ("run", "a", "--ttl", "4s", "--status-fd", "2", "--", "sleep", "5")
    ran = program.run(*words)
    assert ran.returncode == 0
    assert json.loads(ran.stderr)["renewals"] >= 2
