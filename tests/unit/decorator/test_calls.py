"""A decorated function in a blocking program: its turn, its values and errors."""

from __future__ import annotations

import inspect
import threading
from typing import Any

import pytest

import fencelock
from fencelock import AcquireTimeout
from tests.unit.decorator.calling import names_of, run


def test_a_busy_lock_raises(client: fencelock.Client) -> None:
    calls = []

    @client.locked("a", timeout=0)
    def work() -> None:
        calls.append(1)

    with client.lock("a"), pytest.raises(AcquireTimeout):
        work()
    work()
    assert calls == [1]


def test_a_busy_lock_is_skipped_when_so_asked(client: fencelock.Client) -> None:
    @client.locked("a", timeout=0, busy="skip")
    def work() -> str:
        return "done"

    with client.lock("a"):
        assert work() is None
    assert work() == "done"


def test_without_a_timeout_a_skipping_function_waits(client: fencelock.Client) -> None:
    """``busy="skip"`` says what happens when time is up; how long is the timeout's to say."""

    @client.locked("a", busy="skip")
    def work() -> str:
        return "done"

    results: list[str | None] = []
    with client.lock("a"):
        thread = threading.Thread(target=lambda: results.append(work()))
        thread.start()
        deadline = 200
        while not client.inspect("a").waiters and deadline:
            threading.Event().wait(0.01)
            deadline -= 1
        assert results == []
    thread.join(10)
    assert results == ["done"]


def test_calls_take_turns(client: fencelock.Client) -> None:
    inside: list[int] = []
    most: list[int] = []

    @client.locked("a")
    def work() -> None:
        inside.append(1)
        most.append(len(inside))
        threading.Event().wait(0.001)
        inside.pop()

    threads = [threading.Thread(target=work) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert most == [1] * 5


# Errors and values pass through


def test_what_the_function_returns_and_raises_passes_through(client: fencelock.Client) -> None:
    @client.locked("a")
    def work(value: object) -> object:
        if isinstance(value, Exception):
            raise value
        return value

    assert work(None) is None
    assert work([1]) == [1]
    with pytest.raises(KeyError, match="x"):
        work(KeyError("x"))
    assert names_of(client) == []


def test_a_lease_that_is_lost_meanwhile_is_told(client: fencelock.Client) -> None:
    @client.locked("a")
    def work() -> None:
        assert client.revoke("a", "maintenance")

    with pytest.raises(fencelock.LeaseLost):
        work()


def test_a_reentrant_function_may_call_itself(client: fencelock.Client) -> None:
    @client.locked("a", reentrant=True)
    def factorial(n: int) -> int:
        return n * factorial(n - 1) if n else 1

    assert factorial(5) == 120
    assert names_of(client) == []


# What is decorated stays recognizable


def test_the_name_docstring_and_signature_are_kept(client: fencelock.Client, url: str) -> None:
    def pay(payment_id: int, kind: str = "card") -> str:
        """Pay once."""
        return kind

    async def send(payment_id: int, kind: str = "card") -> str:
        """Send once."""
        return kind

    async def decorate(client: fencelock.aio.Client) -> Any:
        return client.locked("{kind}")(send)

    pairs: list[tuple[Any, Any]] = [(pay, client.locked("{kind}")(pay)), (send, run(url, decorate))]
    for plain, locked in pairs:
        assert locked.__wrapped__ is plain
        assert locked.__name__ == plain.__name__
        assert locked.__doc__ == plain.__doc__
        assert inspect.signature(locked) == inspect.signature(plain)
        assert inspect.iscoroutinefunction(locked) is inspect.iscoroutinefunction(plain)
