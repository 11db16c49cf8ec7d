"""A client that is dropped without close() leaves no thread, descriptor or socket behind."""

from __future__ import annotations

import asyncio
import gc
import os
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import fencelock
from fencelock import AcquireTimeout, aio
from tests.engines.sqlite.stage import SOON, flavors


def open_files(folder: Path) -> list[str]:
    """What this process has open in a folder, and all its sockets."""
    found: list[str] = []
    for descriptor in os.listdir("/proc/self/fd"):
        try:
            found.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        except OSError:
            pass  # that of the listing itself
    return [path for path in found if str(folder) in path or path.startswith("socket:")]


def threads() -> list[str]:
    return [t.name for t in threading.enumerate() if t.name.startswith("fencelock")]


def until_gone(left: Callable[[], list[str]], before: list[str]) -> None:
    give_up = time.monotonic() + SOON
    while len(left()) > len(before):
        gc.collect()
        assert time.monotonic() < give_up, f"left behind: {left()}, before: {before}"
        time.sleep(0.01)


def use_blocking(url: str, waits: bool) -> None:
    client = fencelock.connect(url)
    with client.lock("seat"):
        if waits:
            with pytest.raises(AcquireTimeout):
                client.lock("seat").acquire(timeout=0.01)


async def use_awaiting(url: str, waits: bool) -> None:
    client = await aio.connect(url)
    async with client.lock("seat"):
        if waits:
            with pytest.raises(AcquireTimeout):
                await client.lock("seat").acquire(timeout=0.01)


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="descriptors are listed in /proc")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("push", ["yes", "no"])
@pytest.mark.parametrize("waits", [False, True], ids=["never waited", "has waited"])
@flavors
def test_a_dropped_client_leaves_nothing_open(
    flavor: str, waits: bool, push: str, tmp_path: Path
) -> None:
    """H29: also in the middle of a program that goes on, and in a loop that goes on."""
    url = f"sqlite:///{tmp_path}/locks.db?push={push}"
    socket.socket().close()  # whatever a first socket brings with it is there
    gc.collect()
    before, running = open_files(tmp_path), threads()

    async def in_a_loop() -> None:
        own = len(open_files(tmp_path)) - len(before)  # those of the loop
        for _ in range(3):
            await use_awaiting(url, waits)
        give_up = time.monotonic() + SOON
        while len(open_files(tmp_path)) > len(before) + own or len(threads()) > len(running):
            gc.collect()
            assert time.monotonic() < give_up, f"{open_files(tmp_path)}, {threads()}"
            await asyncio.sleep(0.01)

    if flavor == "sync":
        for _ in range(3):
            use_blocking(url, waits)
    else:
        asyncio.run(in_a_loop())
    until_gone(threads, running)
    until_gone(lambda: open_files(tmp_path), before)
    inboxes = tmp_path / "locks.db-inbox"
    assert not inboxes.exists() or list(inboxes.iterdir()) == []


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="descriptors are listed in /proc")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_loop_that_ended_leaves_nothing_open(tmp_path: Path) -> None:
    """H29: the client is dropped when its loop is closed already."""
    gc.collect()
    before, running = open_files(tmp_path), threads()
    clients: list[aio.Client] = []

    async def main() -> None:
        client = await aio.connect(f"sqlite:///{tmp_path}/locks.db")
        clients.append(client)
        lease = await client.lock("seat").acquire()
        with pytest.raises(AcquireTimeout):
            await client.lock("seat").acquire(timeout=0.01)
        await lease.release()

    asyncio.run(main())
    clients.clear()
    until_gone(threads, running)
    until_gone(lambda: open_files(tmp_path), before)
