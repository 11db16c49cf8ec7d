"""One API in two flavors: whoever knows ``fencelock`` knows ``fencelock.aio``.

Both faces are written by hand so that users get full types and docstrings; this is what keeps them
equal. A name, a parameter, a default or a docstring that is in one and not in the other fails here.
"""

from __future__ import annotations

import copy
import inspect
import pickle
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import fencelock
from fencelock import aio, sync

CLASSES = ("Client", "Lock", "Lease", "Lost")
TWINS = {"__aenter__": "__enter__", "__aexit__": "__exit__"}


def members(owner: type[object]) -> dict[str, Any]:
    """Everything a user may touch, by its sync name; inherited from our own classes included."""
    found: dict[str, Any] = {}
    for base in reversed(owner.__mro__[:-1]):
        if base.__module__.startswith("fencelock"):
            found.update(vars(base))
    special = {"__bool__", "__repr__", *TWINS, *TWINS.values()}
    return {
        TWINS.get(name, name): value
        for name, value in found.items()
        if name in special or not name.startswith("_")
    }


def pairs() -> Iterator[Any]:
    """Every function of the two faces, side by side."""
    yield pytest.param(sync.connect, aio.connect, id="connect")
    for name in CLASSES:
        ours, theirs = members(getattr(sync, name)), members(getattr(aio, name))
        for member in sorted(ours.keys() & theirs.keys()):
            one, other = plain(ours[member]), plain(theirs[member])
            if one is not other:  # else it is the same one, in face.py
                yield pytest.param(one, other, id=f"{name}.{member}")


def plain(member: Any) -> Any:
    return member.fget if isinstance(member, property) else member


def flat(annotation: object) -> str:
    """A return annotation without its flavor."""
    text = re.sub(r"Awaitable\[(\w+)\]", r"\1", str(annotation))
    return text.replace("Connecting", "Client")


# Equal names, equal signatures


def test_both_flavors_export_the_same_names() -> None:
    assert sync.__all__ == aio.__all__ == ["Client", "Lease", "Lock", "Lost", "connect"]


@pytest.mark.parametrize("name", CLASSES)
def test_both_flavors_have_the_same_members(name: str) -> None:
    ours, theirs = members(getattr(sync, name)), members(getattr(aio, name))
    assert sorted(ours) == sorted(theirs)
    for member in ours:
        assert isinstance(ours[member], property) == isinstance(theirs[member], property), member


# fmt: off
SURFACE = {
    "Client": {"lock", "locked", "holders", "inspect", "scan", "revoke", "close", "traits", "url"},
    "Lock": {"acquire", "try_acquire", "name"},
    "Lease": {"name", "fence", "ttl", "meta", "remaining", "check", "lost", "reason", "renewals",
              "renew", "release", "connection", "__bool__"},
    "Lost": {"is_set", "wait", "__bool__"},
}
# fmt: on
BLOCKS = {"__enter__", "__exit__"}


@pytest.mark.parametrize("name", CLASSES)
def test_no_name_comes_or_goes_unnoticed(name: str) -> None:
    """Users type these; to change one is to break them, and a new one is a promise."""
    blocks = BLOCKS if name != "Lost" else set()
    assert set(members(getattr(sync, name))) - {"__repr__"} == SURFACE[name] | blocks


@pytest.mark.parametrize(("ours", "theirs"), list(pairs()))
def test_both_flavors_have_the_same_signatures(
    ours: Callable[..., Any], theirs: Callable[..., Any]
) -> None:
    one, other = inspect.signature(ours), inspect.signature(theirs)
    assert list(one.parameters.values()) == list(other.parameters.values())
    assert flat(one.return_annotation) == flat(other.return_annotation)


def test_the_comparison_sees_differences() -> None:
    """The judge itself: it must not find everything equal."""

    def one(name: str, *, ttl: float = 30) -> list[int]: ...  # type: ignore[empty-body]

    def default(name: str, *, ttl: float = 10) -> list[int]: ...  # type: ignore[empty-body]

    def kind(name: str, ttl: float = 30) -> list[int]: ...  # type: ignore[empty-body]

    def annotation(name: str, *, ttl: int = 30) -> list[int]: ...  # type: ignore[empty-body]

    def result(name: str, *, ttl: float = 30) -> list[str]: ...  # type: ignore[empty-body]

    test_both_flavors_have_the_same_signatures(one, one)
    for other in (default, kind, annotation, result):
        with pytest.raises(AssertionError):
            test_both_flavors_have_the_same_signatures(one, other)
    assert len(list(pairs())) > 15


WAITING = {
    "Client": {"holders", "inspect", "scan", "revoke", "close", "__enter__", "__exit__"},
    "Lock": {"acquire", "try_acquire", "__enter__", "__exit__"},
    "Lease": {"renew", "release", "__enter__", "__exit__"},
    "Lost": {"wait"},
}


@pytest.mark.parametrize("name", CLASSES)
def test_exactly_what_may_wait_is_awaited(name: str) -> None:
    """``lease.check()`` and ``lease.remaining()`` are the holder's own arithmetic: no await."""
    found = members(getattr(aio, name))
    assert {m for m, v in found.items() if inspect.iscoroutinefunction(v)} == WAITING[name]
    found = members(getattr(sync, name))
    assert not any(inspect.iscoroutinefunction(value) for value in found.values())


# Docstrings


def public() -> Iterator[Any]:
    for flavor in (sync, aio):
        where = flavor.__name__
        yield pytest.param(flavor, id=where)
        yield pytest.param(flavor.connect, id=f"{where}.connect")
        for name in CLASSES:
            owner = getattr(flavor, name)
            yield pytest.param(owner, id=f"{where}.{name}")
            for member, value in members(owner).items():
                if not member.startswith("__"):
                    yield pytest.param(value, id=f"{where}.{name}.{member}")
    for name in fencelock.__all__:
        if name != "__version__":
            yield pytest.param(getattr(fencelock, name), id=f"fencelock.{name}")


@pytest.mark.parametrize("thing", list(public()))
def test_everything_public_has_a_docstring(thing: object) -> None:
    text = thing.__doc__ or ""
    assert text.strip()
    assert text.strip()[0].isupper() or text.startswith(("fencelock", "``"))
    assert "." in text


def test_the_docstrings_of_both_flavors_say_the_same() -> None:
    """But for the words that belong to one of them."""
    words = {"thread": "task", "threads": "tasks", "``with": "``async with"}

    def same(text: str | None) -> str:
        for one, other in words.items():
            text = re.sub(rf"(?<!\w){re.escape(one)}\b", other, text or "")
        return " ".join((text or "").split())

    for name in CLASSES:
        ours, theirs = members(getattr(sync, name)), members(getattr(aio, name))
        for member in ours.keys() & theirs.keys():
            if not member.startswith("__"):
                assert same(ours[member].__doc__) == same(theirs[member].__doc__), member


# What ``import fencelock`` gives


def test_everything_exported_is_there_and_listed() -> None:
    assert len(set(fencelock.__all__)) == len(fencelock.__all__)
    assert fencelock.__all__ == sorted(fencelock.__all__)
    for name in fencelock.__all__:
        assert name in dir(fencelock)
        assert getattr(fencelock, name) is not None


def test_the_blocking_flavor_is_the_one_without_a_prefix() -> None:
    for name in sync.__all__:
        assert getattr(fencelock, name) is getattr(sync, name)
        assert getattr(fencelock, name) is not getattr(fencelock.aio, name)
    assert fencelock.aio is aio


def test_a_name_that_is_not_there_is_said_so() -> None:
    with pytest.raises(AttributeError, match="module 'fencelock' has no attribute 'Mutex'"):
        fencelock.Mutex  # noqa: B018


def test_star_import_gives_what_is_listed() -> None:
    code = "from fencelock import *; print(connect.__name__, Lease.__name__, aio.__name__)"
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False
    )
    assert run.stdout.split() == ["connect", "Lease", "fencelock.aio"], run.stderr


def test_the_version_is_that_of_the_package() -> None:
    from importlib.metadata import version

    assert fencelock.__version__ == version("fencelock")


# Types


def test_connect_gives_a_client_that_makes_locks_that_make_leases() -> None:
    with fencelock.connect("memory://faces") as client:
        assert type(client) is fencelock.Client
        lock = client.lock("a")
        assert type(lock) is fencelock.Lock
        with lock as lease:
            assert type(lease) is fencelock.Lease
            assert type(lease.lost) is fencelock.Lost
        assert isinstance(client.inspect("a"), fencelock.State)
        assert isinstance(client.traits, fencelock.Traits)


def test_connecting_with_asyncio_can_be_awaited_or_entered() -> None:
    import asyncio

    async def main() -> None:
        client = await fencelock.aio.connect("memory://faces")
        assert type(client) is fencelock.aio.Client
        async with client:
            lock = client.lock("a")
            assert type(lock) is fencelock.aio.Lock
            async with lock as lease:
                assert type(lease) is fencelock.aio.Lease
                assert type(lease.lost) is fencelock.aio.Lost
        async with fencelock.aio.connect("memory://faces") as other:
            assert type(other) is fencelock.aio.Client

    asyncio.run(main())


def test_a_wrong_url_is_told_before_anything_is_awaited() -> None:
    with pytest.raises(fencelock.Misconfigured):
        _ = fencelock.aio.connect("nothing://")


@pytest.mark.parametrize(("flavor", "prefix"), [(sync, "fencelock"), (aio, "fencelock.aio")])
def test_a_repr_names_the_class_as_a_user_writes_it(flavor: Any, prefix: str) -> None:
    import asyncio

    async def main() -> tuple[object, ...]:
        if flavor is sync:
            with sync.connect("memory://faces") as client:
                with client.lock("a", ttl=5) as lease:
                    return repr(client), repr(client.lock("a", ttl=5)), repr(lease), lease.fence
        async with aio.connect("memory://faces") as other:
            async with other.lock("a", ttl=5) as held:
                return repr(other), repr(other.lock("a", ttl=5)), repr(held), held.fence

    client, lock, lease, fence = asyncio.run(main())
    assert client == f"<{prefix}.Client memory://faces>"
    assert lock == f"<{prefix}.Lock 'a' ttl=5>"
    assert re.fullmatch(
        rf"<{re.escape(prefix)}\.Lease 'a' fence={fence} [\d.]+ s left>", str(lease)
    )


# Pickling


def test_live_objects_do_not_travel_to_other_processes() -> None:
    """H17: a lease that could be copied would be held twice."""
    with fencelock.connect("memory://faces") as client, client.lock("a") as lease:
        for thing in (client, client.lock("a"), lease, lease.lost):
            with pytest.raises(TypeError):
                pickle.dumps(thing)


def test_what_is_listed_travels() -> None:
    with fencelock.connect("memory://faces") as client, client.lock("a"):
        state = client.inspect("a")
        assert pickle.loads(pickle.dumps(state)) == state
        assert pickle.loads(pickle.dumps(client.traits)) == client.traits


def test_the_owner_id_is_in_nothing_that_is_shown() -> None:
    with fencelock.connect("memory://faces") as client:
        lease = client.lock("a").acquire()
        owner = lease._tenure.grant.owner
        assert len(owner) == 32
        shown = [client, lease, lease.meta, client.inspect("a"), client.scan(), lease.lost]
        assert not [thing for thing in shown if owner in repr(thing) or owner in str(thing)]
        client.revoke("a", "maintenance")
        with pytest.raises(fencelock.LeaseLost) as caught:
            lease.renew()
        assert owner not in repr(caught.value)
        assert owner not in repr(lease)


def test_a_lease_is_neither_copied_nor_pickled() -> None:
    """The collection of a copy would end the renewal of the one that is in use."""
    with fencelock.connect("memory://copies") as client, client.lock("x") as lease:
        for duplicate in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match="cannot be copied"):
                duplicate(lease)
        assert lease
