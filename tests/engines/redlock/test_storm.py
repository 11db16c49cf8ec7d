"""Contenders and a nemesis: nodes freeze, die and come back with their data, one at a time."""

from __future__ import annotations

import random
import threading

from fencelock import FencelockError
from fencelock.worlds import clock
from tests.faults.flavors import SOON, Lab, run
from tests.servers.redlock import Nodes

STORM_S = 6.0
STORM_MAX_S = 60.0  # on a machine that has much else to do
ENOUGH = 20  # turns; a storm with fewer shows nothing
CONTENDERS = 6
FATES = 9


class Seat:
    """What the lock protects: it notices when two are in it, and when a fence is not higher."""

    def __init__(self) -> None:
        self.inside = 0
        self.turns = 0
        self.highest = 0
        self.faults: list[str] = []

    def enter(self, fence: int) -> None:
        self.inside += 1
        self.turns += 1
        if self.inside > 1:
            self.faults.append(f"{self.inside} are in it")
        if fence <= self.highest:
            self.faults.append(f"fence {fence} after {self.highest}")
        self.highest = fence

    def leave(self) -> None:
        self.inside -= 1


def haunt(nodes: Nodes, dice: random.Random, over: threading.Event) -> None:
    """Do something to one node at a time. What it has promised it remembers: every write is on
    disk before it is answered."""
    for _ in range(FATES):
        node = dice.choice(nodes.nodes)
        if dice.random() < 0.5:
            node.pause()
            over.wait(dice.uniform(0.05, 0.5))
            node.resume()
        else:
            node.kill()
            over.wait(dice.uniform(0.0, 0.2))
            node.start()
        if over.wait(0.1):
            return


def test_no_two_hold_together_whatever_happens_to_a_minority(flavor: str) -> None:
    """H43, H44, H45: all go on, exclusion holds, and every fence is higher than the last."""
    with Nodes(persistence="always") as nodes:

        async def scenario(lab: Lab) -> None:
            seat, began = Seat(), clock.now()
            clients = [
                await lab.connect(nodes.url, node_timeout=0.2) for _ in range(CONTENDERS // 2)
            ]

            def goes_on() -> bool:
                past = clock.now() - began
                return past < STORM_S or (past < STORM_MAX_S and seat.turns <= ENOUGH)

            async def contend(number: int) -> None:
                lock = clients[number % len(clients)].lock("seat", ttl=5)
                while goes_on():
                    try:
                        lease = await lock.try_acquire(timeout=1)
                    except FencelockError:
                        continue  # too few nodes answered in time: nothing is held
                    if lease is None:
                        continue
                    seat.enter(lease.fence)
                    await lab.let_pass(0.002)
                    seat.leave()
                    try:
                        await lease.release()
                    except FencelockError:
                        pass  # it frees itself

            over = threading.Event()
            nemesis = threading.Thread(target=haunt, args=(nodes, random.Random(3), over))
            nemesis.start()
            try:
                for job in [lab.start(contend(number)) for number in range(CONTENDERS)]:
                    await job.result(within=STORM_MAX_S + SOON)
            finally:
                over.set()
                nemesis.join()
            assert seat.faults == []
            assert seat.turns > ENOUGH, "the storm left nobody time to hold anything"

        run(flavor, scenario)
