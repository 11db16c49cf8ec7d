"""A program that ends by cancelling all tasks of its loop, and still works under locks.

Ours among them: they renew, listen and clean up. What is cancelled by somebody else begins anew.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from fencelock import aio
from tests.conformance.variants import VARIANTS

SOON = 30.0
TTL = 9.0  # renewed after three seconds


@pytest.mark.parametrize("variant", [name for name in VARIANTS if "push=no" not in name])
def test_a_waiter_gets_its_turn(variant: str, tmp_path: Path) -> None:
    url, options = VARIANTS[variant](tmp_path)

    async def main() -> None:
        async with (
            asyncio.timeout(SOON),
            aio.connect(url, **options) as one,
            aio.connect(url, **options) as other,
        ):
            name = f"all tasks {variant}"
            held = await one.lock(name, ttl=60).acquire()
            waiting = asyncio.create_task(other.lock(name, ttl=60).acquire())
            await _until_in_line(one, name)
            await _cancel_ours()
            assert await held.release()
            await (await waiting).release()

    asyncio.run(main())


def test_a_lease_is_renewed() -> None:
    async def main() -> None:
        async with asyncio.timeout(SOON), aio.connect("memory://cancelled") as client:
            lease = await client.lock("seat", ttl=TTL).acquire()
            engine = client._core.engine
            await _cancel_ours()
            renew, renewed = engine.renew, asyncio.Event()

            async def note(grants: object) -> object:
                renewed.set()
                return await renew(grants)  # type: ignore[arg-type]

            engine.renew = note  # type: ignore[assignment,method-assign]
            await renewed.wait()
            assert await lease.release()

    asyncio.run(main())


async def _until_in_line(client: aio.Client, name: str) -> None:
    await asyncio.sleep(0.2)
    while client.traits.fifo and not (await client.inspect(name)).waiters:  # noqa: ASYNC110
        await asyncio.sleep(0.05)


async def _cancel_ours() -> None:
    """As programs do; the tasks that are needed to see the end of it are left."""
    for task in asyncio.all_tasks():
        if task.get_name().startswith("fencelock-"):
            task.cancel()
    await asyncio.sleep(0)
