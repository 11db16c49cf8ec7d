"""Run a guard that is written as a generator: it yields requests, and is sent the replies.

So an operation of several requests is written once, for blocking clients and for asyncio.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from typing import TypeVar

__all__ = ["run", "run_async"]

S = TypeVar("S")
R = TypeVar("R")
T = TypeVar("T")


def run(steps: Generator[S, R, T], send: Callable[[S], R]) -> T:
    """Send what the steps yield until they return; errors of ``send`` are thrown into them."""
    try:
        step = next(steps)
        while True:
            try:
                reply = send(step)
            except Exception as error:
                step = steps.throw(error)
            else:
                step = steps.send(reply)
    except StopIteration as done:
        value: T = done.value
        return value


async def run_async(steps: Generator[S, R, T], send: Callable[[S], Awaitable[R]]) -> T:
    """Do the same with a ``send`` that is awaited."""
    try:
        step = next(steps)
        while True:
            try:
                reply = await send(step)
            except Exception as error:
                step = steps.throw(error)
            else:
                step = steps.send(reply)
    except StopIteration as done:
        value: T = done.value
        return value
