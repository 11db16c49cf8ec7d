"""A forked child inherits objects, not leases and not connections; the parent's go on."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

import fencelock
from tests.faults.crew import Crew, Worker
from tests.faults.flavors import Late

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")

FREED_BY_NOBODY: dict[str, Any] = {"held": False, "loss": "SessionEnded", "released": False}


@pytest.mark.parametrize("case", ["handle", "multi"])
def test_a_forked_child_cannot_use_its_parents_lease(
    case: str, shared_url: str, crew: Crew
) -> None:
    """H17: by os.fork and by multiprocessing.

    The child's lease is dead and its release frees nothing; the parent holds on and renews.
    """
    see_that_the_parent_holds_on(crew.worker("forker", case, shared_url))


@pytest.mark.needs("fork_in_loop")
def test_a_child_forked_inside_a_loop_cannot_use_its_parents_lease(
    shared_url: str, crew: Crew
) -> None:
    """H17: the same inside a running event loop."""
    see_that_the_parent_holds_on(crew.worker("forker", "loop", shared_url))


def see_that_the_parent_holds_on(forker: Worker) -> None:
    forker.hear(who="child", **FREED_BY_NOBODY)
    forker.hear(who="child", other=False)
    forker.hear(who="parent", held=True, released=True)
    assert forker.wait() == 0, forker.errors()
    assert forker.errors() == ""


def test_a_lock_in_memory_stays_with_the_parent(crew: Crew) -> None:
    """H17: the memory of a child is its own: nobody there holds what the parent holds."""
    forker = crew.worker("forker", "handle", "memory://")
    forker.hear(who="child", **FREED_BY_NOBODY)
    forker.hear(who="child", other=True)
    forker.hear(who="parent", held=True, released=True)
    assert forker.wait() == 0, forker.errors()


def test_a_child_that_ends_by_itself_takes_nothing_with_it(shared_url: str, crew: Crew) -> None:
    """H17: exit handlers and the garbage collector run in the child as well."""
    forker = crew.worker("forker", "untouched", shared_url)
    forker.hear(who="child", event="ends")
    forker.hear(who="parent", held=True)
    with fencelock.connect(shared_url) as client:
        assert client.lock("seat").try_acquire() is None
    forker.send("go on")
    forker.hear(who="parent", released=True)
    assert forker.wait() == 0, forker.errors()
    assert forker.errors() == ""


@pytest.mark.needs("waiters")
def test_a_child_contends_with_its_parent_through_the_same_client(
    shared_url: str, crew: Crew
) -> None:
    """H18: the child gets a link of its own, and both wait for each other properly."""
    forker = crew.worker("forker", "own_link", shared_url)
    with fencelock.connect(shared_url) as client:
        wait_for_queue(client, 1)
        assert not forker.has_said(who="child")
        forker.send("parent: release")
        child = forker.hear("fence", who="child")["fence"]
        wait_for_queue(client, 1)
        forker.send("child: release")
        again = forker.hear("again", who="parent")["again"]
    parent = forker.hear("fence", who="parent", released=True)["fence"]
    assert parent < child < again
    assert forker.wait() == 0, forker.errors()
    assert forker.errors() == ""


def test_a_child_holds_sqlites_own_locks_in_its_own_name(
    file_url: str, database: Path, crew: Crew
) -> None:
    """H18: SQLite believes that it still has the locks it had before the fork; it has not.

    With nobody's lock on the WAL's index, the next process to come would cut it to nothing.
    """
    locks = Path("/proc/locks")
    if not locks.exists():
        pytest.skip("seeing who holds which record lock needs Linux (/proc/locks)")
    server = crew.worker("forker", "prefork", file_url)
    child = server.hear(who="child", event="ready")["pid"]
    index = database.with_name("locks.db-shm").stat().st_ino
    held = [line.split() for line in locks.read_text().splitlines()]
    owners = {int(line[4]) for line in held if line[5].endswith(f":{index}")}
    assert child in owners, owners


@pytest.mark.needs("scan")
@pytest.mark.parametrize("end", ["killed", "interrupted"])
def test_a_child_works_on_safely_when_its_parent_has_gone(
    shared_url: str, crew: Crew, end: str
) -> None:
    """H18: a server that connects before it forks. SQLite's own state must not be inherited."""
    server = crew.worker("forker", "prefork", shared_url)
    server.hear(who="child", event="ready")
    server.hear(who="parent", event="waiting")
    server.signal(signal.SIGKILL if end == "killed" else signal.SIGINT)
    server.wait_gone()
    fencelock.connect(shared_url).close()  # nobody else has the file open: SQLite tidies up
    server.send("seat")
    server.hear(who="child", name="seat", got=True)
    with fencelock.connect(shared_url) as client:
        assert {held.name for held in client.scan()} == {"own", "seat"}
        assert client.lock("seat").try_acquire() is None
        assert client.lock("own").try_acquire() is None


@pytest.mark.needs("fork_in_use")
def test_a_fork_while_other_threads_use_the_engine_is_safe(shared_url: str, crew: Crew) -> None:
    """H18: what a thread held at the moment of the fork must not stay held for ever."""
    forker = crew.worker("forker", "busy", shared_url)
    for number in range(20):
        assert forker.hear(number=number)["status"] == 0
    assert forker.wait() == 0, forker.errors()


def wait_for_queue(client: fencelock.Client, count: int) -> None:
    pause = threading.Event()
    for _ in range(2000):
        if len(client.inspect("seat").waiters) == count:
            return
        pause.wait(0.005)
    raise Late(f"{count} waiters were not seen")
