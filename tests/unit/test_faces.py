"""One API in two flavors: whoever knows ``fencelock`` knows ``fencelock.aio``.

Both faces are written by hand so that users get full types and docstrings; this is what keeps them
equal. A name, a parameter, a default or a docstring that is in one and not in the other fails here.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import fencelock
from fencelock import aio, sync

CLASSES = (
    "Client", "Lock", "RWLock", "Lease", "Lost", "Election", "Once", "Barrier", "Latch",
)  # fmt: skip
TWINS = {"__aenter__": "__enter__", "__aexit__": "__exit__"}


def members(owner: type[object]) -> dict[str, Any]:
    """Everything a user may touch, by its sync name; inherited from our own classes included."""
    found: dict[str, Any] = {}
    for base in reversed(owner.__mro__[:-1]):
        if base.__module__.startswith("fencelock"):
            found.update(vars(base))
    special = {"__bool__", "__call__", "__repr__", *TWINS, *TWINS.values()}
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
    """An annotation without its flavor."""
    text = re.sub(r"Awaitable\[(\w+)\]", r"\1", str(annotation))
    text = re.sub(r"Coroutine\[Any, Any, ([^]]+)\]", r"\1", text).replace(
        "AsyncIterator", "Iterator"
    )
    return text.replace("Connecting", "Client")


# Equal names, equal signatures


def test_both_flavors_export_the_same_names() -> None:
    assert (
        sync.__all__
        == aio.__all__
        == [
            "Barrier",
            "Client",
            "Election",
            "Latch",
            "Lease",
            "Lock",
            "Lost",
            "Once",
            "RWLock",
            "connect",
        ]
    )


@pytest.mark.parametrize("name", CLASSES)
def test_both_flavors_have_the_same_members(name: str) -> None:
    ours, theirs = members(getattr(sync, name)), members(getattr(aio, name))
    assert sorted(ours) == sorted(theirs)
    for member in ours:
        assert isinstance(ours[member], property) == isinstance(theirs[member], property), member


# fmt: off
SURFACE = {
    "Client": {"lock", "locked", "holders", "inspect", "scan", "revoke", "open", "close", "traits",
               "url", "owed", "semaphore", "rwlock", "election", "once", "barrier", "latch"},
    "Lock": {"acquire", "try_acquire", "name"},
    "RWLock": {"read", "write", "name"},
    "Lease": {"name", "fence", "ttl", "meta", "remaining", "check", "lost", "reason", "renewals",
              "renew", "release", "connection", "role", "slot", "downgrade", "__bool__"},
    "Lost": {"is_set", "wait", "__bool__"},
    "Election": {"name", "campaign", "leader", "observe", "resign", "run"},
    "Once": {"name", "__call__"},
    "Barrier": {"name", "wait"},
    "Latch": {"name", "count_down", "remaining", "wait", "reset"},
}
# fmt: on
BLOCKS = {"__enter__", "__exit__"}


@pytest.mark.parametrize("name", CLASSES)
def test_no_name_comes_or_goes_unnoticed(name: str) -> None:
    """Users type these; to change one is to break them, and a new one is a promise."""
    blocks = BLOCKS if name not in ("Lost", "RWLock", "Barrier", "Latch") else set()
    assert set(members(getattr(sync, name))) - {"__repr__"} == SURFACE[name] | blocks


@pytest.mark.parametrize(("ours", "theirs"), list(pairs()))
def test_both_flavors_have_the_same_signatures(
    ours: Callable[..., Any], theirs: Callable[..., Any]
) -> None:
    one, other = inspect.signature(ours), inspect.signature(theirs)
    assert [
        parameter.replace(annotation=flat(parameter.annotation))
        for parameter in one.parameters.values()
    ] == [
        parameter.replace(annotation=flat(parameter.annotation))
        for parameter in other.parameters.values()
    ]
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
    "Client": {"holders", "inspect", "scan", "revoke", "open", "close", "__enter__", "__exit__"},
    "Lock": {"acquire", "try_acquire", "__enter__", "__exit__"},
    "RWLock": set(),
    "Lease": {"renew", "downgrade", "release", "__enter__", "__exit__"},
    "Lost": {"wait"},
    "Election": {"campaign", "leader", "resign", "run", "__enter__", "__exit__"},
    "Once": {"__enter__", "__exit__"},
    "Barrier": {"wait"},
    "Latch": {"count_down", "remaining", "wait", "reset"},
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
