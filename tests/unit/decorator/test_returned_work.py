"""A decorated function that looks plain but returns work to be done later.

What a function is cannot be seen through a wrapper; what it returns can. Under asyncio the work is
done under the lock, elsewhere it is refused before it runs without.
"""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial, wraps
from typing import Any

import pytest

import fencelock
from fencelock import UsageError
from tests.unit.decorator.calling import names_of, run

ran: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_ran() -> Iterator[None]:
    ran.clear()
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a coroutine that was never awaited
        yield


async def coroutine() -> str:
    ran.append("coroutine")
    return "done"


def generator() -> Iterator[str]:
    ran.append("generator")
    yield "done"


async def async_generator() -> AsyncIterator[str]:
    ran.append("async generator")
    yield "done"


def plainly(function: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator as many are: it keeps the name and hides the kind."""

    @wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


class Job:
    """An object that is called, and methods of all kinds."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __call__(self) -> Any:
        return self.function()

    @plainly
    def method(self) -> Any:
        return self.function()


DISGUISES: dict[str, Callable[[Callable[..., Any]], Callable[..., Any]]] = {
    "wrapped": plainly,
    "wrapped twice": lambda function: plainly(plainly(function)),
    "lambda": lambda function: lambda: function(),
    "partial of a lambda": lambda function: partial(lambda function: function(), function),
    "partial of a wrapper": lambda function: partial(plainly(function)),
    "object": Job,
    "method": lambda function: Job(function).method,
}


@pytest.mark.parametrize("disguise", DISGUISES.values(), ids=DISGUISES)
@pytest.mark.parametrize("work", [coroutine, generator, async_generator])
def test_returned_work_is_refused_by_a_blocking_client(
    client: fencelock.Client, work: Callable[..., Any], disguise: Callable[..., Any]
) -> None:
    function = client.locked("a")(disguise(work))
    with pytest.raises(UsageError, match="which would run after the lock is released"):
        function()
    assert ran == []
    assert names_of(client) == []


@pytest.mark.parametrize("disguise", DISGUISES.values(), ids=DISGUISES)
def test_a_returned_coroutine_is_awaited_under_the_lock_by_an_asyncio_client(
    url: str, disguise: Callable[..., Any]
) -> None:
    async def work(client: fencelock.aio.Client) -> Any:
        async def pay() -> list[str]:
            await asyncio.sleep(0)
            return [holding.name for holding in await client.scan()]

        return await client.locked("a")(disguise(pay))()

    assert run(url, work) == ["a"]


@pytest.mark.parametrize("disguise", DISGUISES.values(), ids=DISGUISES)
@pytest.mark.parametrize("work", [generator, async_generator])
def test_a_returned_generator_is_refused_by_an_asyncio_client(
    url: str, work: Callable[..., Any], disguise: Callable[..., Any]
) -> None:
    async def refuse(client: fencelock.aio.Client) -> list[Any]:
        function = client.locked("a")(disguise(work))
        with pytest.raises(UsageError, match=r"would run after .* Instead, take the lock inside"):
            await function()
        return await client.scan()

    assert run(url, refuse) == []
    assert ran == []


@pytest.mark.parametrize("work", [coroutine, generator, async_generator])
def test_work_that_an_async_function_returns_is_refused(url: str, work: Callable[..., Any]) -> None:
    async def refuse(client: fencelock.aio.Client) -> None:
        @client.locked("a")
        async def pay() -> Any:
            return work()

        with pytest.raises(UsageError, match="which would run after the lock is released"):
            await pay()

    run(url, refuse)
    assert ran == []


def test_a_context_manager_made_of_a_generator_is_refused(
    client: fencelock.Client, url: str
) -> None:
    loose: Any = client
    with pytest.raises(UsageError, match="which would run after the lock is released"):
        loose.locked("a")(contextmanager(generator))()

    async def refuse(client: fencelock.aio.Client) -> None:
        with pytest.raises(UsageError, match="which would run after the lock is released"):
            await client.locked("a")(loosely)()

    loosely: Any = asynccontextmanager(async_generator)
    run(url, refuse)


def test_a_returned_task_is_cancelled_and_refused(url: str) -> None:
    """A blocking client in a coroutine: the task would outlast the lock."""

    async def refuse(_: object) -> tuple[bool, bool]:
        tasks: list[asyncio.Task[str]] = []

        def start() -> asyncio.Task[str]:
            tasks.append(asyncio.ensure_future(coroutine()))
            return tasks[0]

        with fencelock.connect(url) as client:
            with pytest.raises(UsageError, match="it was cancelled"):
                client.locked("a")(start)()  # type: ignore[unused-awaitable]
        await asyncio.wait(tasks)
        return tasks[0].cancelled(), bool(ran)

    assert run(url, refuse) == (True, False)


def test_a_returned_task_is_awaited_under_the_lock_by_an_asyncio_client(url: str) -> None:
    async def work(client: fencelock.aio.Client) -> Any:
        async def pay() -> list[str]:
            return [holding.name for holding in await client.scan()]

        loose: Any = client.locked("a")
        return await loose(lambda: asyncio.ensure_future(pay()))()

    assert run(url, work) == ["a"]


def test_a_wrapper_that_runs_an_async_function_may_be_decorated(client: fencelock.Client) -> None:
    @client.locked("a")
    @wraps(coroutine)
    def work() -> str:
        return asyncio.run(coroutine())

    assert work() == "done"
    assert client.locked("a")(wraps(generator)(lambda: list(generator())))() == ["done"]


def test_a_wrapper_that_returns_nothing_to_await_is_told_that_it_has_run(url: str) -> None:
    async def work(client: fencelock.aio.Client) -> None:
        loose: Any = client.locked("a")
        with pytest.raises(UsageError, match=r"returned int, which cannot be awaited\. It has run"):
            await loose(lambda: 7)()

    run(url, work)


def test_an_error_of_a_disguised_function_passes_through(url: str) -> None:
    async def work(client: fencelock.aio.Client) -> None:
        @plainly
        async def pay() -> None:
            raise KeyError("x")

        with pytest.raises(KeyError, match="x"):
            await client.locked("a")(pay)()
        assert await client.scan() == []

    run(url, work)


@pytest.mark.parametrize("kind", [staticmethod, classmethod])
def test_a_static_or_class_method_is_decorated_below_not_above(
    client: fencelock.Client, url: str, kind: Callable[..., Any]
) -> None:
    async def refuse(client: fencelock.aio.Client) -> None:
        with pytest.raises(UsageError, match=f"write @{kind.__name__} above @client.locked"):
            client.locked("a")(kind(coroutine))

    with pytest.raises(UsageError, match=f"write @{kind.__name__} above @client.locked"):
        client.locked("a")(kind(generator))
    run(url, refuse)


def test_class_methods_are_awaited_under_the_lock(url: str) -> None:
    async def work(client: fencelock.aio.Client) -> list[Any]:
        class Account:
            number = 5

            @classmethod
            @client.locked("class:{cls.number}")
            @plainly
            async def open(cls) -> list[str]:
                return [holding.name for holding in await client.scan()]

        awaited: Awaitable[Any] = Account.open()
        return await awaited  # type: ignore[no-any-return]

    assert run(url, work) == ["class:5"]


def test_a_function_whose_parameters_cannot_be_read_is_refused(client: fencelock.Client) -> None:
    loose: Any = client
    for function in (dict.update, 7):
        with pytest.raises(UsageError, match="cannot be read"):
            loose.locked("a")(function)
