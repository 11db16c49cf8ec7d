"""A client that does as it is told: ``python -m tests.faults.workers.actor FLAVOR URL``.

Orders come as JSON lines on stdin, each is answered by one on stdout. They run beside each other,
so a process that waits for a lock can still be asked something. When stdin ends, so does the
process, as suddenly as by a kill.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import threading
import time
from typing import Any

from fencelock import FencelockError, LeaseLost, aio
from fencelock.worlds import clock
from tests.faults.flavors import Lab, make_due, make_end, run
from tests.faults.held import wanted
from tests.faults.resource import Resource
from tests.grace import lengthen_grace


def say(**facts: object) -> None:
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


class Actor:
    """One method for each order; leases are kept by name."""

    def __init__(self, client: aio.Client) -> None:
        self.client = client
        self.leases: dict[str, aio.Lease] = {}

    async def acquire(
        self, name: str, *, what: str = "lock", timeout: float | None = 0, **options: Any
    ) -> dict[str, Any] | None:
        def lost(loss: LeaseLost) -> None:
            say(event="lost", name=name, kind=type(loss).__name__, reason=loss.reason)

        lock = wanted(self.client, what, name, on_lost=lost, **options)
        lease = await lock.acquire(timeout=timeout)
        self.leases[name] = lease
        granted = await self.status(name)
        say(event="acquired", name=name, fence=lease.fence)
        return granted

    async def release(self, name: str) -> bool:
        return await self.leases[name].release()

    async def check(self, name: str) -> None:
        self.leases[name].check()

    async def status(self, name: str) -> dict[str, Any]:
        lease, now = self.leases[name], clock.now()
        return {
            "at": now,
            "held": bool(lease),
            "fence": lease.fence,
            "slot": lease.slot,
            "reason": lease.reason,
            "valid_until": now + lease.remaining(),
            "renewals": lease._hold.renewals,
            "failure": str(lease._hold.failure or ""),
        }

    async def inspect(self, name: str) -> dict[str, int]:
        state = await self.client.inspect(name)
        return {"holders": len(state.holders), "waiters": len(state.waiters)}

    async def inspect_only(self, name: str) -> list[int]:
        """The fences that hold a name, without changing anything."""
        return [holding.fence for holding in await self.client.scan(name)]

    async def write(self, name: str, path: str, value: object) -> None:
        Resource(path).write(self.leases[name].fence, value)

    async def freeze_between_check_and_write(self, name: str, path: str, value: object) -> None:
        self.leases[name].check()
        signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)  # this thread first
        Resource(path).write(self.leases[name].fence, value)

    async def hold_the_interpreter(self, name: str, seconds: float) -> None:
        """One call into C that does not let go of the interpreter's lock, then look at once."""
        ctypes.PyDLL(None).usleep(int(seconds * 1e6))
        self.leases[name].check()

    async def clocks(self) -> dict[str, float]:
        return {"wall": time.time(), "boot": clock.now(), "monotonic": time.monotonic()}

    async def make_due(self, name: str) -> None:
        make_due(self.leases[name])

    async def make_end(self, name: str) -> None:
        make_end(self.leases[name])

    async def renew(self, name: str) -> None:
        await self.leases[name].renew()


async def obey(actor: Actor, number: int, order: str, arguments: dict[str, Any]) -> None:
    try:
        say(answer=number, value=await getattr(actor, order)(**arguments))
    except FencelockError as error:
        say(answer=number, error=type(error).__name__, message=str(error))
    except KeyError as error:
        say(answer=number, error="KeyError", message=str(error))


async def serve(lab: Lab) -> None:
    actor = Actor(await lab.connect(sys.argv[2]))
    jobs = []
    say(event="ready", pid=os.getpid())
    while line := await lab.read_line():
        message = json.loads(line)
        order = obey(actor, message.pop("number"), message.pop("order"), message)
        jobs.append(lab.start(order))
    os._exit(0)


if __name__ == "__main__":
    lengthen_grace(scheme=sys.argv[2].partition(":")[0])
    run(sys.argv[1], serve)
