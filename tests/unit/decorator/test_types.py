"""What type checkers know of a decorated function: ``make check`` reads this file."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Literal, assert_type

import fencelock
from tests.unit.decorator.calling import run


def test_a_function_that_may_be_skipped_may_return_none(client: fencelock.Client) -> None:
    @client.locked("a", timeout=0, busy="skip", ttl=5, meta={"job": "pay"})
    def skip(number: int, kind: str = "card") -> str:
        return f"{kind} {number}"

    @client.locked("a", timeout=0)
    def insist(number: int) -> str:
        return str(number)

    @client.locked("a", busy="raise")
    def insist_aloud(number: int) -> str:
        return str(number)

    assert_type(skip(7, kind="cash"), str | None)
    assert_type(insist(7), str)
    assert_type(insist_aloud(number=7), str)
    with client.lock("a"):
        assert assert_type(skip(7), str | None) is None


def test_a_choice_made_later_may_be_either(client: fencelock.Client) -> None:
    def decorate(busy: Literal["raise", "skip"]) -> str | None:
        return client.locked("a", busy=busy)(lambda: "done")()

    assert decorate("skip") == "done"


def test_an_async_function_stays_one(url: str) -> None:
    async def work(client: fencelock.aio.Client) -> list[object]:
        @client.locked("a")
        async def insist(number: int) -> str:
            return str(number)

        @client.locked("a", timeout=0, busy="skip")
        async def skip(number: int) -> str:
            return str(number)

        whole: Callable[[int], Coroutine[Any, Any, str]] = insist
        first = assert_type(await asyncio.create_task(whole(7)), str)
        assert_type(await asyncio.create_task(insist(7)), str)
        second = assert_type(await asyncio.create_task(skip(8)), str | None)
        async with client.lock("a"):
            third = assert_type(await skip(9), str | None)
        return [first, second, third]

    assert run(url, work) == ["7", "8", None]
