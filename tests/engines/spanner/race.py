"""One of the processes of a race: it takes turns, and sees in each whether it is alone.

``python -m tests.engines.spanner.race URL FOLDER TURNS FLAVOR``. In each turn it makes a folder
that nobody else may have made, adds one to a count, and writes down the fence.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import fencelock
from fencelock import aio

TTL_S, TIMEOUT_S = 60.0, 120.0


def turn(folder: Path, fence: int) -> None:
    (folder / "inside").mkdir()  # fails where another is inside
    count = int((folder / "count").read_text())
    with (folder / "fences").open("a") as fences:
        fences.write(f"{fence}\n")
    (folder / "count").write_text(str(count + 1))
    (folder / "inside").rmdir()


def under_threads(url: str, folder: Path, turns: int) -> None:
    with fencelock.connect(url) as client:
        for _ in range(turns):
            with client.lock("seat", ttl=TTL_S, timeout=TIMEOUT_S) as lease:
                turn(folder, lease.fence)


async def in_asyncio(url: str, folder: Path, turns: int) -> None:
    async with aio.connect(url) as client:
        for _ in range(turns):
            async with client.lock("seat", ttl=TTL_S, timeout=TIMEOUT_S) as lease:
                turn(folder, lease.fence)


def main(url: str, folder: str, turns: str, flavor: str) -> None:
    if flavor == "sync":
        under_threads(url, Path(folder), int(turns))
    else:
        asyncio.run(in_asyncio(url, Path(folder), int(turns)))


if __name__ == "__main__":
    main(*sys.argv[1:])
