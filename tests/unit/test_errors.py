"""The tree of errors: whose turn it is to act, and whether the request may have taken effect."""

from __future__ import annotations

import copy
import inspect
import pickle
from collections.abc import Callable

import pytest

import fencelock
from fencelock import errors
from fencelock.errors import (
    AcquireTimeout,
    Denied,
    EngineError,
    Expired,
    FencelockError,
    LeaseLost,
    Misconfigured,
    NotAcquired,
    OutcomeUnknown,
    Revoked,
    SessionEnded,
    StaleFence,
    Unavailable,
    Unsupported,
    UsageError,
)

TREE: dict[type[FencelockError], tuple[type[Exception], ...]] = {
    FencelockError: (Exception,),
    NotAcquired: (FencelockError,),
    AcquireTimeout: (NotAcquired, TimeoutError),
    LeaseLost: (FencelockError,),
    Expired: (LeaseLost,),
    Revoked: (LeaseLost,),
    SessionEnded: (LeaseLost,),
    StaleFence: (FencelockError,),
    OutcomeUnknown: (FencelockError,),
    EngineError: (FencelockError,),
    Unavailable: (EngineError,),
    Misconfigured: (EngineError,),
    Denied: (Misconfigured,),
    Unsupported: (EngineError,),
    UsageError: (FencelockError, ValueError),
}

EACH = pytest.mark.parametrize("kind", TREE, ids=lambda kind: kind.__name__)


@EACH
def test_the_tree_is_as_it_is_drawn(kind: type[FencelockError]) -> None:
    assert kind.__bases__ == TREE[kind]


def test_the_tree_has_no_other_branches() -> None:
    classes = {
        c for _, c in inspect.getmembers(errors, inspect.isclass) if issubclass(c, Exception)
    }
    assert classes == set(TREE)
    assert {kind.__name__ for kind in TREE} == set(errors.__all__)


@EACH
def test_every_error_is_exported(kind: type[FencelockError]) -> None:
    assert getattr(fencelock, kind.__name__) is kind


@EACH
def test_only_an_unknown_outcome_may_have_happened(kind: type[FencelockError]) -> None:
    assert kind.may_have_happened is (kind is OutcomeUnknown)
    assert kind().may_have_happened is (kind is OutcomeUnknown)


@EACH
def test_the_first_line_of_the_docstring_is_the_default_message(
    kind: type[FencelockError],
) -> None:
    first = (kind.__doc__ or "").splitlines()[0]
    assert first.endswith(".")
    if kind is not StaleFence:  # it says which fences, even when it is given nothing else
        assert str(kind()) == first


@EACH
def test_a_message_of_its_own_wins(kind: type[FencelockError]) -> None:
    assert str(kind("the cable is out")) == "the cable is out"


def test_a_subclass_without_a_docstring_has_an_empty_message() -> None:
    class Bare(FencelockError):
        pass

    assert str(Bare()) == ""


def test_a_stale_fence_says_both_numbers_and_what_to_do() -> None:
    error = StaleFence(name="seats", offered=3, highest=5)
    assert str(error) == (
        "'seats' has seen fence 5 and refuses the older 3: another holder has taken over, "
        "so stop and do not retry with this lease"
    )
    assert (error.name, error.offered, error.highest) == ("seats", 3, 5)


def test_a_timeout_can_be_caught_as_pythons_own() -> None:
    with pytest.raises(TimeoutError):
        raise AcquireTimeout(name="seat", timeout=5)
    with pytest.raises(ValueError, match="the call is wrong"):
        raise UsageError("the call is wrong")


FACTS: list[Callable[[], FencelockError]] = [
    lambda: FencelockError("a"),
    lambda: NotAcquired("a", name="seat"),
    lambda: AcquireTimeout("a", name="seat", timeout=5.0),
    lambda: LeaseLost("a", name="seat", fence=7, reason="it was so"),
    lambda: Expired("a", name="seat", fence=7, reason="it was so"),
    lambda: Revoked("a", name="seat", fence=7, reason="it was so"),
    lambda: SessionEnded("a", name="seat", fence=7, reason="it was so"),
    lambda: StaleFence(name="seats", offered=3, highest=5),
    lambda: OutcomeUnknown("a", until=30.0),
    lambda: EngineError("a"),
    lambda: Unavailable("a"),
    lambda: Misconfigured("a"),
    lambda: Denied("a"),
    lambda: Unsupported("a"),
    lambda: UsageError("a"),
]

COPIES: dict[str, Callable[[FencelockError], FencelockError]] = {
    "pickle": lambda error: pickle.loads(pickle.dumps(error)),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
}


@pytest.mark.parametrize("make", FACTS, ids=lambda make: type(make()).__name__)
@pytest.mark.parametrize("duplicate", COPIES)
def test_an_error_keeps_its_facts_across_processes(
    make: Callable[[], FencelockError], duplicate: str
) -> None:
    error = make()
    error.add_note("seen in a worker")
    twin = COPIES[duplicate](error)
    assert type(twin) is type(error)
    assert str(twin) == str(error)
    assert vars(twin) == vars(error)
    assert twin.__notes__ == ["seen in a worker"]


def test_the_facts_of_every_error_are_tried() -> None:
    assert {type(make()) for make in FACTS} == set(TREE)


@EACH
def test_a_class_says_what_happened_in_plain_words(kind: type[FencelockError]) -> None:
    text = (kind.__doc__ or "").lower()
    if issubclass(kind, EngineError | UsageError):
        assert "nothing" in text  # nothing happened, nothing was sent
    if kind is OutcomeUnknown:
        assert "may or may not" in text
