"""What is seen of a demo from outside: its lines, its processes and the files that it keeps."""

from __future__ import annotations

import os
import re
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

DEMO = [sys.executable, "-m", "fencelock.demo"]
DEADLINE_S = 120.0
Start = Callable[..., subprocess.Popen[str]]


def read_until(demo: subprocess.Popen[str], word: str) -> list[str]:
    """Read lines of the demo until one has the word."""
    assert demo.stdout is not None
    lines: list[str] = []
    while not lines or word not in lines[-1]:
        line = demo.stdout.readline()
        assert line, f"the demo ended before {word!r}: {lines}"
        lines.append(line)
    return lines


def workers_in(lines: list[str]) -> list[int]:
    """The process ids of the workers."""
    pids = [int(pid) for pid in re.findall(r"starts as process (\d+)", "".join(lines))]
    assert pids
    return pids


def runs(pid: int) -> bool:
    """Whether a process runs or is frozen; one that only waits to be buried does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return state_of(pid) != "Z"


def state_of(pid: int) -> str:
    """R, S, T (frozen), Z (dead) …; empty where there is no /proc."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "" if not Path("/proc/self/stat").exists() else "Z"


def wait_until(what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not what():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)


def rows(folder: Path, query: str) -> list[Any]:
    with closing(sqlite3.connect(folder / "seats.db")) as db:
        return db.execute(query).fetchall()


def check_logs(folder: Path, workers: int) -> None:
    """No worker has anything to complain about but the loss of its lease."""
    logs = sorted(folder.glob("worker-*.log"))
    assert len(logs) == workers
    for log in logs:
        assert "Traceback" not in log.read_text()
        assert "Warning" not in log.read_text()
