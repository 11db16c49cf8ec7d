"""The parameter ``lease`` of a decorated function: always ours, whatever the caller says."""

from __future__ import annotations

import inspect
from functools import partial, wraps
from typing import Any

import httpx
import pytest

import fencelock
from fencelock import UsageError
from tests.unit.decorator.calling import names_of, run


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


def named(lease: Any, *rest: object) -> tuple[object, ...]:
    """What a function was given, with the lease as the name that it locks."""
    return (lease.name, *rest)


def last(a: int, b: int = 2, lease: Any = None) -> Any:
    return named(lease, a, b)


def middle(a: int, lease: Any, b: int = 2) -> Any:
    return named(lease, a, b)


def first(lease: Any, a: int, b: int = 2) -> Any:
    return named(lease, a, b)


def positional_only(a: int, b: int = 2, lease: Any = None, /) -> Any:
    return named(lease, a, b)


def positional_only_first(lease: Any, a: int, /, b: int = 2) -> Any:
    return named(lease, a, b)


def before_the_rest(a: int, lease: Any = None, *rest: int, b: int = 2) -> Any:
    return named(lease, a, *(rest or (b,)))


def keyword_only(a: int, *rest: int, lease: Any, b: int = 2) -> Any:
    return named(lease, a, *(rest or (b,)))


def with_more(a: int, lease: Any = None, **more: int) -> Any:
    return named(lease, a, more.get("b", 2))


EVERYWHERE = [
    last,
    middle,
    first,
    positional_only,
    positional_only_first,
    before_the_rest,
    keyword_only,
    with_more,
]


@pytest.mark.parametrize("function", EVERYWHERE, ids=lambda function: function.__name__)
def test_a_lease_may_stand_anywhere_among_the_parameters(
    client: fencelock.Client, url: str, function: Any
) -> None:
    """Callers pass all others as if it were not there, in both flavors."""

    @wraps(function)
    async def later(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    async def in_asyncio(client: fencelock.aio.Client) -> list[Any]:
        decorated = client.locked("n:{a}")(later)
        return [await decorated(*args, **kwargs) for args, kwargs in calls]

    calls: list[tuple[tuple[int, ...], dict[str, int]]] = [((1,), {})]
    kinds = {p.name: p.kind for p in inspect.signature(function).parameters.values()}
    if function is not with_more:
        calls.append(((1, 2), {}))
    if kinds.get("b") != inspect.Parameter.POSITIONAL_ONLY:
        calls.append(((1,), {"b": 2}))
    decorated: Any = client.locked("n:{a}")(function)
    expected = [("n:1", 1, 2)] * len(calls)
    assert [decorated(*args, **kwargs) for args, kwargs in calls] == expected
    assert run(url, in_asyncio) == expected


@pytest.mark.parametrize("function", EVERYWHERE, ids=lambda function: function.__name__)
@pytest.mark.parametrize("theirs", [None, "mine"])
def test_a_lease_of_the_callers_is_refused(
    client: fencelock.Client, url: str, function: Any, theirs: object
) -> None:
    calls: list[object] = []

    @wraps(function)
    def work(*args: Any, **kwargs: Any) -> None:
        calls.append(kwargs)

    @wraps(function)
    async def later(*args: Any, **kwargs: Any) -> None:
        calls.append(kwargs)

    async def in_asyncio(client: fencelock.aio.Client) -> None:
        decorated: Any = client.locked("a")(later)
        with pytest.raises(UsageError, match="call it without lease"):
            await decorated(1, lease=theirs)

    decorated: Any = client.locked("a")(work)
    with pytest.raises(UsageError, match=r"\(\) is given the lease .* call it without lease"):
        decorated(1, lease=theirs)
    run(url, in_asyncio)
    assert calls == []


def test_a_lease_cannot_be_passed_by_position(client: fencelock.Client) -> None:
    decorated: Any = client.locked("a")(last)
    with pytest.raises(TypeError, match="too many positional arguments"):
        decorated(1, 2, "mine")


def test_a_lease_that_partial_has_filled_is_replaced_by_ours(client: fencelock.Client) -> None:
    decorated: Any = client.locked("n:{a}")(partial(last, lease="mine"))
    assert decorated(1) == ("n:1", 1, 2)


@pytest.mark.parametrize("kind", ["*lease", "**lease"])
def test_a_parameter_that_takes_many_values_is_no_place_for_a_lease(
    client: fencelock.Client, kind: str
) -> None:
    function: Any = eval(f"lambda {kind}: None")
    with pytest.raises(UsageError, match=r"takes more than one value: name it otherwise"):
        client.locked("a")(function)


def test_another_parameter_of_that_name_stays_the_callers(client: fencelock.Client) -> None:
    """Without a parameter ``lease`` the word has no meaning to us."""

    @client.locked("a")
    def work(**words: object) -> object:
        return words

    assert work(lease="flat 7") == {"lease": "flat 7"}


def test_of_two_decorators_the_inner_gives_the_lease(client: fencelock.Client) -> None:
    @client.locked("outer")
    @client.locked("inner")
    def work(lease: fencelock.Lease | None = None) -> tuple[object, list[str]]:
        return lease and lease.name, names_of(client)

    assert work() == ("inner", ["inner", "outer"])


def test_methods_get_a_lease_too(client: fencelock.Client) -> None:
    class Account:
        number = 5

        @client.locked("account:{self.number}")
        def close(self, lease: Any = None) -> Any:
            return lease.name

        @classmethod
        @client.locked("class:{cls.number}")
        def open(cls, lease: Any = None) -> Any:
            return lease.name

        @staticmethod
        @client.locked("static:{number}")
        def audit(number: int, lease: Any = None) -> Any:
            return lease.name

    assert (Account().close(), Account.open(), Account().open()) == ("account:5", *["class:5"] * 2)
    assert (Account.audit(1), Account().audit(2)) == ("static:1", "static:2")


def test_a_wrapper_below_sees_arguments_as_they_were_passed(client: fencelock.Client) -> None:
    """One that looks for a keyword finds it, with a lease as without."""
    seen: list[tuple[tuple[object, ...], list[str]]] = []

    @client.locked("n:{a}")
    @wraps(last)
    def work(*args: Any, **kwargs: Any) -> Any:
        seen.append((args, sorted(kwargs)))
        return last(*args, **kwargs)

    work(1, b=2)
    work(a=1)
    assert seen == [((1,), ["b", "lease"]), ((), ["a", "lease"])]


# What others see of it


@pytest.mark.parametrize("function", EVERYWHERE, ids=lambda function: function.__name__)
def test_the_signature_has_no_lease(client: fencelock.Client, url: str, function: Any) -> None:
    @wraps(function)
    async def later(*args: Any, **kwargs: Any) -> None: ...

    async def in_asyncio(client: fencelock.aio.Client) -> inspect.Signature:
        return inspect.signature(client.locked("a")(later))

    before = inspect.signature(function)
    kept = [p for p in before.parameters.values() if p.name != "lease"]
    expected = before.replace(parameters=kept)
    assert inspect.signature(client.locked("a")(function)) == expected
    assert run(url, in_asyncio) == expected


def test_fastapi_does_not_take_the_lease_from_the_query(client: fencelock.Client, url: str) -> None:
    fastapi = pytest.importorskip("fastapi", reason="FastAPI is not installed: pip install fastapi")

    def pay(number: int, lease: Any = None) -> dict[str, object]:
        return {"name": lease.name, "holds": bool(lease)}

    async def send(number: int, lease: Any = None) -> dict[str, object]:
        return {"name": lease.name, "holds": bool(lease)}

    async def work(asyncio_client: fencelock.aio.Client) -> tuple[object, list[object]]:
        app: Any = fastapi.FastAPI()
        app.get("/pay/{number}")(client.locked("pay:{number}")(pay))
        app.get("/send/{number}")(asyncio_client.locked("send:{number}")(send))
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(app), base_url="http://shop"
        ) as http:
            paths = ("/pay/7", "/pay/7?lease=mine", "/send/7", "/send/7?lease=mine")
            return app.openapi()["paths"], [(await http.get(path)).json() for path in paths]

    documented, answers = run(url, work)
    assert "lease" not in str(documented)
    assert answers == [
        {"name": name, "holds": True} for name in ("pay:7", "pay:7", "send:7", "send:7")
    ]
