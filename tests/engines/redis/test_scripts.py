"""The short way through a script leads where the long way does."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from fencelock.engines.redis.keys import Keys, keys_of
from fencelock.engines.redis.scripts import script
from tests.servers.redis import Redis
from tests.servers.resp import Line
from tests.servers.shared import shared

TTL_MS = 60_000
APART_MS = 30_000  # a loaded machine may be slow, and a ttl is not taken for another
OWNERS = [letter * 32 for letter in "abcd"]
INBOX = "0123456789abcdef"
ACQUIRE, RELEASE = script("acquire").source, script("release").source
HOT, LONG = b"-- The fast path", b"-- The functions that all scripts with a queue share"


def long_way(source: bytes) -> bytes:
    """A script without its hot path."""
    return source[: source.index(HOT)] + source[source.index(LONG) :]


class Turns:
    """A lock that goes from hand to hand at a real server."""

    def __init__(self, port: int, name: str, acquire: bytes, release: bytes) -> None:
        self.keys = keys_of(name)
        self._line, self._ear = Line(port), Line(port)
        self._line.ask("DEL", *self.keys)
        self._ear.ask("SUBSCRIBE", f"fencelock:inbox:{name}{INBOX}")
        self._inbox = f"{name}{INBOX}"
        self._acquire, self._release = acquire, release

    def join(self, owner: str) -> Any:
        words = (owner, TTL_MS, '{"who": "us"}', self._inbox)
        return self._line.ask("EVAL", self._acquire, 3, *self.keys.declared, *words)

    def behind(self, owner: str) -> Any:
        """Join, after one who came when the clock was ahead."""
        self._line.ask("ZADD", self.keys.queue, 8 * 10**15, "ahead")
        return self.join(owner)

    def taken_by(self, owner: str) -> None:
        """Have another hold the lock, of whom we know nothing."""
        self._line.ask("SET", self.keys.lock, owner, "PX", TTL_MS)

    def told_now(self) -> None:
        """Somebody was told to stand by a moment ago, so that nobody has to be told.

        It is said to be a moment ahead, to last longer where the machine is slow.
        """
        seconds, micros = self._line.ask("TIME")
        now_ms = int(seconds) * 1000 + int(micros) // 1000
        self._line.ask("HSET", self.keys.waiters, "!", now_ms + 200)

    def release(self, owner: str) -> Any:
        return self._line.ask("EVAL", self._release, 3, *self.keys.declared, owner)

    def leave(self, owner: str) -> list[str]:
        """Release, and hear whose turn it is: owner, fence, wait."""
        assert self.release(owner) == 1
        while (word := str(self._ear.read()[2])).startswith("?"):
            pass  # somebody was told to stand by
        return word.split(" ")

    def heard(self) -> list[str]:
        """What the waiters were told and nobody has read yet."""
        self._line.ask("PUBLISH", f"fencelock:inbox:{self._inbox}", "the end")
        return [*iter(lambda: str(self._ear.read()[2]), "the end")]

    def kept(self) -> dict[str, Any]:
        """All that the server knows, but for moments and fences."""
        ask = self._line.ask
        fence, owner, claimed, ttl, since, meta = ask("GET", self.keys.record).split(" ", 5)
        fields = ask("HGETALL", self.keys.waiters)
        waiters = dict(zip(fields[::2], fields[1::2], strict=True))
        return {
            "holder": ask("GET", self.keys.lock),
            "record": (owner, claimed.removeprefix(self._inbox), ttl, meta),
            "digits": (len(fence), len(since)),
            "queue": ask("ZRANGE", self.keys.queue, 0, -1),
            "waiters": {
                field: value.split(" ")[2:3] + value.split(" ")[4:]
                for field, value in waiters.items()
                if field in OWNERS
            },
            "others": len([field for field in waiters if field not in OWNERS]),
            "lives": [_rounded(ask("PTTL", key)) for key in Keys(*self.keys)],
        }

    def close(self) -> None:
        self._line.close()
        self._ear.close()


def _rounded(ttl_ms: int) -> int:
    return round(ttl_ms / APART_MS)


@pytest.fixture
def both() -> Iterator[tuple[Turns, Turns]]:
    port = shared(Redis).port
    pair = (
        Turns(port, "short", ACQUIRE, RELEASE),
        Turns(port, "long", long_way(ACQUIRE), long_way(RELEASE)),
    )
    yield pair
    for turns in pair:
        turns.close()


def test_a_lock_handed_on_by_the_hot_path_is_handed_on_as_by_the_long_way(
    both: tuple[Turns, Turns],
) -> None:
    for turns in both:
        for owner in OWNERS:
            turns.join(owner)
        assert turns.leave(OWNERS[0])[0] == OWNERS[1]
        turns.join(OWNERS[0])
    fences = [0, 0]
    for leaver, heir in pairwise(OWNERS[1:]):
        for place, turns in enumerate(both):
            turns.told_now()
            owner, fence, waited = turns.leave(leaver)
            assert (owner, int(fence) > fences[place]) == (heir, True)
            assert 0 <= int(waited) < APART_MS
            fences[place] = int(fence)
        assert both[0].kept() == both[1].kept()


def test_the_hot_path_leaves_a_waiter_that_nobody_hears_to_the_long_way(
    both: tuple[Turns, Turns],
) -> None:
    for turns in both:
        turns.join(OWNERS[0])
        turns.join(OWNERS[1])
        turns._inbox, heard = "f" * 16, turns._inbox
        turns.join(OWNERS[2])
        turns._inbox = heard
        turns.join(OWNERS[3])
        turns.told_now()
        assert turns.leave(OWNERS[0])[0] == OWNERS[1]
        turns.told_now()
        assert turns.leave(OWNERS[1])[0] == OWNERS[3], "who hears nothing is passed over"
    assert both[0].kept() == both[1].kept()


def test_who_listens_to_a_pattern_of_channels_is_not_taken_for_a_waiter(
    both: tuple[Turns, Turns],
) -> None:
    """PUBLISH counts them too, so a dead waiter would be handed the lock for its whole ttl."""
    port = shared(Redis).port
    with Line(port) as monitor:
        monitor.ask("PSUBSCRIBE", "*")
        for turns in both:
            for owner in OWNERS[:2]:
                turns.join(owner)
            turns._inbox, heard = "f" * 16, turns._inbox
            turns.join(OWNERS[2])
            turns._inbox = heard
            turns.join(OWNERS[3])
            turns.told_now()
            assert turns.leave(OWNERS[0])[0] == OWNERS[1]
            turns.told_now()
            assert turns.leave(OWNERS[1])[0] == OWNERS[3], "handed to nobody"
    assert both[0].kept() == both[1].kept()


def test_a_place_in_the_queue_is_had_by_the_hot_path_as_by_the_long_way(
    both: tuple[Turns, Turns],
) -> None:
    answers: list[list[Any]] = []
    for turns in both:
        turns.join(OWNERS[0])
        turns.join(OWNERS[1])
        turns.told_now()
        assert turns.leave(OWNERS[0])[0] == OWNERS[1]
        joined = [turns.join(owner) for owner in (OWNERS[2], OWNERS[3], OWNERS[2])]
        joined.append(turns.behind(OWNERS[0]))
        answers.append([[_rounded(look_in), *rest] for look_in, *rest in joined])
    assert answers[0] == answers[1]
    assert [place for _, place, _ in answers[0]] == [0, 1, 0, 3], "who asks twice keeps its place"
    assert [meta for *_, meta in answers[0]] == ['{"who": "us"}'] * 4
    assert both[0].kept() == both[1].kept()


def test_a_lock_that_another_program_has_is_queued_for_alike(both: tuple[Turns, Turns]) -> None:
    answers: list[list[Any]] = []
    for turns in both:
        turns.join(OWNERS[0])
        turns.join(OWNERS[1])
        turns.told_now()
        assert turns.leave(OWNERS[0])[0] == OWNERS[1]
        turns.taken_by("another program")
        answers.append([turns.join(OWNERS[2]), turns.join(OWNERS[3])])
    theirs = '{"program": "not fencelock"}'
    assert answers[0] == answers[1] == [[1000, 0, theirs], [1000, 1, theirs]]
    assert both[0].kept() == both[1].kept()


def test_in_a_queue_only_the_holder_frees_the_lock(both: tuple[Turns, Turns]) -> None:
    """A stranger changes nothing, and a waiter only gives its place up."""
    for turns in both:
        for owner in OWNERS[:3]:
            turns.join(owner)
        turns.told_now()
        assert turns.leave(OWNERS[0])[0] == OWNERS[1]
        turns.join(OWNERS[0])
        turns.heard()
        before = turns.kept()
        assert turns.release("a stranger") == 0
        assert turns.kept() == before
        assert turns.release(OWNERS[2]) == 0
        after = turns.kept()
        assert after["queue"] == [OWNERS[0]]
        assert after["record"] == before["record"]
        assert (after["holder"], turns.heard()) == (OWNERS[1], [])
    assert both[0].kept() == both[1].kept()


def test_whose_lease_went_to_another_program_frees_nothing(both: tuple[Turns, Turns]) -> None:
    """The record still names the old holder; the key decides."""
    for turns in both:
        for owner in OWNERS[:3]:
            turns.join(owner)
        turns.told_now()
        assert turns.leave(OWNERS[0])[0] == OWNERS[1]
        turns.told_now()
        turns.taken_by("another program")
        turns.heard()
        assert turns.release(OWNERS[1]) == 0
        assert (turns.kept()["holder"], turns.heard()) == ("another program", [])
    assert both[0].kept() == both[1].kept()
