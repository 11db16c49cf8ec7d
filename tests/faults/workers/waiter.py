"""Waits for a lock and says how that ended: ``… waiter FLAVOR URL NAME``."""

from __future__ import annotations

import asyncio
import json
import sys

import fencelock
from fencelock import aio


def say(**facts: object) -> None:
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


def wait_blocking(url: str, name: str) -> None:
    with fencelock.connect(url) as client:
        say(event="waiting")
        with client.lock(name) as lease:
            say(event="acquired", fence=lease.fence)


async def wait_awaiting(url: str, name: str) -> None:
    async with aio.connect(url) as client:
        say(event="waiting")
        async with client.lock(name) as lease:
            say(event="acquired", fence=lease.fence)


if __name__ == "__main__":
    flavor, url, name = sys.argv[1:]
    try:
        if flavor == "sync":
            wait_blocking(url, name)
        else:
            asyncio.run(wait_awaiting(url, name))
    except KeyboardInterrupt:
        say(event="interrupted")
