"""Green threads, and clients that are dropped: what surrounds a client of a blocking program."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
from importlib.util import find_spec
from pathlib import Path

import pytest

from fencelock import AcquireTimeout
from tests.faults.flavors import FLAVORS, Lab, run
from tests.servers.redis import Redis
from tests.servers.redlock import Nodes

ROOT = Path(__file__).parents[3]
ENGINES = {"redis": Redis, "redlock": Nodes}
# Both say that nobody is there: whatever else they raise is no answer.
BOTH_BEGIN = """
import asyncio, sys, threading
import fencelock, fencelock.aio

together = threading.Barrier(2)

def by_threads():
    with fencelock.connect(sys.argv[1]) as client:
        client.lock("seat").try_acquire()

async def by_asyncio():
    async with fencelock.aio.connect(sys.argv[1]) as client:
        await client.lock("seat").try_acquire()

def begin(work):
    together.wait()
    try:
        work()
    except BaseException as error:
        said.append(type(error).__name__)

said = []
works = [by_threads, lambda: asyncio.run(by_asyncio())]
threads = [threading.Thread(target=begin, args=(work,)) for work in works]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(*said)
"""


@pytest.mark.parametrize("engine", ENGINES)
def test_a_blocking_and_an_asyncio_client_may_be_the_first_at_once(engine: str) -> None:
    """redis-py is imported by both of them, in two threads, at the same moment."""
    nobody = {
        "redis": "redis://127.0.0.1:1",
        "redlock": "redlock://127.0.0.1:1,127.0.0.1:2,[::1]:1",
    }
    for _ in range(3):
        ran = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", BOTH_BEGIN, nobody[engine]],
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert ran.stdout.split() == ["Unavailable", "Unavailable"], ran.stderr


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kind", ["eventlet", "gevent"])
def test_green_threads_wait_and_renew(kind: str, engine: str) -> None:
    if find_spec(kind) is None:
        pytest.skip(f"{kind} is not installed, so nobody has seen this engine work under it")
    with ENGINES[engine]() as server:
        ran = subprocess.run(
            [
                sys.executable,
                "-W",
                "ignore",
                "-m",
                "tests.engines.redis.workers_green",
                kind,
                server.url,
            ],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": "src"},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert (ran.returncode, ran.stdout.strip()) == (0, "4"), ran.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_green_threads_that_go_on_in_a_forked_child_renew_nothing_there() -> None:
    if find_spec("gevent") is None:
        pytest.skip("gevent is not installed, so NOBODY has seen what its keeper does after a fork")
    with Redis() as server:
        ran = subprocess.run(
            [
                sys.executable,
                "-W",
                "ignore",
                "-m",
                "tests.engines.redis.workers_green_fork",
                server.url,
            ],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": "src"},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    said = ["child [True, True, True]", "parent [True]"]
    assert (ran.returncode, ran.stdout.splitlines()) == (0, said), ran.stderr


def left_behind() -> tuple[int, set[str]]:
    """Descriptors and threads of this process."""
    names = {one.name for one in threading.enumerate() if one.name.startswith("fencelock")}
    return len(os.listdir("/proc/self/fd")), names


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.skipif(sys.platform != "linux", reason="counts descriptors in /proc")
@pytest.mark.parametrize("flavor", FLAVORS)
@pytest.mark.parametrize("engine", ENGINES)
def test_a_client_that_is_dropped_leaves_nothing_open(engine: str, flavor: str) -> None:
    """Neither threads, nor descriptors, nor connections: also after several have waited."""

    async def use(lab: Lab, url: str) -> None:
        client, holder = await lab.connect(url), await lab.connect(url)
        lease = await holder.lock("seat", ttl=5).acquire()

        async def wait() -> None:
            with pytest.raises(AcquireTimeout):
                _ = await client.lock("seat", ttl=5).acquire(timeout=0.05)

        for job in [lab.start(wait()) for _ in range(3)]:
            await job.result()
        await lease.release()
        lab.forget(client)
        lab.forget(holder)

    async def scenario(lab: Lab) -> None:
        nodes = servers.nodes if isinstance(servers, Nodes) else [servers]
        await use(lab, servers.url)  # what is loaded once stays
        gc.collect()
        await lab.until(lambda: all(node.clients() == 0 for node in nodes), "connections to end")
        before = left_behind()
        for _ in range(3):
            await use(lab, servers.url)
        gc.collect()
        await lab.until(lambda: all(node.clients() == 0 for node in nodes), "connections to end")
        await lab.until(lambda: left_behind() == before, "descriptors and threads to end")

    with ENGINES[engine]() as servers:
        run(flavor, scenario)
