"""A signal ends a wait over every engine, whatever its driver does, and leaves nothing behind."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

import fencelock
from tests.cli.engines import PLACES, fresh, silence
from tests.cli.program import Process, Program, end, eventually

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
