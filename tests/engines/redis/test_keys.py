"""Every name has keys of its own, all in one slot of a cluster, and they lead back to the name."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st
from redis.crc import key_slot

from fencelock.engines.redis.keys import keys_of, name_of

letters = st.text(alphabet="ab{}%:*?[]\\ fencelock", min_size=1, max_size=12)


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
    assert len({key_slot(key.encode()) for key in keys}) == 1
    assert len(set(keys)) == 4
    assert name_of(keys.record, prefix) == name


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
