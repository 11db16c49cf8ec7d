"""``@client.locked("payment:{payment_id}")``: a function that holds a lock while it runs."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, TypeVar

import pytest

import fencelock
from fencelock import AcquireTimeout, UsageError

T = TypeVar("T")


class Payment:
    """Something with attributes, as arguments often are."""

    def __init__(self, number: int, parts: dict[str, str] | None = None) -> None:
        self.number = number
        self.parts = parts or {}


@pytest.fixture
def client(request: pytest.FixtureRequest) -> Iterator[fencelock.Client]:
    with fencelock.connect(address(request)) as client:
        yield client


@pytest.fixture
def url(request: pytest.FixtureRequest) -> str:
    return address(request)


def address(request: pytest.FixtureRequest) -> str:
    """Locks of its own for every test."""
    return f"memory://{abs(hash(request.node.nodeid))}"


def run(url: str, work: Callable[[fencelock.aio.Client], Awaitable[T]]) -> T:
    """Do something with an asyncio client."""

    async def main() -> T:
        async with fencelock.aio.connect(url) as client:
            return await work(client)

    return asyncio.run(main())


# Names from arguments. The function itself sees who holds what while it runs.


def names_of(client: fencelock.Client) -> list[str]:
    return [holding.name for holding in client.scan()]


def test_the_name_is_filled_from_the_arguments(client: fencelock.Client) -> None:
    @client.locked("pay:{payment_id}:{kind}")
    def pay(payment_id: int, kind: str = "card") -> list[str]:
        return names_of(client)

    assert pay(7) == ["pay:7:card"]
    assert pay(payment_id=8) == ["pay:8:card"]
    assert pay(9, "cash") == ["pay:9:cash"]
    assert pay(9, kind="cash") == ["pay:9:cash"]
    assert names_of(client) == []


def test_attributes_items_and_formats_may_be_asked_for(client: fencelock.Client) -> None:
    @client.locked("{payment.number:04d}/{payment.parts[region]}/{rest[0]}/{more[key]}/{{}}")
    def pay(payment: Payment, *rest: str, **more: str) -> list[str]:
        return names_of(client)

    assert pay(Payment(7, {"region": "eu"}), "a", "b", key="k") == ["0007/eu/a/k/{}"]


def test_a_name_without_fields_is_one_lock_for_all_calls(client: fencelock.Client) -> None:
    @client.locked("report")
    def report() -> list[str]:
        return names_of(client)

    assert report() == ["report"]


def test_a_method_may_use_its_object(client: fencelock.Client) -> None:
    class Account:
        def __init__(self, number: int) -> None:
            self.number = number

        @client.locked("account:{self.number}")
        def close(self) -> list[str]:
            return names_of(client)

    assert Account(5).close() == ["account:5"]


def test_a_name_that_an_argument_makes_impossible_is_refused(client: fencelock.Client) -> None:
    calls = []

    @client.locked("{text}")
    def work(text: str) -> None:
        calls.append(text)

    for text in ("", "a\nb", "x" * 513):
        with pytest.raises(UsageError, match="a lock name"):
            work(text)
    assert calls == []


def test_wrong_arguments_are_pythons_own_type_error(client: fencelock.Client) -> None:
    @client.locked("pay:{payment_id}")
    def pay(payment_id: int) -> None: ...

    loose: Any = pay
    for arguments in ((), (1, 2)):
        with pytest.raises(TypeError):
            loose(*arguments)
    assert names_of(client) == []


# What is wrong is said when the function is decorated, not when it is first called


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


# The lease


def test_a_parameter_named_lease_gets_the_lease(client: fencelock.Client) -> None:
    @client.locked("pay:{number}", ttl=5, meta={"job": "pay"})
    def pay(number: int, lease: fencelock.Lease | None = None) -> tuple[str, float, object]:
        assert lease
        return lease.name, lease.ttl, lease.meta["job"]

    assert pay(7) == ("pay:7", 5, "pay")


def test_a_lease_needs_no_default_and_may_be_keyword_only(client: fencelock.Client) -> None:
    @client.locked("a")
    def work(*, lease: fencelock.Lease) -> int:
        return lease.fence

    loose: Any = work
    first = loose()
    assert loose() > first


def test_a_lease_of_the_callers_is_left_alone(client: fencelock.Client) -> None:
    @client.locked("a")
    def work(lease: object = None) -> object:
        return lease

    assert work(lease="mine") == "mine"


# While another holds the lock


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


# The asyncio flavor, once over


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

        @client.locked("a", ttl=0.1)
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
