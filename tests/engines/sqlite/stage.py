"""Engines without a client above them, in both flavors, and processes that keep the file busy."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from fencelock.engine import Engine
from fencelock.engines import resolve
from fencelock.world import World, sleep
from fencelock.worlds.aio import AioWorld
from fencelock.worlds.threads import ThreadsWorld, drive

SOON = 10.0

flavors = pytest.mark.parametrize("flavor", ["sync", "asyncio"])


async def opened(world: World, path: Path, **options: object) -> Engine:
    kind, address = resolve(f"sqlite:///{path}", options)
    engine = kind(world, address)
    await engine.open()
    return engine


def play(flavor: str, scenario: Callable[[World], Coroutine[Any, Any, None]]) -> None:
    """Run a scenario in one flavor."""
    if flavor == "sync":
        drive(scenario(ThreadsWorld()))
        return

    async def main() -> None:
        await scenario(AioWorld())

    asyncio.run(main())


async def until(world: World, holds: Callable[[], Awaitable[object]], what: str) -> None:
    """Wait for something that is seen by looking."""
    give_up = world.now() + SOON
    while not await holds():
        assert world.now() < give_up, f"{what}: not within {SOON:g} s"
        await sleep(world, 0.005)


KEEP_BUSY = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("inside", flush=True)
sys.stdin.read()
"""


@contextmanager
def frozen_in_a_transaction(path: Path) -> Iterator[Callable[[], None]]:
    """A process that was stopped while it wrote; yields the way to end it."""
    process = subprocess.Popen(
        [sys.executable, "-c", KEEP_BUSY, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == b"inside\n"
        os.kill(process.pid, signal.SIGSTOP)
        yield process.kill
    finally:
        process.kill()
        process.wait(SOON)
        process.stdin.close()
        process.stdout.close()
