"""An exception of a signal handler within an inner block of a re-entrant lock ends that block only.

Whoever catches it in the outer block still holds the lock there, and leaving that block frees it.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from typing import Any

import pytest

import fencelock
from fencelock import aio
from tests.engines.signal_injection import InjectedSignal, SignalInjection

pytestmark = [
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),  # coroutines that were not begun
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # leases that were dropped
]
PATHS = ("/_client/", "/sync.py", "/aio.py", "/recipes/several")
MADE = {
    "lock": lambda client, name: client.lock(name, ttl=60, reentrant=True),
    "locks": lambda client, name: client.locks(name, name + " too", ttl=60, reentrant=True),
}
"""What the inner block enters; the outer block holds the first of the names."""
PARTS = ("enter", "acquire", "exit")


@pytest.mark.parametrize("what", MADE)
@pytest.mark.parametrize("part", PARTS)
def test_a_signal_in_an_inner_block_leaves_the_outer_one_its_lock(part: str, what: str) -> None:
    with fencelock.connect("memory://levels") as client:

        def inner(name: str, moment: int) -> int:
            lock, injection = MADE[what](client, name), SignalInjection(PATHS, moment)
            try:
                if part == "acquire":
                    with injection:
                        leases = lock.acquire()
                    leases.release()
                elif part == "enter":
                    with injection:
                        lock.__enter__()
                    lock.__exit__(None, None, None)
                else:
                    lock.__enter__()
                    with injection:
                        lock.__exit__(None, None, None)
            except InjectedSignal:
                pass
            return injection.moments

        def outer(moment: int) -> int:
            name = f"{part} {what} {moment}"
            with MADE["lock"](client, name) as lease:
                moments = inner(name, moment)
                see_held_once(lease)
            assert not client.holders(name)
            return moments

        for moment in range(1, outer(0) + 1):
            outer(moment)
        see_nothing_kept(client)


@pytest.mark.parametrize("what", MADE)
@pytest.mark.parametrize("part", PARTS)
def test_a_signal_in_an_inner_block_of_a_task_leaves_the_outer_one_its_lock(
    part: str, what: str
) -> None:
    async def main() -> None:
        async with aio.connect("memory://levels") as client:

            async def inner(name: str, moment: int) -> int:
                lock, injection = MADE[what](client, name), SignalInjection(PATHS, moment)
                try:
                    if part == "acquire":
                        with injection:
                            leases = await lock.acquire()
                        await leases.release()
                    elif part == "enter":
                        with injection:
                            await lock.__aenter__()
                        await lock.__aexit__(None, None, None)
                    else:
                        await lock.__aenter__()
                        with injection:
                            await lock.__aexit__(None, None, None)
                except InjectedSignal:
                    pass
                return injection.moments

            async def outer(moment: int) -> int:
                name = f"{part} {what} {moment}"
                async with MADE["lock"](client, name) as lease:
                    moments = await inner(name, moment)
                    see_held_once(lease)
                assert not await client.holders(name)
                return moments

            for moment in range(1, await outer(0) + 1):
                await outer(moment)
            see_nothing_kept(client)

    asyncio.run(main())


@pytest.fixture(autouse=True)
def _no_collector() -> Iterator[None]:
    """No garbage collection ends what the exception's traceback keeps alive."""
    gc.disable()
    yield
    gc.enable()


def see_held_once(lease: Any) -> None:
    lease.check()
    assert lease._hold.count == 1


def see_nothing_kept(client: Any) -> None:
    assert not [hold.grant.name for hold in client._core.keeper.held()]
