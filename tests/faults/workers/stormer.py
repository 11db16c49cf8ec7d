"""Takes locks over and over and says when it was sure to hold them.

``python -m tests.faults.workers.stormer FLAVOR URL SEED KIND...``: the kinds are those of
``held.wanted``, one of which is chosen each time. Each line says: at some moment between ``from``
and ``to`` I held this name with this fence, in this role and slot.
"""

from __future__ import annotations

import json
import random
import sys
from typing import Any

from fencelock import AcquireTimeout, LeaseLost, OutcomeUnknown, Unavailable
from fencelock.worlds import clock
from tests.faults.flavors import Lab, run
from tests.faults.held import wanted

TRIES = 10


def say(**facts: object) -> None:
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


async def connected(lab: Lab, url: str) -> Any:
    """A client: a server that has much else to do may need more than one try."""
    for _ in range(TRIES - 1):
        try:
            return await lab.connect(url)
        except Unavailable:
            await lab.let_pass(0.1)
    return await lab.connect(url)


async def work(lab: Lab) -> None:
    chance = random.Random(int(sys.argv[3]))
    client = await connected(lab, sys.argv[2])
    say(event="ready")
    while True:
        try:
            kind = chance.choice(sys.argv[4:])
            name = f"seat:{chance.randrange(2) if kind == 'lock' else 0}"  # there must be a crowd
            async with wanted(client, kind, name, ttl=0.3, timeout=5) as lease:
                while chance.random() < 0.7:
                    began_at, left = clock.now(), lease.remaining()
                    ended_at = clock.now()
                    if ended_at < began_at + left:
                        facts = {"name": lease.name, "fence": lease.fence, "slot": lease.slot}
                        times = {"from": began_at, "to": ended_at}
                        say(event="held", role=lease.role, **facts, **times)
                    await lab.let_pass(chance.random() * 0.01)
        except AcquireTimeout:
            say(event="timeout")
        except LeaseLost:
            say(event="lost")
        except (OutcomeUnknown, Unavailable) as error:  # frozen for longer than a request may take
            say(event="unanswered", why=str(error))
            await lab.let_pass(0.05)


if __name__ == "__main__":
    run(sys.argv[1], work)
