"""A signal ends a wait over every engine, whatever its driver does, and leaves nothing behind."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

import fencelock
from tests.cli.engines import PLACES, fresh, silence
from tests.cli.program import Process, Program, children, end, eventually, line, watchdog_of

SOON_S = 8.0  # a second or so, on a machine that does other things too
VERBS = {
    "acquire": ["acquire", "a"],
    "hold": ["hold", "a"],
    "run": ["run", "a", "--", "echo", "ran"],
    "watch": ["watch", "--interval", "10ms"],
}
# Says when the engine is asked, which is all that can be seen of a wait without a queue.
TELLING = """
import sys
import fencelock.sync as sync
def telling(method):
    def told(*args, **options):
        print("asked", file=sys.stderr, flush=True)
        return method(*args, **options)
    return told
sync.Lock.acquire = telling(sync.Lock.acquire)
sync.Client.scan = telling(sync.Client.scan)
sync.connect = telling(sync.connect)
"""


@pytest.fixture(params=PLACES)
def engine(request: pytest.FixtureRequest, program: Program, tmp_path: Path) -> str:
    """An engine; the program uses a fresh store of it, and tells when it asks."""
    name: str = request.param
    program.url = program.environment["FENCELOCK_URL"] = fresh(name, tmp_path)
    program.add_to_path(tmp_path)
    (tmp_path / "sitecustomize.py").write_text(TELLING)
    return name


def hear(process: Process, times: int) -> None:
    """Read what is told as often as this."""
    assert process.stderr is not None
    for _ in range(times):
        assert process.stderr.readline() == "asked\n"


def ends(process: Process, number: signal.Signals) -> None:
    """Send it, and see the end."""
    process.send_signal(number)
    begun = time.monotonic()
    ran = end(process)
    assert (ran.returncode, ran.stdout, ran.stderr.replace("asked\n", "")) == (128 + number, "", "")
    assert time.monotonic() < begun + SOON_S


def queue(engine: str, client: fencelock.Client, length: int) -> None:
    if PLACES[engine].waiters:
        eventually(lambda: len(client.inspect("a").waiters) == length)


def free(client: fencelock.Client) -> None:
    """See that the lock can be had."""
    lease = eventually(lambda: client.lock("a").try_acquire())
    assert lease is not None
    lease.release()


def words(verb: str, engine: str) -> list[str]:
    if verb == "acquire" and not PLACES[engine].portable:
        pytest.skip("its leases do not outlive the process: acquire refuses it")
    if verb == "acquire" and engine == "zookeeper":  # no lease is longer than its session
        return [*VERBS[verb], "--ttl", "10s"]
    return VERBS[verb]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("verb", ["acquire", "hold", "run"])
def test_a_signal_ends_a_wait_and_leaves_no_place_in_the_queue(
    verb: str, number: signal.Signals, engine: str, program: Program
) -> None:
    with program.client() as client:
        with client.lock("a", ttl=60):
            process = program.start(*words(verb, engine))
            hear(process, 2)
            queue(engine, client, 1)
            ends(process, number)
            queue(engine, client, 0)
        free(client)


@pytest.mark.parametrize("verb", VERBS)
def test_a_signal_ends_it_while_the_server_is_frozen(
    verb: str, engine: str, program: Program
) -> None:
    """The place in the queue cannot be given back then, and ends with its ttl."""
    ttl = [] if verb == "watch" else ["--ttl", "2s"]
    with program.client() as client:
        if verb == "watch" and not client.traits.scan:
            pytest.skip("cannot list its locks")
        lease = client.lock("a", ttl=60).acquire()
        first, *rest = words(verb, engine)
        process = program.start(first, *ttl, *rest)
        hear(process, 2)
        if verb != "watch":
            queue(engine, client, 1)
        with silence(engine, program.url):
            ends_with_what_it_saw(process)
        lease.release()
        free(client)


def ends_with_what_it_saw(process: Process) -> None:
    """The same for a verb that may have answered before."""
    process.send_signal(signal.SIGTERM)
    begun = time.monotonic()
    assert end(process).returncode == 128 + signal.SIGTERM
    assert time.monotonic() < begun + SOON_S


@pytest.mark.parametrize("verb", VERBS)
def test_a_signal_ends_it_while_it_connects_to_a_frozen_server(
    verb: str, engine: str, program: Program
) -> None:
    with program.client() as client:
        client.lock("a").acquire().release()  # the tables are there
        if verb == "watch" and not client.traits.scan:
            pytest.skip("cannot list its locks")
    with silence(engine, program.url):
        process = program.start(*words(verb, engine))
        hear(process, 1)
        ends(process, signal.SIGTERM)


def test_a_frozen_server_is_told_once_and_not_waited_for(engine: str, program: Program) -> None:
    """The lease is lost, the command is stopped, and that was the last word."""
    process = program.start("run", "a", "--ttl", "3s", "-c", "echo up; exec sleep 60")
    hear(process, 2)
    assert line(process) == "up"
    with silence(engine, program.url):
        ran = end(process)
    assert ran.returncode == 79
    *before, last = ran.stderr.splitlines()
    assert "lost 'a'" in last, ran.stderr
    assert len(before) <= 1, "that it could not be renewed"


def test_a_lock_that_could_not_be_released_is_told(engine: str, program: Program) -> None:
    """The command has done its work, and its exit code says so."""
    process = program.start("run", "a", "--ttl", "20s", "-c", "echo up; read x; exit 3")
    hear(process, 2)
    assert line(process) == "up"
    with silence(engine, program.url):
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
        eventually(lambda: not commands(process))
        process.send_signal(signal.SIGTERM)
        begun = time.monotonic()
        ran = end(process)
        assert time.monotonic() < begun + SOON_S
    assert ran.returncode == 3
    assert "'a'" in ran.stderr


def commands(process: Process) -> list[int]:
    """The children of a wrapper but for its watchdog."""
    return [pid for pid in children(process.pid) if pid != watchdog_of(process)]
