"""Asyncio workers that take turns; one of them loses its lease in the middle of its work.

Its body is cancelled at its next ``await`` and ``async with`` raises LeaseLost. The others go on.
"""

from __future__ import annotations

import asyncio
import logging

import fencelock
from fencelock import aio

TURNS = 3


async def worker(client: aio.Client, number: int, log: list[str]) -> None:
    lock = client.lock("machine", ttl=0.3, timeout=30, meta={"worker": number})
    for turn in range(1, TURNS + 1):
        try:
            async with lock as lease:
                log.append(f"worker {number}: turn {turn}, fence {lease.fence}")
                await use_the_machine(client, number, turn)
        except fencelock.LeaseLost as loss:
            log.append(f"worker {number}: turn {turn} was cut short: {loss.reason}")


async def use_the_machine(client: aio.Client, number: int, turn: int) -> None:
    if (number, turn) == (2, 2):  # somebody takes the lock away from this one
        await client.revoke("machine", "an operator needs the machine")
        await asyncio.sleep(60)  # cancelled as soon as the next renewal is refused
    await asyncio.sleep(0.01)


async def main() -> None:
    logging.getLogger("fencelock").setLevel(logging.ERROR)  # a loss is a warning in the log
    log: list[str] = []
    async with aio.connect("sqlite:///machine.db") as client, asyncio.TaskGroup() as group:
        for number in (1, 2, 3):
            group.create_task(worker(client, number, log))
    print(*log, sep="\n")


if __name__ == "__main__":
    asyncio.run(main())
