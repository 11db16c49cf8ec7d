"""Start workers by a fork of one process that has imported what they need.

To start a Python and to import a driver takes a third of a second of a processor, and the tests of
hazards start more than a thousand clients. A forked one is a process as any other: it has a pid and
a group, it is stopped and killed. It shares nothing with the test but its pipes. What ends the way
a program ends, exit handlers included, is no test for it: such a worker is started anew.
"""

from __future__ import annotations

import io
import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path

ROOT = Path(__file__).parents[2]
IMPORTED = (
    "tests.faults.workers.actor",
    "fencelock.engines.etcd.engine",
    "fencelock.engines.http.engine",
    "fencelock.engines.mysql.lease",
    "fencelock.engines.postgresql.lease",
    "fencelock.engines.redis.engine",
    "fencelock.engines.sqlite.engine",
    "fencelock.engines.zookeeper.engine",
    "kazoo.client",
    "psycopg",
    "pymysql",
    "redis.asyncio",
)
"""By the process that is forked; one that cannot be imported is left to the worker."""

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload([*IMPORTED])


class ForkedProcess:
    """As much of ``subprocess.Popen`` as a worker needs, with pipes of text."""

    def __init__(self, module: str, arguments: Sequence[str]) -> None:
        ends = [os.pipe() for _ in range(3)]  # of stdin, stdout, stderr: where it reads or writes
        self.stdin = io.TextIOWrapper(os.fdopen(ends[0][1], "wb"), line_buffering=True)
        self.stdout = io.TextIOWrapper(os.fdopen(ends[1][0], "rb"))
        self.stderr = io.TextIOWrapper(os.fdopen(ends[2][0], "rb"))
        with (
            Connection(ends[0][0], writable=False) as stdin,
            Connection(ends[1][1], readable=False) as stdout,
            Connection(ends[2][1], readable=False) as stderr,
        ):
            what = (module, arguments, dict(os.environ), (stdin, stdout, stderr))
            self._process = _CONTEXT.Process(target=_run, args=what)
            self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        status = self._process.exitcode
        if status is None:
            raise subprocess.TimeoutExpired(self._process.name, timeout or 0.0)
        return status


def _run(
    module: str,
    arguments: Sequence[str],
    environment: dict[str, str],
    pipes: Sequence[Connection],
) -> None:
    """Be a worker, in the forked process."""
    os.setpgid(0, 0)
    for descriptor, pipe in enumerate(pipes):
        os.dup2(pipe.fileno(), descriptor)
        pipe.close()
    sys.stdin = os.fdopen(0, "r", closefd=False)
    sys.stdout = os.fdopen(1, "w", buffering=1, closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(ROOT)
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
