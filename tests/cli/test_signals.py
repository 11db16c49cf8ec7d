"""Signals to the wrapper: passed on once, or the end of a wait that leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from tests.cli.program import Program, children, end, eventually, line, watchdog_of

ENDING = ["SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM"]
FORWARDED = [*ENDING, "SIGUSR1", "SIGUSR2"]

# Says every signal that it gets, and ends when its stdin does. Not with print(): a handler that
# comes while "up" is printed would be refused a second entry into the same buffer.
LISTENER = """
import os, signal, sys
def say(number, frame):
    os.write(1, signal.Signals(number).name.encode() + b"\\n")
for name in "HUP INT QUIT TERM USR1 USR2".split():
    signal.signal(getattr(signal, "SIG" + name), say)
os.write(1, b"up\\n")
sys.stdin.read()
"""


@pytest.mark.parametrize("name", FORWARDED)
def test_a_signal_reaches_the_command_once(name: str, program: Program) -> None:
    process = program.start("run", "a", "--", sys.executable, "-c", LISTENER)
    assert line(process) == "up"
    process.send_signal(signal.Signals[name])
    assert line(process) == name
    ran = end(process)
    assert (ran.returncode, ran.stdout) == (0, ""), "it came once"


@pytest.mark.parametrize("name", ENDING)
def test_a_signal_ends_the_wait_and_leaves_the_queue_empty(name: str, program: Program) -> None:
    with program.client() as client, client.lock("a"):
        process = program.start("run", "a", "--", "echo", "ran")
        program.queue("a", 1)
        process.send_signal(signal.Signals[name])
        ran = end(process)
        assert ran.returncode == 128 + signal.Signals[name]
        assert (ran.stdout, ran.stderr) == ("", "")
        assert client.inspect("a").waiters == ()
    with program.client() as client:
        assert client.holders("a") == []


@pytest.mark.parametrize("verb", ["acquire", "hold"])
def test_other_waits_end_in_the_same_way(verb: str, program: Program) -> None:
    with program.client() as client, client.lock("a"):
        process = program.start(verb, "a")
        program.queue("a", 1)
        process.send_signal(signal.SIGTERM)
        assert end(process).returncode == 143
        assert client.inspect("a").waiters == ()


def test_a_signal_at_the_moment_of_the_grant_leaves_no_lock(program: Program) -> None:
    """The lock is handed over and the signal sent together: either the command ran, or nothing."""
    for _ in range(8):
        with program.client() as client:
            lease = client.lock("a", ttl=60).acquire()
            process = program.start("run", "a", "--ttl", "60s", "--", "sleep", "60")
            program.queue("a", 1)
            lease.release()
            process.send_signal(signal.SIGTERM)
            assert end(process).returncode == 143
            assert client.holders("a") == []


def test_a_signal_that_is_ignored_stays_so_as_nohup_wants(program: Program) -> None:
    with program.client() as client, client.lock("a") as lease:
        nohup = ("sh", "-c", "trap '' HUP; exec \"$@\"", "sh")
        process = program.start("run", "a", "-c", "kill -HUP $$; echo alive", before=nohup)
        program.queue("a", 1)
        process.send_signal(signal.SIGHUP)
        lease.release()
        ran = end(process)
    assert (ran.returncode, ran.stdout) == (0, "alive\n")


def test_the_command_finds_signals_as_they_were(program: Program) -> None:
    ran = program.run("run", "a", "-c", "kill -PIPE $$; echo alive")  # Python ignores SIGPIPE
    assert (ran.returncode, ran.stdout) == (128 + signal.SIGPIPE, "")


def test_kill_9_of_the_wrapper_leaves_no_command(program: Program) -> None:
    process = program.start("run", "a", "--ttl", "2s", "-c", "echo $$; exec sleep 60")
    command = int(line(process))
    process.kill()
    eventually(lambda: command not in program.marked())
    eventually(lambda: not program.marked())
    assert program.run("run", "a", "-w", "20s", "--", "true").returncode == 0


def test_kill_9_of_the_wrapper_kills_a_command_that_ignores_term(program: Program) -> None:
    stubborn = "trap '' TERM; echo up; while :; do sleep 0.01; done"
    process = program.start("run", "a", "--ttl", "2s", "--grace", "200ms", "-c", stubborn)
    assert line(process) == "up"
    process.kill()
    eventually(lambda: not program.marked())


@pytest.mark.parametrize("stubborn", [False, True])
def test_kill_9_of_the_wrapper_frees_the_lock_once_the_command_has_ended(
    stubborn: bool, program: Program
) -> None:
    """Nobody waits for the end of the ttl; not before the command is gone."""
    trap = "trap '' TERM;" if stubborn else ""
    script = f"{trap} echo up; while :; do sleep 0.01; done"
    process = program.start("run", "a", "--ttl", "10m", "--grace", "500ms", "-c", script)
    assert line(process) == "up"
    with program.client() as client:
        process.kill()
        eventually(lambda: not client.holders("a"))
        assert process.stdout is not None
        assert process.stdout.read() == "", "the last of its group has closed it"
    eventually(lambda: not program.marked())


def test_kill_9_of_the_wrapper_keeps_the_lock_of_a_command_that_goes_on(program: Program) -> None:
    process = program.start("run", "a", "--on-lost", "warn", "-c", "echo up; read x")
    assert line(process) == "up"
    watchdog = watchdog_of(process)
    with program.client() as client:
        process.kill()
        eventually(lambda: watchdog not in program.marked())
        assert client.holders("a")


def test_kill_9_of_the_wrapper_before_it_could_name_the_command(program: Program) -> None:
    """The watchdog finds the command by its pipe."""
    program.add_to_path(program.folder)
    (program.folder / "sitecustomize.py").write_text(
        "import os, fencelock.cli.run.watchdog as w\n"
        "tell = w.Watchdog.tell\n"
        "def told(self, order):\n"
        "    if order.startswith('group'): os.kill(os.getpid(), 9)\n"
        "    tell(self, order)\n"
        "w.Watchdog.tell = told\n"
    )
    process = program.start("run", "a", "--ttl", "2s", "--", "/bin/sleep", "60")
    assert process.wait(30) == -signal.SIGKILL
    eventually(lambda: not program.marked())


def test_kill_9_of_the_watchdog_is_told_and_the_wrapper_stands_in(program: Program) -> None:
    process = program.start("run", "a", "--ttl", "4s", "-c", "echo up; exec sleep 60")
    assert line(process) == "up"
    os.kill(watchdog_of(process), signal.SIGKILL)
    assert process.stderr is not None
    assert "watchdog was killed" in process.stderr.readline()
    assert program.run("revoke", "a", "--reason", "over", "--yes").returncode == 0
    ran = end(process)
    assert ran.returncode == 79
    assert ran.stderr.count("over") == 1


def test_a_stopped_watchdog_does_not_keep_the_wrapper(program: Program) -> None:
    process = program.start("run", "a", "-c", "echo up; read x")
    assert line(process) == "up"
    os.kill(watchdog_of(process), signal.SIGSTOP)
    assert end(process).returncode == 1  # read met EOF


def test_readers_of_the_output_see_its_end_with_the_command(program: Program) -> None:
    """Nothing that stays behind keeps the wrapper's descriptors open."""
    read, write = os.pipe()
    process = program.start("run", "a", "--", "true", pass_fds=[write])
    os.close(write)
    assert os.read(read, 1) == b""
    os.close(read)
    assert end(process).returncode == 0


@pytest.mark.parametrize("closed", [[0], [1], [2], [0, 1, 2]])
def test_closed_streams_are_closed_for_the_command_too(closed: list[int], program: Program) -> None:
    look = "for n in 0 1 2; do [ -e /proc/self/fd/$n ] && echo $n; done > seen; true"
    closing = " ".join(f"{n}>&-" for n in closed)
    quoted = " ".join(f"'{word}'" for word in [sys.executable, "-m", "fencelock", "run", "a"])
    ran = subprocess.run(
        ["sh", "-c", f'{quoted} -- sh -c "$0" {closing}', look],
        env=program.environment,
        cwd=program.folder,
        timeout=30,
        check=False,
    )
    assert ran.returncode == 0
    seen = (program.folder / "seen").read_text().split()
    assert seen == [str(n) for n in (0, 1, 2) if n not in closed or n == 1]  # 1 is the file itself


def test_an_outer_wrapper_takes_the_inner_command_with_it(program: Program) -> None:
    inner = [sys.executable, "-m", "fencelock", "run", "b", "--", "sh", "-c", "echo $$; sleep 60"]
    process = program.start("run", "a", "--ttl", "4s", "--", *inner)
    command = int(line(process))
    with program.client() as client:
        assert [h.name for h in client.scan()] == ["a", "b"]
    assert program.run("revoke", "a", "--reason", "over", "--yes").returncode == 0
    assert end(process).returncode == 79
    eventually(lambda: command not in program.marked())


def test_the_wrapper_has_two_children(program: Program) -> None:
    """The tests above mean what they say."""
    process = program.start("run", "a", "-c", "echo up; read x")
    assert line(process) == "up"
    assert len(children(process.pid)) == 2
    assert watchdog_of(process) in children(process.pid)
