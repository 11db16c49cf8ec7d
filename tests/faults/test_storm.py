"""Everything at once: processes that are killed and frozen at random while they share two names."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import time
from pathlib import Path
from typing import Any

import pytest

from tests.faults.crew import Crew, Worker
from tests.faults.held import SLOTS, What

SECONDS = 3.0
SECONDS_MAX = 60.0  # on a machine that has much else to do
ENOUGH = 20  # tenures; a storm with fewer shows nothing
CREW = 4
KILLS = 0.3  # of the turns that do not thaw somebody
SEEDS = {"sync": 1, "asyncio": 2}
STORMS = int(os.environ.get("FENCELOCK_STORMS", "1"))  # `make torture` has more than one


@pytest.mark.parametrize("storm", range(STORMS))
def test_no_two_hold_together_whoever_is_killed_or_frozen(
    flavor: str, shared_url: str, what: What, database: Path, crew: Crew, storm: int
) -> None:
    """H01, H21, H22: seen by one clock, no smaller fence holds after a greater one was seen.

    In each slot of a semaphore that is so; readers may hold beside later readers.
    """
    seed = SEEDS[flavor] + 10 * storm
    chance = random.Random(seed)
    # A ZooKeeper session of 4 s outlives who was killed, and its nodes keep all who come later
    # waiting. If more are killed than such a session ends, nobody holds anything.
    kills = KILLS / 10 if shared_url.startswith("zookeeper") else KILLS

    def start() -> Worker:
        kinds = (what.kind, what.rival_kind)
        return crew.worker("stormer", flavor, shared_url, str(chance.randrange(10**9)), *kinds)

    workers = [start() for _ in range(CREW)]
    all_workers = list(workers)

    def tenures() -> list[dict[str, Any]]:
        return [fact for worker in all_workers for fact in worker.heard(event="held")]

    for worker in workers:
        worker.hear(event="ready", within=SECONDS_MAX)
    frozen: set[int] = set()
    began = time.monotonic()
    while (past := time.monotonic() - began) < SECONDS or (
        past < SECONDS_MAX and len(tenures()) <= ENOUGH
    ):
        time.sleep(chance.random() * 0.15)  # the pace of the storm
        number = chance.randrange(CREW)
        if number in frozen:
            frozen.remove(number)
            workers[number].thaw()
        elif chance.random() < kills:
            workers[number].kill()
            workers[number] = start()
            all_workers.append(workers[number])
        else:
            frozen.add(number)
            workers[number].signal(signal.SIGSTOP)
    for worker in workers:
        worker.kill()
    held = tenures()
    assert len(held) > ENOUGH, "the storm left nobody time to hold anything"
    assert {fact["slot"] for fact in held} <= {None, *range(SLOTS)}
    highest: dict[tuple[object, ...], int] = {}
    for fact in sorted(held, key=lambda fact: fact["from"]):
        place = (fact["name"], fact["slot"])
        for role in ("read", "write") if fact["role"] != "read" else ("write",):
            before = highest.get((*place, role), 0)
            assert fact["fence"] >= before, f"seed {seed}: {fact} came after {before}"
        role = "read" if fact["role"] == "read" else "write"
        highest[*place, role] = max(fact["fence"], highest.get((*place, role), 0))
    if shared_url.startswith("sqlite"):
        connection = sqlite3.connect(database)
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        connection.close()
