"""A decorated coroutine function."""

from __future__ import annotations

import asyncio

import pytest

import fencelock
from fencelock import AcquireTimeout
from tests.unit.decorator.calling import Payment, run


def test_an_async_function_holds_the_lock_while_it_runs(url: str) -> None:
    async def work(client: fencelock.aio.Client) -> list[list[str]]:
        @client.locked("pay:{payment.number}:{kind}")
        async def pay(payment: Payment, kind: str = "card") -> list[str]:
            await asyncio.sleep(0)
            return [holding.name for holding in await client.scan()]

        during = [await pay(Payment(1)), await pay(Payment(2), kind="cash")]
        return [*during, [holding.name for holding in await client.scan()]]

    assert run(url, work) == [["pay:1:card"], ["pay:2:cash"], []]


def test_an_async_function_gets_its_lease(url: str) -> None:
    async def work(client: fencelock.aio.Client) -> tuple[str, bool]:
        @client.locked("a")
        async def pay(lease: fencelock.aio.Lease | None = None) -> tuple[str, bool]:
            assert lease
            lease.check()
            return lease.name, bool(lease)

        return await pay()

    assert run(url, work) == ("a", True)


def test_an_async_function_raises_or_skips_when_busy(url: str) -> None:
    async def work(client: fencelock.aio.Client) -> list[object]:
        @client.locked("a", timeout=0, busy="skip")
        async def skip() -> str:
            return "done"

        @client.locked("a", timeout=0)
        async def insist() -> str:
            return "done"

        async with client.lock("a"):
            with pytest.raises(AcquireTimeout):
                await insist()
            skipped = await skip()
        return [skipped, await skip(), await insist()]

    assert run(url, work) == [None, "done", "done"]


def test_an_async_function_is_cancelled_when_its_lease_is_lost(url: str) -> None:
    async def work(client: fencelock.aio.Client) -> list[str]:
        ends: list[str] = []

        @client.locked("a", ttl=2)
        async def pay() -> None:
            try:
                assert await client.revoke("a", "maintenance")
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                ends.append("cancelled")
                raise

        with pytest.raises(fencelock.LeaseLost):
            await pay()
        return ends

    assert run(url, work) == ["cancelled"]
