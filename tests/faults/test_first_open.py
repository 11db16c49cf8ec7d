"""A lock file that several processes or threads meet for the first time at the same moment."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import fencelock

FIRST = """
import sys, fencelock
print("ready", flush=True)
sys.stdin.readline()
client = fencelock.connect("sqlite:///" + sys.argv[1])
lease = client.lock("x", ttl=20).try_acquire()
print("held" if lease else "busy", flush=True)
sys.stdin.readline()
if lease:
    print(lease.release(), flush=True)
"""


def test_processes_that_make_the_file_together_never_hold_together(tmp_path: Path) -> None:
    """Forgetting the leases of an earlier boot must not take away one that was just granted."""
    for round in range(12):
        path = str(tmp_path / f"{round}.db")
        crew = [
            subprocess.Popen(
                [sys.executable, "-c", FIRST, path],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for _ in range(4)
        ]
        said = [_exchange(process, None) for process in crew]
        assert said == ["ready"] * 4
        for process in crew:
            _tell(process)
        answers = [_exchange(process, None) for process in crew]
        assert sorted(answers) == ["busy", "busy", "busy", "held"], answers
        outputs = [process.communicate("\n", timeout=30)[0] for process in crew]
        assert "".join(outputs).split() == ["True"]


def test_whoever_is_in_the_way_of_a_new_file_is_waited_for(tmp_path: Path) -> None:
    """SQLite itself gives up at once when it cannot change to a log beside a file in use."""
    url = f"sqlite:///{tmp_path}/new.db"
    with fencelock.connect(url):
        pass
    with closing(sqlite3.connect(tmp_path / "new.db")) as writer:
        assert writer.execute("PRAGMA journal_mode=DELETE").fetchone() == ("delete",)
        writer.execute("BEGIN IMMEDIATE")
        opened: list[fencelock.Client] = []
        opener = threading.Thread(target=lambda: opened.append(fencelock.connect(url).__enter__()))
        opener.start()
        opener.join(0.3)
        assert not opened
        writer.rollback()
        opener.join(30)
    opened.pop().close()


def _tell(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def _exchange(process: subprocess.Popen[str], word: str | None) -> str:
    if word is not None:
        _tell(process)
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_threads_that_begin_to_wait_together_are_all_woken(tmp_path: Path) -> None:
    """Two inboxes for one client would leave one of them unheard."""
    for round in range(10):
        with fencelock.connect(f"sqlite:///{tmp_path}/{round}.db") as client:
            held = client.lock("x", ttl=20).acquire()
            with fencelock.connect(client.url) as other:
                start = threading.Barrier(4)
                order: list[int] = []

                def wait(
                    number: int,
                    other: fencelock.Client = other,
                    start: threading.Barrier = start,
                    order: list[int] = order,
                ) -> None:
                    start.wait()
                    with other.lock("x", ttl=20, timeout=4):
                        order.append(number)

                threads = [threading.Thread(target=wait, args=(number,)) for number in range(4)]
                for thread in threads:
                    thread.start()
                while len(client.inspect("x").waiters) < 4:
                    pass
                held.release()
                for thread in threads:
                    thread.join()
                assert sorted(order) == [0, 1, 2, 3]
