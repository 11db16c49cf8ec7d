"""What the scripts of shares keep, whatever comes: at a model server, whose clock is in our hands.

`tests/sim/test_models.py` holds the model against a real server with the same scripts.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fencelock.engines.redis.keys import holders_of
from fencelock.engines.redis.scripts import script
from fencelock.model import READERS_MAX
from fencelock.sim.model_redis import ModelRedis

HOT, LONG = (
    b"-- The fast path",
    b"-- The functions that all scripts for names of several holders share",
)
OWNERS = [letter * 32 for letter in "abcdef"]
INBOXES = ["1" * 16, "2" * 16]
DEAF = "3" * 16
START_US = 1_800_000_000_000_000
KINDS = {"semaphore": 3, "rwlock": READERS_MAX}

owners, ttls = st.sampled_from(OWNERS), st.sampled_from([300, 2_000, 60_000, 9_000_000])
inboxes = st.sampled_from([*INBOXES, DEAF])
wants_all = st.booleans()
steps = st.one_of(
    st.tuples(st.just("acquire"), owners, ttls, wants_all, st.sampled_from([*INBOXES, DEAF, ""])),
    st.tuples(st.just("acquire"), owners, ttls, wants_all, st.sampled_from([*INBOXES, ""])),
    st.tuples(st.just("release"), owners),
    st.tuples(st.just("release"), owners),
    st.tuples(st.just("renew"), owners, ttls),
    st.tuples(st.just("heartbeat"), inboxes),
    st.tuples(st.just("revoke")),
    st.tuples(st.just("wait"), st.sampled_from([100, 600, 3_000, 40_000, 4_000_000])),
)
stories = st.lists(steps, max_size=40)


def long_way(name: str) -> bytes:
    """A script without its hot path."""
    source = script(name).source
    return source[: source.index(HOT)] + source[source.index(LONG) :]


class Name:
    """A name of a kind at a model server, and what it must keep at every moment."""

    def __init__(self, kind: str, alone: str, hot: bool) -> None:
        self.now_us = START_US
        self.kind, self.limit, self.alone = kind, KINDS[kind], alone
        self.server = ModelRedis(lambda: self.now_us)
        self.server.publish = self._publish
        self.told: list[str] = []
        self.key = holders_of("seat", kind)
        self.highest = 0
        self.sources = {
            f"share_{verb}": script(f"share_{verb}").source
            for verb in ("acquire", "release", "renew", "heartbeat", "inspect", "revoke")
        }
        if not hot:
            for name in ("share_acquire", "share_release"):
                self.sources[name] = long_way(name)

    def _publish(self, channel: bytes, message: bytes | None) -> int:
        heard = channel.decode().rpartition(":")[2] in INBOXES
        if heard and message is not None:
            self.told.append(message.decode())
        return int(heard)

    def ask(self, *words: object) -> Any:
        reply = self.server.execute(
            [str(w).encode() if not isinstance(w, bytes) else w for w in words]
        )
        assert not isinstance(reply, Exception), reply
        return reply

    def run(self, name: str, *words: object) -> Any:
        return self.ask("EVAL", self.sources[f"share_{name}"], 1, self.key, *words)

    def step(self, step: tuple[Any, ...]) -> Any:
        self.now_us += 1_000
        match step:
            case ("wait", ms):
                self.now_us += ms * 1_000
                return None
            case ("acquire", owner, ttl, wants_all, inbox):
                units = self.limit if wants_all and self.kind == "rwlock" else 1
                return self.run("acquire", owner, ttl, "{}", units, self.limit, inbox, self.alone)
            case ("release", owner):
                return self.run("release", owner, self.alone)
            case ("renew", owner, ttl):
                return self.run("renew", ttl, owner)
            case ("heartbeat", inbox):
                return self.run("heartbeat", inbox, self.alone)
            case _:
                return self.run("revoke", "why", self.alone)

    def holders(self) -> dict[str, list[str]]:
        """The fields of the hash, split: fence, units, slot, claimed, ttl, since, meta."""
        fields = [word.decode() for word in self.ask("HGETALL", self.key) or []]
        return {f: text.split(" ") for f, text in zip(fields[::2], fields[1::2], strict=True)}

    def queue(self) -> list[str]:
        return [word.decode() for word in self.ask("ZRANGE", self.key + ":queue", 0, -1) or []]

    def kept(self) -> list[Any]:
        """All that the server knows."""
        ends = (":expiry", ":queue")
        hashes = (self.key, self.key + ":waiters", self.key + ":revoked")
        return [
            *(self.ask("ZRANGE", self.key + end, 0, -1, "WITHSCORES") for end in ends),
            *(self.ask("HGETALL", key) for key in hashes),
            *(self.ask("PTTL", key) for key in (*hashes, *(self.key + end for end in ends))),
            self.told,
        ]

    def check(self) -> None:
        holders = self.holders()
        state = holders.pop("=", None)
        if state is None:
            assert not holders
            return
        limit, used, slots, last, _, waiting = map(int, state)
        units = [int(record[1]) for record in holders.values()]
        assert limit == self.limit
        assert used == sum(units) <= limit, "more is held than there is"
        fences = [int(record[0]) for record in holders.values()]
        assert len(set(fences)) == len(fences)
        assert last >= max([self.highest, *fences]), "a fence went back"
        self.highest = last
        assert waiting or not self.queue(), "somebody waits, and the hot path does not know it"
        ends = {word.decode() for word in self.ask("ZRANGE", self.key + ":expiry", 0, -1)}
        assert ends >= {*holders, "="}
        if self.kind == "semaphore":
            held = [int(record[2]) for record in holders.values()]
            free = [int(member[1:]) for member in ends if member.startswith("#")]
            assert sorted(held + free) == [*range(slots)], "a slot has two holders, or none"
            assert slots <= limit
        scores = [float(self.ask("ZSCORE", self.key + ":expiry", owner)) for owner in holders]
        left = max(scores, default=0) - self.now_us // 1_000
        for key in (self.key, self.key + ":expiry"):
            assert self.ask("PTTL", key) > max(left, 0), f"{key} ends before a lease"


@pytest.mark.parametrize("alone", ["1", "0"])
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=150, deadline=None)
@given(story=stories)
def test_shares_are_kept_alike_by_the_hot_path_and_the_long_way(
    kind: str, alone: str, story: list[Any]
) -> None:
    short, long = Name(kind, alone, hot=True), Name(kind, alone, hot=False)
    for step in story:
        answers = [name.step(step) for name in (short, long)]
        assert answers[0] == answers[1], step
        if step[0] == "acquire" and isinstance(answers[0], bytes):
            mine = short.holders()[step[1]]
            assert answers[0].decode().split(" ") == mine[:3]
            assert mine[3] == "1", "a grant that is not claimed"
        assert short.kept() == long.kept(), step
        short.check()
    short.step(("wait", 20_000_000))
    for end in ("", ":expiry", ":queue", ":waiters", ":revoked"):
        assert not short.ask("EXISTS", short.key + end), "something is kept for ever"


def grant(
    name: Name, owner: str, inbox: str = "", wants_all: bool = False, ttl: int = 60_000
) -> Any:
    return name.step(("acquire", owner, ttl, wants_all, inbox))


def test_a_waiter_that_does_not_claim_is_passed_over_and_keeps_its_position() -> None:
    name = Name("semaphore", "1", hot=True)
    for owner in OWNERS[:3]:
        assert isinstance(grant(name, owner), bytes)
    assert grant(name, OWNERS[3], INBOXES[0])[1] == 0
    assert grant(name, OWNERS[4], INBOXES[1])[1] == 1
    name.step(("release", OWNERS[0]))
    assert name.told[0] == OWNERS[3], "the first was notified"
    assert name.told[1:] == [f"?{name.key}"], "and the next one is to look after it"
    name.step(("wait", 600))
    assert name.step(("heartbeat", INBOXES[1]))[1] == 1
    assert name.told[2:] == [OWNERS[4]], "it did not claim, so the next was notified"
    assert name.queue() == [OWNERS[3], OWNERS[4]]
    assert isinstance(grant(name, OWNERS[4], INBOXES[1]), bytes)
    assert grant(name, OWNERS[3], INBOXES[0])[1] == 0, "it comes first again"
    name.step(("release", OWNERS[1]))
    assert name.told[-1] == OWNERS[3]


def test_a_deaf_waiter_is_passed_over_at_once_where_one_server_reaches_all() -> None:
    name = Name("semaphore", "1", hot=True)
    for owner in OWNERS[:3]:
        grant(name, owner)
    grant(name, OWNERS[3], DEAF)
    grant(name, OWNERS[4], INBOXES[0])
    name.step(("release", OWNERS[0]))
    assert name.told == [OWNERS[4]]


def test_a_skipped_reader_that_looks_again_comes_before_the_writer_behind_it() -> None:
    name = Name("rwlock", "1", hot=True)
    assert isinstance(grant(name, OWNERS[0], wants_all=True), bytes)
    grant(name, OWNERS[1], INBOXES[0])
    grant(name, OWNERS[2], INBOXES[1])
    grant(name, OWNERS[3], INBOXES[0], wants_all=True)
    name.step(("release", OWNERS[0]))
    assert name.told[:2] == OWNERS[1:3], "all readers before the writer are notified"
    assert isinstance(grant(name, OWNERS[2], INBOXES[1]), bytes)
    name.step(("wait", 600))
    name.step(("heartbeat", INBOXES[1]))  # the first reader has not claimed
    assert set(name.holders()) == {"=", OWNERS[2]}
    assert isinstance(grant(name, OWNERS[3], INBOXES[0], wants_all=True), list)
    assert isinstance(grant(name, OWNERS[1], INBOXES[0]), bytes), "it has kept its position"
    assert isinstance(grant(name, OWNERS[4]), list), "the writer is not overtaken"


def test_dead_waiters_are_forgotten() -> None:
    name = Name("semaphore", "0", hot=True)
    for owner in OWNERS[:3]:
        grant(name, owner)
    grant(name, OWNERS[3], INBOXES[0])
    name.step(("wait", 20_000))
    grant(name, OWNERS[4], INBOXES[1])
    name.step(("wait", 20_000))
    name.step(("release", OWNERS[0]))
    assert name.told[0] == OWNERS[4], "the first gave no sign of life for 40 s"
    assert name.queue() == [OWNERS[4]]


@pytest.mark.parametrize("lost", ["", ":expiry"])
def test_a_name_that_lost_a_key_can_be_used_again(lost: str) -> None:
    """A server that is out of memory may have evicted either."""
    name = Name("semaphore", "1", hot=True)
    fences = [int(grant(name, owner).split(b" ")[0]) for owner in OWNERS[:3]]
    grant(name, OWNERS[3], INBOXES[0])
    name.ask("DEL", name.key + lost)
    gone = name.step(("renew", OWNERS[0], 60_000))
    assert gone == [0, b""], "its holder is told so"
    assert name.step(("heartbeat", INBOXES[0]))[1] == 0, "who waits is to ask again"
    answer = grant(name, OWNERS[3], INBOXES[0])
    assert int(answer.split(b" ")[0]) > max(fences)
    assert answer.endswith(b" 1 0")
    name.check()


def test_a_fence_is_drawn_above_the_last_while_the_clock_is_behind() -> None:
    name = Name("rwlock", "1", hot=True)
    first = int(grant(name, OWNERS[0]).split(b" ")[0])
    name.now_us -= 10_000_000
    second = int(grant(name, OWNERS[1]).split(b" ")[0])
    assert second == first + 1
    name.check()


def test_who_was_notified_is_not_given_a_second_share() -> None:
    name = Name("semaphore", "1", hot=True)
    for owner in OWNERS[:3]:
        grant(name, owner)
    grant(name, OWNERS[3], INBOXES[0])
    name.step(("release", OWNERS[0]))
    name.step(("release", OWNERS[1]))
    assert name.told == [OWNERS[3]]
    name.check()


def test_a_writer_that_becomes_a_reader_lets_the_readers_behind_it_in() -> None:
    name = Name("rwlock", "1", hot=True)
    fence = grant(name, OWNERS[0], wants_all=True).split(b" ")[0]
    grant(name, OWNERS[1], INBOXES[0])
    assert grant(name, OWNERS[0]) == fence + b" 1 -"
    assert name.told == [OWNERS[1]]
    name.check()


def test_a_short_lease_does_not_shorten_what_a_renewal_has_prolonged() -> None:
    name = Name("rwlock", "1", hot=True)
    grant(name, OWNERS[0])
    assert name.step(("renew", OWNERS[0], 90_000_000)) == []
    name.step(("wait", 1_000_000))
    grant(name, OWNERS[1])
    name.check()
