"""Acquires a lock and ends without releasing it: ``… leaver FLAVOR WAY URL``."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import threading

import fencelock
from fencelock import aio
from fencelock.testing import faulty
from fencelock.testing.faulty import Faults


def say(**facts: object) -> None:
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


def end(way: str) -> None:
    """What happens after the lock was acquired; the signals come from outside."""
    if way == "sys.exit":
        sys.exit(3)
    if way == "unhandled":
        raise RuntimeError("nobody handles this")
    if way in ("SIGTERM", "SIGINT"):
        # In short waits: a signal in the moment before one begins is seen when it ends.
        for _ in range(600):
            threading.Event().wait(0.1)


def blocking(way: str, url: str) -> None:
    client = fencelock.connect(url)
    lease = client.lock("seat", ttl=60).acquire()
    globals()["kept"] = client, lease  # before anybody is told: a signal may come at once
    say(event="acquired", fence=lease.fence)
    end(way)


def blocking_with_waiter(url: str) -> None:
    """The main thread ends while others still wait for locks."""
    client = fencelock.connect(url)
    lease = client.lock("seat", ttl=60).acquire()
    globals()["kept"] = lease
    waiter = threading.Thread(target=client.lock("taken").acquire, daemon=True)
    waiter.start()
    while not client.inspect("taken").waiters:
        pass
    say(event="acquired", fence=lease.fence)


async def awaiting(way: str, url: str) -> None:
    async with aio.connect(url) as client, client.lock("seat", ttl=60) as lease:
        # asyncio does not survive an exception of a signal's handler in a task that nobody awaits.
        connecting = [t for t in asyncio.all_tasks() if t.get_name() == "fencelock-connect"]
        if connecting:
            await asyncio.wait(connecting)
        say(event="acquired", fence=lease.fence)
        if way in ("SIGTERM", "SIGINT"):
            await asyncio.sleep(60)
        end(way)


async def awaiting_in_tasks(url: str) -> None:
    """Several tasks hold and wait while the program is interrupted."""
    async with aio.connect(url) as client:

        async def hold(name: str) -> None:
            async with client.lock(name, ttl=60):
                await asyncio.sleep(60)

        async with asyncio.TaskGroup() as group:
            for name in ("seat", "two", "three", "seat"):
                group.create_task(hold(name))
            while not (await client.inspect("seat")).waiters:  # noqa: ASYNC110  # there is no event for this
                await asyncio.sleep(0)
            say(event="acquired")


async def awaiting_loose(url: str) -> None:
    """A task that nobody awaits holds the lock; the main coroutine just ends."""
    client = await aio.connect(url)
    holding = asyncio.Event()

    async def hold() -> None:
        async with client.lock("seat", ttl=60):
            holding.set()
            await asyncio.sleep(60)

    task = asyncio.create_task(hold())
    await holding.wait()
    say(event="acquired", task=task.get_name())


async def awaiting_slow(url: str) -> None:
    """A release is under way while the main coroutine ends."""
    faults = Faults()
    client = await faulty.connect_aio(url, faults)
    lease = await client.lock("seat", ttl=60).acquire()
    faults.delay("release", before=0.05)
    task = asyncio.create_task(lease.release())
    while not faults.seen("release", "under way"):  # noqa: ASYNC110  # there is no event for this
        await asyncio.sleep(0)
    say(event="acquired", task=task.get_name())


async def awaiting_bare(url: str) -> None:
    """Neither the lease nor the client is ever left."""
    client = await aio.connect(url)
    lease = await client.lock("seat", ttl=0.5).acquire()
    globals()["kept"] = lease
    say(event="acquired", fence=lease.fence)


def terminate(*_: object) -> None:
    raise SystemExit(3)


if __name__ == "__main__":
    flavor, way, url = sys.argv[1:]
    if way == "SIGTERM":
        signal.signal(signal.SIGTERM, terminate)
    if way == "waiter":
        blocking_with_waiter(url)
    elif flavor == "sync":
        blocking(way, url)
    else:
        ways = {
            "tasks": awaiting_in_tasks,
            "loose": awaiting_loose,
            "slow": awaiting_slow,
            "bare": awaiting_bare,
        }
        asyncio.run(ways[way](url) if way in ways else awaiting(way, url))
