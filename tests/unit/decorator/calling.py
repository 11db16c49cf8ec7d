"""Something to lock, a look at who holds what, and an asyncio client for one test."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import fencelock

T = TypeVar("T")


def run(url: str, work: Callable[[fencelock.aio.Client], Awaitable[T]]) -> T:
    """Do something with an asyncio client."""

    async def main() -> T:
        async with fencelock.aio.connect(url) as client:
            return await work(client)

    return asyncio.run(main())


class Payment:
    """Something with attributes, as arguments often are."""

    def __init__(self, number: int, parts: dict[str, str] | None = None) -> None:
        self.number = number
        self.parts = parts or {}


def names_of(client: fencelock.Client) -> list[str]:
    return [holding.name for holding in client.scan()]
