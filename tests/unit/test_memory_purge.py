"""The engine in memory drops what is over, also of names that nobody looks at again."""

from __future__ import annotations

from fencelock.engine import Address
from fencelock.engines.memory import PURGE_EVERY, MemoryEngine, Store
from fencelock.model import Request
from fencelock.worlds.threads import ThreadsWorld, drive
from tests.servers.server import until

TTL_S = 0.05


def test_what_is_over_is_dropped_for_names_that_nobody_looks_at_again() -> None:
    world = ThreadsWorld()
    engine = MemoryEngine(world, Address("memory"), Store(world))
    for number in range(20):
        drive(engine.acquire(Request(f"order {number}", f"owner {number}", TTL_S)))
        drive(engine.remember(f"order {number}", "item", 1, TTL_S))
    drive(engine.remember("kept", "item", 1, 60.0))
    held = Request("held", "holder", 60.0)
    drive(engine.acquire(held))

    def use() -> bool:
        for _ in range(PURGE_EVERY):
            drive(engine.acquire(held))
        return len(engine.store.names) == len(engine.store.remembered) == 1

    until(use, "the others to be dropped", within=20)
    assert drive(engine.recall("kept")) == {"item": 1}
