"""What a server keeps for those who wait: 10,000 waiters of 100 clients, before locks that stay
held.

Each client waits for all the locks once. The clients are tasks of a few processes, and the figures
are of the process that serves them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack

import fencelock.aio
from bench.contestant import Contestant, Gauge, Served
from bench.crew import DEADLINE_S, Crew, Line
from bench.ours import OursAio
from bench.work import Column, Work

CLIENTS = 100
LOCKS = 100  # and so many waiters of each client
PROCESSES = 4
SETTLE_S = 5.0
LOOK_S = 0.25
MB = 1e6


class Crowd(Work):
    """The waiters stand when the server says so; what it uses is looked at a while later."""

    name = "crowd"
    title = f"{CLIENTS * LOCKS:,} waiters of {CLIENTS} clients"
    columns = (
        Column("more_mb", "MB more in the server"),
        Column("before_mb", "MB before"),
        Column("joined_s", "s until all wait"),
        Column("requests", "requests of each until then"),
        Column("connections", "connections"),
    )
    rounds = 1

    def measure(self, contestant: Contestant, quick: bool) -> Mapping[str, float]:
        assert isinstance(contestant, OursAio)
        clients, locks = (PROCESSES, 5) if quick else (CLIENTS, LOCKS)
        names = [f"crowd:{number}" for number in range(locks)]
        share = clients // PROCESSES
        with contestant.connect() as session, contestant.gauge() as gauge:
            for name in names:
                session.lock(name).acquire()
            with Crew(_wait, [(contestant, names, share)] * PROCESSES) as crew:
                crew.hear()
                before = _look(gauge)
                begun = time.monotonic()
                crew.say("wait")
                joined = _all_wait(gauge, clients * locks)
                spent = time.monotonic() - begun
                time.sleep(0.5 if quick else SETTLE_S)
                after = _look(gauge)
        return {
            "more_mb": (after.memory - before.memory) / MB,
            "before_mb": before.memory / MB,
            "joined_s": spent,
            "requests": (joined.requests - before.requests) / (clients * locks),
            "connections": after.connections,
        }


def _look(gauge: Gauge) -> Served:
    served = gauge.look()
    assert served is not None
    return served


def _all_wait(gauge: Gauge, count: int) -> Served:
    give_up = time.monotonic() + DEADLINE_S
    while (served := _look(gauge)).waiting < count:
        if time.monotonic() > give_up:
            raise RuntimeError(f"{served.waiting} of {count} wait after {DEADLINE_S:g} s")
        time.sleep(LOOK_S)
    return served


def _wait(line: Line, contestant: OursAio, names: list[str], clients: int) -> None:
    asyncio.run(_wait_for(line, f"{contestant.url()}?request_timeout=60", names, clients))


async def _wait_for(line: Line, url: str, names: list[str], clients: int) -> None:
    async with AsyncExitStack() as stack:
        opened = [
            await stack.enter_async_context(fencelock.aio.connect(url)) for _ in range(clients)
        ]
        line.say("ready")
        await asyncio.to_thread(line.hear)
        waiters = [asyncio.create_task(c.lock(n).acquire()) for n in names for c in opened]
        done, _ = await asyncio.wait(waiters, return_when=asyncio.FIRST_COMPLETED)
        raise RuntimeError(f"a waiter waits no more: {done.pop().exception()!r}")
