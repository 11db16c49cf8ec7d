"""Holds a lock, forks, and lets parent and child say what they see: ``… forker CASE URL``.

Parent and child share stdout; each line says who speaks. Lines on stdin are for whoever reads next,
so only one of the two ever reads at a time.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import sys
import threading
import warnings
from collections.abc import Callable

import fencelock
from fencelock import LeaseLost, aio
from tests.faults.flavors import SOON, make_due
from tests.grace import lengthen_grace


def say(who: str, **facts: object) -> None:
    os.write(1, (json.dumps({"who": who, **facts}) + "\n").encode())


def loss_of(check: Callable[[], None]) -> str | None:
    try:
        check()
    except LeaseLost as loss:
        return type(loss).__name__
    return None


def fork(child: Callable[[], None]) -> int:
    """Fork; the child ends as a program does that runs to its end, exit handlers included."""
    pid = os.fork()
    if pid == 0:
        child()
        say("child", event="ends")
        sys.exit(0)
    return pid


def look(client: fencelock.Client, lease: fencelock.Lease) -> None:
    """What a child can do with the lease that it has inherited: nothing."""
    say("child", held=bool(lease), loss=loss_of(lease.check), released=lease.release())
    say("child", other=client.lock("seat").try_acquire() is not None)


def handle(url: str) -> None:
    """The child tries the lease it inherited, then ends; the parent goes on."""
    client = fencelock.connect(url)
    lease = client.lock("seat", ttl=60).acquire()
    pid = fork(lambda: look(client, lease))
    os.waitpid(pid, 0)
    renewals = lease._hold.renewals
    make_due(lease)
    while lease._hold.renewals == renewals and lease:
        lease.lost.wait(0.01)
    say("parent", held=bool(lease), released=lease.release())


def untouched(url: str) -> None:
    """The child does nothing with what it inherited and ends."""
    client = fencelock.connect(url)
    lease = client.lock("seat", ttl=60).acquire()
    pid = fork(lambda: None)
    os.waitpid(pid, 0)
    lease.renew()
    say("parent", held=bool(lease))
    sys.stdin.readline()
    say("parent", released=lease.release())


def own_link(url: str) -> None:
    """The child uses the same client: it waits for its parent, and then its parent for it."""
    client = fencelock.connect(url)
    lease = client.lock("seat", ttl=60).acquire()

    def child() -> None:
        with client.lock("seat", ttl=60).acquire(timeout=SOON) as mine:
            say("child", fence=mine.fence)
            sys.stdin.readline()

    pid = fork(child)
    sys.stdin.readline()
    say("parent", fence=lease.fence, released=lease.release())
    with client.lock("seat", ttl=60).acquire(timeout=SOON) as again:
        say("parent", again=again.fence)
    os.waitpid(pid, 0)


def prefork(url: str) -> None:
    """A server: the parent connects and uses the engine, the child works on when it has gone."""
    client = fencelock.connect(url)
    client.lock("warm").acquire().release()
    if os.fork() == 0:
        own = client.lock("own", ttl=60).acquire()
        say("child", event="ready", fence=own.fence, pid=os.getpid())
        for name in sys.stdin:
            lease = client.lock(name.strip(), ttl=60).try_acquire()
            say("child", name=name.strip(), got=lease is not None)
        os._exit(0)
    say("parent", event="waiting")
    os.wait()


def busy(url: str) -> None:
    """Fork again and again while another thread is in the middle of the engine's calls."""
    client = fencelock.connect(url)
    client.open()  # what a thread imports at the moment of a fork is Python's to answer for
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            client.lock("busy").acquire().release()

    thread = threading.Thread(target=work)
    thread.start()
    for number in range(20):
        pid = os.fork()
        if pid == 0:
            lease = client.lock(f"child:{number}").acquire(timeout=SOON)
            os._exit(0 if lease.release() else 1)
        _, status = os.waitpid(pid, 0)
        say("parent", number=number, status=os.waitstatus_to_exitcode(status))
    stop.set()
    thread.join()
    client.close()


def multi(url: str) -> None:
    """The same as ``handle`` by way of multiprocessing."""
    client = fencelock.connect(url)
    lease = client.lock("seat", ttl=60).acquire()
    process = multiprocessing.get_context("fork").Process(target=look, args=(client, lease))
    process.start()
    process.join()
    lease.renew()
    say("parent", held=bool(lease), released=lease.release(), status=process.exitcode)


def loop(url: str) -> None:
    """A fork inside a running event loop; the child starts a loop of its own."""

    async def child(lease: aio.Lease) -> None:
        say("child", held=bool(lease), loss=loss_of(lease.check), released=await lease.release())
        async with aio.connect(url) as mine:
            say("child", other=await mine.lock("seat").try_acquire() is not None)

    async def main() -> None:
        async with aio.connect(url) as client:
            lease = await client.lock("seat", ttl=60).acquire()
            pid = os.fork()
            if pid == 0:
                asyncio._set_running_loop(None)
                thread = threading.Thread(target=asyncio.run, args=(child(lease),))
                thread.start()
                thread.join()
                os._exit(0)
            await asyncio.get_running_loop().run_in_executor(None, os.waitpid, pid, 0)
            renewals = lease._hold.renewals
            make_due(lease)
            while lease._hold.renewals == renewals and lease:
                await lease.lost.wait(0.01)
            say("parent", held=bool(lease), released=await lease.release())

    asyncio.run(main())


if __name__ == "__main__":
    # From Python 3.12 on a fork beside threads warns: it is the hazard itself.
    warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
    lengthen_grace(scheme=sys.argv[2].partition(":")[0])
    cases = (handle, untouched, own_link, prefork, busy, multi, loop)
    {case.__name__: case for case in cases}[sys.argv[1]](sys.argv[2])
