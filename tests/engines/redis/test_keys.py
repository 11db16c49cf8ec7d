"""Every name has keys of its own, all in one slot of a cluster, and they lead back to the name."""

from __future__ import annotations

import re

from hypothesis import example, given, settings
from hypothesis import strategies as st
from redis.crc import key_slot

from fencelock.engines.redis.keys import (
    KINDS,
    found_by,
    holders_of,
    keys_of,
    name_of,
    observers_of,
    part_of,
    pattern,
    remembered_of,
)
from fencelock.guards.redis.script import key_of
from fencelock.guards.redis.script_call import PREFIX

letters = st.text(alphabet="ab{}%:*?[]\\ fencelock", min_size=1, max_size=12)
PARTS = (
    "{ } x % ~ %7B %7D %25 fencelock :fencelock fencelock: fencelock% fencelock:mark: mark: mark:~"
)
parts = st.lists(
    st.sampled_from(
        [*PARTS.split(), ":queue", ":waiters", ":revoked", ":semaphore", ":expiry", ":remembered"]
    ),
    min_size=1,
    max_size=6,
).map("".join)
"""Names made of what the keys of others are made of."""


@given(letters, letters | st.just(""))
@example("a}{b", "")
@example("{}x", "")
@example("}", "")
@example("a{", "")
@example("{a}", "")
@example("fencelock%7D", "")
@example("b}", "{a")
def test_the_keys_of_a_name_share_a_slot_and_lead_back_to_it(name: str, prefix: str) -> None:
    """H42."""
    keys = keys_of(name, prefix)
    assert len({key_slot(key.encode()) for key in [*keys, *others(keys.lock)]}) == 1
    assert len(set(keys)) == 4
    assert name_of(keys.record, prefix) == name
    assert found_by(keys.record, prefix) == (name, "lock")
    for kind in KINDS:
        assert found_by(holders_of(keys.lock, kind), prefix) == (name, kind)


@given(parts)
def test_a_name_that_looks_like_a_key_of_ours_leads_back_as_well(name: str) -> None:
    """H42."""
    keys = keys_of(name)
    assert len({key_slot(key.encode()) for key in keys}) == 1
    assert name_of(keys.record) == name


def others(lock: str) -> set[str]:
    """What is kept beside the keys of a mutex."""
    ends = ("", ":expiry", ":queue", ":waiters", ":revoked")
    shares = {holders_of(lock, kind) + end for kind in KINDS for end in ends}
    return {*shares, observers_of(lock), remembered_of(lock)}


def every_key(name: str) -> set[str]:
    keys = keys_of(name)
    return {*keys, keys.record + ":revoked", key_of(PREFIX, name), *others(keys.lock)}


@settings(max_examples=500)
@given(parts, parts)
@example("x", "{x}:fencelock")
@example("x", "{x}:fencelock:queue")
@example("x", "{x}:fencelock:waiters")
@example("x", "{x}:fencelock:revoked")
@example("x", "{x}:fencelock:semaphore")
@example("x{y}", "x{y}:fencelock:semaphore")
@example("x{y}", "fencelock:x{y}:fencelock:semaphore:expiry")
@example("x", "{x}:fencelock:remembered")
@example("x", "fencelock:mark:{x}")
@example("{x}", "fencelock:{x}:fencelock")
@example("{x}", "fencelock:mark:~{x}")
@example("{x}:fencelock", "mark:~{x}")
@example("a}{b", "fencelock%a%7D%7Bb")
@example("a}{b", "fencelock:mark:%{a%7D%7Bb}")
@example("fencelock:a}{b", "fencelock%fencelock:a%7D%7Bb")
def test_no_name_reaches_what_is_kept_for_another(one: str, other: str) -> None:
    """H85: Nor the mark of a RedisGuard."""
    if one != other:
        assert not every_key(one) & every_key(other)


@given(parts)
@example("{x}:fencelock:semaphore")
@example("fencelock:{x}:fencelock:semaphore")
@example("x:fencelock:observers")
def test_what_a_key_is_can_be_told_from_it(name: str) -> None:
    """The heartbeats of a client know by its key whether it waits for a lock or for a share."""
    lock = keys_of(name).lock
    assert part_of(lock) == ""
    assert [part_of(holders_of(lock, kind)) for kind in KINDS] == [*KINDS]
    assert part_of(observers_of(lock)) == "observers"


def test_names_that_only_resemble_our_keys_stand_as_they_are() -> None:
    for name in ("fencelock", "my:fencelock", "{user}:mail", "mark:{user}", "{a}:b:fencelock"):
        assert keys_of(name).lock == name, "other programs could not share it"


@given(parts, st.integers(0, 12))
@example("7Dx{}", 3)
@example("a%b}", 2)
def test_a_record_is_found_by_how_its_name_begins(name: str, length: int) -> None:
    globbed = re.sub(r"\\\\(.)|\*", _as_regex, pattern(name[:length]))
    assert re.fullmatch(globbed, keys_of(name).record, re.DOTALL)


def _as_regex(found: re.Match[str]) -> str:
    return re.escape(found[1]) if found[1] else ".*"


@given(letters, letters)
def test_two_names_never_share_a_key(one: str, other: str) -> None:
    """H42."""
    if one != other:
        assert not {*keys_of(one)[:1]} & {*keys_of(other)[:1]}
        assert keys_of(one).record != keys_of(other).record


def test_a_plain_name_is_the_key() -> None:
    assert keys_of("report").lock == "report"
    assert keys_of("{user:1}:mail").lock == "{user:1}:mail"
    assert keys_of("report", "locks:").lock == "locks:report"


def test_what_is_no_record_has_no_name() -> None:
    assert name_of("somebody:fencelock") is None
    assert name_of("{report}:fencelock", prefix="locks:") is None
