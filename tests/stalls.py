"""Run tests whose processes stand still now and then: ``python -m tests.stalls [arguments]``.

A busy machine keeps a process from running for a second or two: now a test, now a server. Here that
happens all the time, to one process of each worker after the other. So a test that a stall can
outlast is found in minutes, and not once in many runs. A process that a test has stopped is left
alone; if a test stops one that stands still already, it goes on too early, and the test may fail.
So are the processes of a terminal, whose shell would take them for stopped.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from tests.tmp_dirs import temporary_folder

STALL_S = (0.5, 2.0)
PAUSE_S = (0.2, 1.0)
OWN = 0.3  # of all stalls are of the worker itself, which is the client of most tests


def main(arguments: Sequence[str]) -> int:
    """Run pytest, and stall its processes until it ends."""
    with temporary_folder() as environment:
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
        with subprocess.Popen(command, env=environment) as pytest:
            done = threading.Event()
            stalling = threading.Thread(target=stall_all, args=(pytest.pid, done))
            stalling.start()
            try:
                return pytest.wait()
            finally:
                done.set()
                stalling.join()


def stall_all(root: int, done: threading.Event) -> None:
    """Stall each worker and what it has started, in a thread of its own."""
    threads: dict[int, threading.Thread] = {}
    while not done.wait(1.0):
        for worker in children().get(root, []):
            if worker not in threads:
                threads[worker] = threading.Thread(target=stall_one, args=(worker, done))
                threads[worker].start()
    for thread in threads.values():
        thread.join()


def stall_one(worker: int, done: threading.Event) -> None:
    """Stall a worker or one of its descendants, again and again."""
    while not done.wait(random.uniform(*PAUSE_S)):
        others = descendants(worker)
        chosen = worker if not others or random.random() < OWN else random.choice(others)
        state, terminal = status(chosen)
        if state in ("T", "Z", "") or terminal:
            if not status(worker)[0]:
                return
            continue
        with contextlib.suppress(ProcessLookupError):
            os.kill(chosen, signal.SIGSTOP)
            try:
                done.wait(random.uniform(*STALL_S))
            finally:
                os.kill(chosen, signal.SIGCONT)


def children() -> dict[int, list[int]]:
    """All processes of this machine, by their parent."""
    found: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parent = int(path.read_text().rpartition(")")[2].split()[1])
            found.setdefault(parent, []).append(int(path.parent.name))
    return found


def descendants(root: int) -> list[int]:
    """What a process has started, directly or not."""
    tree, found = children(), [root]
    for each in found:
        found += tree.get(each, [])
    return found[1:]


def status(process: int) -> tuple[str, int]:
    """The state and the terminal of a process; nothing if there is none."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return "", 0
    return fields[0], int(fields[4])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
