"""What is wrong is said when the function is decorated, not when it is first called."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

import fencelock
from fencelock import UsageError
from tests.unit.decorator.calling import run


@pytest.mark.parametrize(
    ("template", "why"),
    [
        ("pay:{id}", r"asks for 'id', which is no parameter of .*pay\(\); its parameters: number"),
        ("pay:{numbr}", "asks for 'numbr'"),
        ("pay:{other.number}", "asks for 'other'"),
        ("pay:{other[0]}", "asks for 'other'"),
        ("pay:{}", "a numbered field"),
        ("pay:{0}", "asks for '0'"),
        ("pay:{lease.fence}", "asks for 'lease'"),
        ("pay:{number", "cannot be read as a template"),
        ("pay:}", "cannot be read as a template"),
        ("", "must not be empty"),
        ("a\tb", "control characters"),
    ],
)
def test_a_wrong_template_is_named_at_decoration(
    client: fencelock.Client, template: str, why: str
) -> None:
    def pay(number: int, lease: fencelock.Lease) -> None: ...

    with pytest.raises(UsageError, match=why):
        client.locked(template)(pay)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"ttl": 0}, "ttl must be"),
        ({"timeout": -1}, "timeout must be"),
        ({"renew": "no"}, "renew must be True or False"),
        ({"max_hold": 0}, "max_hold must be"),
        ({"on_lost": 3}, "on_lost must be a function"),
        ({"reentrant": None}, "reentrant must be True or False"),
        ({"safety": "high"}, "safety must be"),
        ({"meta": {"a": []}}, r"meta\['a'\]"),
        ({"busy": "wait"}, 'busy must be "raise" or "skip", not \'wait\''),
    ],
)
def test_a_wrong_option_is_named_before_any_call(
    client: fencelock.Client, url: str, options: dict[str, Any], why: str
) -> None:
    with pytest.raises(UsageError, match=why):
        client.locked("a", **options)

    async def decorate(client: fencelock.aio.Client) -> None:
        client.locked("a", **options)

    with pytest.raises(UsageError, match=why):
        run(url, decorate)


def test_an_async_function_is_refused_by_a_sync_client(client: fencelock.Client) -> None:
    async def pay() -> None: ...

    with pytest.raises(UsageError, match=r"pay\(\) is an async function: .*fencelock\.aio\.conne"):
        client.locked("a")(pay)


def test_a_plain_function_is_refused_by_an_asyncio_client(url: str) -> None:
    def pay() -> None: ...

    async def decorate(client: fencelock.aio.Client) -> None:
        client.locked("a")(pay)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]

    with pytest.raises(UsageError, match=r"pay\(\) is a plain function: .*fencelock\.connect"):
        run(url, decorate)


def test_generators_are_refused_because_they_run_after_the_release(
    client: fencelock.Client, url: str
) -> None:
    def rows() -> Iterator[int]:
        yield 1

    async def pages() -> AsyncIterator[int]:
        yield 1

    async def decorate(client: fencelock.aio.Client) -> None:
        loose: Any = client
        for function in (rows, pages):
            with pytest.raises(UsageError, match=r"\(\) is a generator.*Take the lock inside it"):
                loose.locked("a")(function)

    loose: Any = client
    for function in (rows, pages):
        with pytest.raises(UsageError, match=r"\(\) is a generator.*Take the lock inside it"):
            loose.locked("a")(function)
    run(url, decorate)


def test_a_wrong_template_is_named_at_decoration_in_asyncio_too(url: str) -> None:
    async def decorate(client: fencelock.aio.Client) -> None:
        @client.locked("pay:{id}")
        async def pay(number: int) -> None: ...

    with pytest.raises(UsageError, match=r"asks for 'id'.*its parameters: number"):
        run(url, decorate)


def test_an_object_whose_call_is_async_is_refused_by_a_blocking_client() -> None:
    class Job:
        async def __call__(self) -> None: ...

    with (
        fencelock.connect("memory://odd") as client,
        pytest.raises(UsageError, match="is an async function"),
    ):
        client.locked("x")(Job())


@pytest.mark.parametrize("name", [7, None, print])
def test_locked_without_a_name_says_how_it_is_written(name: Any) -> None:
    with (
        fencelock.connect("memory://odd") as client,
        pytest.raises(UsageError, match=r"write @client.locked\(\"name\"\)"),
    ):
        client.locked(name)(lambda: None)


def test_a_field_inside_a_format_spec_is_checked_when_decorating() -> None:
    with (
        fencelock.connect("memory://odd") as client,
        pytest.raises(UsageError, match="'nope'"),
    ):

        @client.locked("{a:{nope}}")
        def job(a: int) -> None: ...
