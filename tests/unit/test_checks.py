"""What callers may pass, and what is said about the rest. Nothing here reaches an engine."""

from __future__ import annotations

import json
import threading
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fencelock
from fencelock import UsageError, model
from fencelock._client import validation

CONTROL = [*map(chr, range(0x20)), *map(chr, range(0x7F, 0xA0))]


# Names


@pytest.mark.parametrize(
    "name",
    ["a", "seat:1A", " ", "a b/c?d=é&{}%", "座席:1A", "x" * 512, "é" * 256, "\u00a0", "\u2028"],
)
def test_a_name_is_kept_as_it_is(name: str) -> None:
    assert validation.check_name(name) == name


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("", "must not be empty"),
        ("x" * 513, "at most 512 bytes of UTF-8, this one has 513: lock a hash"),
        ("é" * 257, "this one has 514"),
        ("a\nb", r"U\+000A stands at position 1"),
        ("é\x85", r"U\+0085 stands at position 1"),
        ("\ud800", "a lone surrogate stands at position 0"),
        (b"seat", "must be a str, not bytes"),
        (7, "must be a str, not int"),
        (None, "must be a str, not NoneType"),
    ],
)
def test_a_bad_name_is_refused_with_the_reason(name: object, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        validation.check_name(name)


@pytest.mark.parametrize("char", CONTROL)
def test_no_control_character_gets_into_a_name(char: str) -> None:
    for name in (char, f"a{char}", f"é{char}"):
        with pytest.raises(UsageError, match="control characters"):
            validation.check_name(name)


@given(st.text())
def test_a_name_is_taken_whole_or_refused(name: str) -> None:
    allowed = 1 <= len(name.encode()) <= 512 and not set(name) & set(CONTROL)
    if allowed:
        assert validation.check_name(name) == name
    else:
        with pytest.raises(UsageError):
            validation.check_name(name)


def test_the_hot_path_for_plain_text_and_the_long_way_agree() -> None:
    for code in range(0x80):
        name = chr(code)
        try:
            validation.check_name(name + "é")  # not ASCII: the long way
        except UsageError:
            with pytest.raises(UsageError):
                validation.check_name(name)
        else:
            assert validation.check_name(name) == name


def test_a_prefix_may_be_empty_but_is_otherwise_a_name() -> None:
    assert validation.check_prefix("") == ""
    assert validation.check_prefix("seat:") == "seat:"
    for prefix in ("a\n", None, 0):
        with pytest.raises(UsageError):
            validation.check_prefix(prefix)


@pytest.mark.parametrize("reason", ["", "  ", "x" * 513, None, 3])
def test_a_revocation_needs_a_reason_that_can_be_read(reason: object) -> None:
    with pytest.raises(UsageError, match="a reason is a text of 1 to 512 characters"):
        validation.check_reason(reason)


# Durations


@pytest.mark.parametrize("ttl", [0.05, 1, 30, 7 * 86_400, 7 * 86_400.0])
def test_a_ttl_becomes_seconds(ttl: float) -> None:
    assert validation.check_ttl(ttl) == float(ttl)


@pytest.mark.parametrize(
    "ttl",
    [0, 0.0499, -1, 1e9, float("inf"), float("-inf"), float("nan"), None, "30", True, 10**400],
)
def test_an_odd_ttl_is_refused(ttl: object) -> None:
    """H28: None, zero, tiny, huge and infinite lengths end before anything is sent."""
    with pytest.raises(UsageError, match="ttl"):
        validation.check_ttl(ttl)


@given(st.floats())
def test_a_ttl_is_never_infinite_and_never_too_short_to_renew(ttl: float) -> None:
    if 0.05 <= ttl <= 7 * 86_400:
        assert validation.check_ttl(ttl) == ttl
    else:
        with pytest.raises(UsageError):
            validation.check_ttl(ttl)


@pytest.mark.parametrize(("timeout", "seconds"), [(None, None), (0, 0.0), (2.5, 2.5), (1e9, 1e9)])
def test_a_timeout_is_a_wait(timeout: float | None, seconds: float | None) -> None:
    assert validation.check_timeout(timeout) == seconds


def test_an_infinite_timeout_is_no_limit() -> None:
    assert validation.check_timeout(float("inf")) is None


@pytest.mark.parametrize("timeout", [-1, -0.001, float("nan"), float("-inf"), "5", False])
def test_an_odd_timeout_is_refused(timeout: object) -> None:
    with pytest.raises(UsageError, match="timeout must be"):
        validation.check_timeout(timeout)


def test_a_negative_timeout_is_told_what_to_write() -> None:
    with pytest.raises(UsageError, match="0 tries once, None waits without limit"):
        validation.check_timeout(-1)


@pytest.mark.parametrize(("hold", "seconds"), [(None, None), (0.05, 0.05), (3600, 3600.0)])
def test_a_longest_hold_is_a_limit_or_none(hold: float | None, seconds: float | None) -> None:
    assert validation.check_max_hold(hold) == seconds


@pytest.mark.parametrize("hold", [0, 0.01, -1, float("inf"), float("nan"), "1", True])
def test_an_odd_longest_hold_is_refused(hold: object) -> None:
    with pytest.raises(UsageError, match="max_hold must be"):
        validation.check_max_hold(hold)


@pytest.mark.parametrize(
    "check", [validation.check_ttl, validation.check_timeout, validation.check_max_hold]
)
def test_a_timedelta_is_told_how_to_become_seconds(check: Any) -> None:
    with pytest.raises(UsageError, match=r"pass value.total_seconds\(\)"):
        check(timedelta(seconds=30))
    with pytest.raises(UsageError, match="must be a number of seconds"):
        check(Decimal(30))


# Switches, safety and meta


@pytest.mark.parametrize("value", ["no", 0, 1, None])
def test_a_switch_is_true_or_false_and_nothing_like_it(value: object) -> None:
    with pytest.raises(UsageError, match="renew must be True or False"):
        validation.check_flag(value, "renew")


def test_safety_is_one_of_two_words() -> None:
    assert validation.check_safety(None) is None
    assert validation.check_safety("efficiency") == "efficiency"
    assert validation.check_safety("correctness") == "correctness"
    for safety in ("strict", "", True):
        with pytest.raises(UsageError, match='"efficiency" or "correctness"'):
            validation.check_safety(safety)


def test_meta_is_copied_so_that_later_changes_do_not_reach_the_lock() -> None:
    words: dict[str, model.Scalar] = {"job": "nightly", "try": 1, "share": 0.5, "dry": False}
    words["host"] = None
    meta = validation.check_meta(words)
    assert meta == words
    words["job"] = "other"
    assert meta["job"] == "nightly"
    assert validation.check_meta(None) == {}


@pytest.mark.parametrize(
    ("meta", "why"),
    [
        ("job", "meta must be a mapping"),
        ([("job", 1)], "meta must be a mapping"),
        ({1: "a"}, "a key of meta must be a str, not 1"),
        ({"a": [1]}, r"meta\['a'\] must be a str, a number, a bool or None"),
        ({"a": b"x"}, r"meta\['a'\] must be a str"),
        ({"a": float("nan")}, "must be finite"),
        ({"a": float("-inf")}, "must be finite"),
    ],
)
def test_meta_that_not_every_engine_can_carry_is_refused(meta: object, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        validation.check_meta(meta)


def test_meta_has_a_size() -> None:
    """Of the caller's own words, which is said before anything is locked."""
    most = {"a": "x" * (4096 - len('{"a": ""}'))}
    assert validation.check_meta(most) == most
    too_long: list[dict[str, Any]] = [{"a": most["a"] + "x"}, {**most, "b": 1}, {"a": "ä" * 800}]
    for longer in too_long:
        with pytest.raises(UsageError, match=r"at most 4096 bytes as JSON, this has 4[0-9]{3}"):
            validation.check_meta(longer)
        with fencelock.connect("memory://meta") as client:
            with pytest.raises(UsageError, match="at most 4096 bytes"):
                client.lock("x", meta=longer)
            with pytest.raises(UsageError, match="at most 4096 bytes"):
                client.locked("x", meta=longer)


def test_meta_of_the_largest_size_is_carried_whatever_the_thread_is_called() -> None:
    most = {"a": "x" * (4096 - len('{"a": ""}'))}
    name = "ä" * 10_000

    def hold() -> None:
        with fencelock.connect("memory://meta") as client:
            with client.lock("x", meta=most):
                seen.extend(client.holders("x"))
            with client.lock("x"):
                seen.extend(client.holders("x"))

    seen: list[fencelock.Holding] = []
    thread = threading.Thread(target=hold, name=name)
    thread.start()
    thread.join(20)
    assert seen[0].meta == most
    assert seen[1].meta["thread"] == name[:200]


WORDS = st.dictionaries(
    st.text(max_size=20),
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=20)
    | st.floats(allow_nan=False, allow_infinity=False),
)


@given(WORDS)
def test_meta_that_is_taken_comes_back_from_json_unchanged(words: dict[str, model.Scalar]) -> None:
    assert json.loads(json.dumps(validation.check_meta(words), allow_nan=False)) == words


# Fences


@pytest.mark.parametrize("fence", [1, 2**53 - 1])
def test_a_fence_is_a_whole_number(fence: int) -> None:
    assert model.check_fence(fence) == fence


@pytest.mark.parametrize("fence", [0, -1, 2**53, 1.0, "1", None, True])
def test_what_is_no_fence_is_refused(fence: object) -> None:
    with pytest.raises(UsageError, match="a fence is an integer from 1 to 9007199254740991"):
        model.check_fence(fence)


@pytest.mark.parametrize("meta", [[], "", 0, False])
def test_meta_that_is_no_mapping_is_refused_though_it_is_empty(meta: Any) -> None:
    with (
        fencelock.connect("memory://odd") as client,
        pytest.raises(UsageError, match="meta must be a mapping"),
    ):
        client.lock("x", meta=meta)


def test_a_reason_with_a_lone_surrogate_is_refused() -> None:
    with pytest.raises(UsageError, match="lone surrogate"):
        validation.check_reason("\ud800")
