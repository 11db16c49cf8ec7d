"""The models answer as the real ones do: the same operations, drawn at random, on both.

Redis: the package's scripts at a real server, whose clock is in our hands, and at the model. The
model is given the server's own time with each request, so answers agree but for what passes in
between. All leases last x.5 s and time jumps by whole seconds, so that nothing hangs on that.

Store: the memory engine is the model of a linearizable store; SQLite is a real one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fencelock.engines.redis import scripts
from fencelock.engines.redis.keys import holders_of, keys_of, observers_of, remembered_of
from fencelock.engines.redlock.scripts import script as redlock_script
from fencelock.sim.model_redis import ModelRedis
from tests.servers.clock import Clock
from tests.servers.redis import Redis
from tests.servers.resp import Line, ReplyError
from tests.servers.server import Missing, until

KEYS = keys_of("seat", "")
SIDE = f"{KEYS.record}:revoked"
SLOTS, READERS = holders_of("seat", "semaphore"), holders_of("seat", "rwlock")
OBSERVERS, MEMO = observers_of("seat"), remembered_of("seat")
OF_SHARES = ("", ":expiry", ":queue", ":waiters", ":revoked")
ALL = (*KEYS, SIDE, OBSERVERS, MEMO, *(key + end for key in (SLOTS, READERS) for end in OF_SHARES))
OWNERS = [f"{letter * 8}" for letter in "abc"]
HEARD, DEAF = "1111111111111111", "2222222222222222"
APART_MS = 250  # what may pass between the server's time and the server's answer

owners = st.sampled_from(OWNERS)
ttls = st.sampled_from([2500, 10500, 100500])
inboxes = st.sampled_from([HEARD, DEAF])
fences = st.sampled_from([0, 10**15 + 1, 10**15 + 2, 10**15 + 3])
alone = st.sampled_from([1, 1, 1, 0])


def script_of(name: str) -> scripts.Script:
    """One of redis, or of redlock."""
    folder, _, last = name.rpartition("/")
    return redlock_script(last) if folder else scripts.script(last)


def _run(
    name: str, keys: int | tuple[str, ...], *words: st.SearchStrategy[Any]
) -> st.SearchStrategy[Any]:
    keys = KEYS[:keys] if isinstance(keys, int) else keys
    return st.tuples(st.just(name), st.just(keys), st.tuples(*words))


meta = st.just("{}")
queueing = st.one_of(
    _run("acquire", 3, owners, ttls, meta, st.one_of(inboxes, st.just("")), alone),
    _run("acquire", 3, owners, ttls, meta, st.just(HEARD)),
    _run("acquire", 3, owners, ttls, meta),
    _run("release", 3, owners, alone),
    _run("release", 3, owners),
    _run("renew", 2, ttls, owners),
    _run("heartbeat", 3, inboxes, alone),
    _run("inspect", 3, st.sampled_from([0, 1]), alone),
    _run("revoke", 3, st.just("why"), alone),
)
voting = st.one_of(
    _run("redlock/acquire", 2, owners, ttls, fences, meta),
    _run("redlock/fence", 2, owners, ttls, fences.filter(bool), meta),
    _run("redlock/release", 1, owners),
    _run("redlock/inspect", 2),
    _run("redlock/revoke", 2, owners, st.just("why")),
    _run("renew", 2, ttls, owners),
)
units = st.sampled_from([("1", "1000000"), ("1000000", "1000000")])
limits = st.sampled_from(["2", "2", "2", "3"])
inbox = st.one_of(inboxes, st.just(""))


def _share(name: str, *words: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """A script for the slots of a semaphore, or for readers and writers."""
    return st.one_of(_run(name, (SLOTS,), *words), _run(name, (READERS,), *words))


sharing = st.one_of(
    st.one_of(
        _run("share_acquire", (SLOTS,), owners, ttls, meta, st.just("1"), limits, inbox, alone),
        _run("share_acquire", (READERS,), owners, ttls, meta, units, inbox, alone),
    ).map(lambda run: (*run[:2], tuple(_flat(run[2])))),
    _share("share_release", owners, alone),
    _share("share_release", owners, alone, st.just("notified")),
    _share("share_renew", ttls, owners),
    _share("share_heartbeat", inboxes, alone),
    _share("share_inspect", st.sampled_from([0, 1]), alone),
    _share("share_revoke", st.just("why"), alone),
)
noting = st.one_of(
    _run("remember", (MEMO,), owners, st.sampled_from([-5, 7, 1 << 52]), ttls),
    _run("recall", (MEMO,)),
    _run("forget", (MEMO,)),
    _run("observe", (OBSERVERS,), inboxes),
    _run("announce", (OBSERVERS,), alone),
)
passing = st.tuples(st.just("wait"), st.sampled_from([1, 3, 11, 31, 61, -7]), st.just(()))
stories = st.one_of(
    st.lists(st.one_of(queueing, queueing, queueing, passing), max_size=25),
    st.lists(st.one_of(voting, voting, voting, passing), max_size=25),
    st.lists(st.one_of(sharing, sharing, sharing, passing), max_size=25),
    st.lists(st.one_of(noting, noting, noting, passing), max_size=15),
)


def _flat(words: tuple[Any, ...]) -> Iterator[Any]:
    for word in words:
        yield from word if isinstance(word, tuple) else (word,)


class Pair:
    """A real server with a listener, and the model beside it."""

    def __init__(self, server: Redis, clock: Clock) -> None:
        self._server, self._clock = server, clock
        self._line, self._ear = Line(server.port), Line(server.port)
        self._ear.ask("SUBSCRIBE", f"fencelock:inbox:{HEARD}")
        self._now_us = 0
        self.model = ModelRedis(lambda: self._now_us)
        self.model.publish = self._publish
        self._heard: list[str] = []
        self._ranks: tuple[dict[str, int], dict[str, int]] = ({}, {})

    def _publish(self, channel: bytes, message: bytes | None) -> int:
        if not channel.endswith(HEARD.encode()):
            return 0
        if message is not None:
            self._heard.append(message.decode())
        return 1

    def begin(self) -> None:
        self._line.ask("FLUSHALL")
        self.model.forget()
        self._heard = []
        self._ranks = ({}, {})

    def close(self) -> None:
        self._line.close()
        self._ear.close()

    def wait(self, seconds: int) -> None:
        before = self._server.time()
        self._clock.step(seconds)
        until(lambda: abs(self._server.time() - before - seconds) < 0.9, "the clock to step")

    def ask(self, name: str, keys: tuple[str, ...], words: tuple[Any, ...]) -> None:
        """Run a script at both, and see that they say the same."""
        request = ["EVAL", script_of(name).source, len(keys), *keys, *words]
        theirs, ours = self._both(request)
        if name == "recall":  # a hash has no order
            theirs, ours = sorted(theirs), sorted(ours)
        if name == "share_inspect":  # two that end within a moment may stand either way
            theirs, ours = _by_fence(theirs), _by_fence(ours)
        assert self.alike(theirs, ours), f"{name} {words}: {theirs!r} and not {ours!r}"
        while self._heard:
            theirs, ours = self._ear.read()[2].split(" "), self._heard.pop(0).split(" ")
            assert self.alike(theirs[:2], ours[:2])
            assert abs(int((theirs[2:] or ["0"])[0]) - int((ours[2:] or ["0"])[0])) <= APART_MS

    def _both(self, request: list[Any]) -> tuple[Any, Any]:
        self._line.send("TIME")
        self._line.send(*request)
        seconds, micros = self._line.read()
        try:
            theirs: Any = self._line.read()
        except ReplyError as error:
            theirs = error
        self._now_us = int(seconds) * 1_000_000 + int(micros)
        packed = [word if isinstance(word, bytes) else str(word).encode() for word in request]
        return theirs, _text(self.model.execute(packed))

    def same(self, *request: Any) -> Any:
        """Send one command to both, and see that they say the same."""
        theirs, ours = self._both(list(request))
        assert self.alike(theirs, ours), f"{request}: {theirs!r} and not {ours!r}"
        return theirs

    def compare_what_is_kept(self) -> None:
        """All keys, with what is in them and how long they live."""
        for key in ALL:
            ours: Any
            theirs, ours = self._both(["PTTL", key])
            assert self.alike(theirs, ours), f"{key} lives {theirs} ms and not {ours}"
            kind = self._line.ask("TYPE", key)
            looks: dict[str, list[Any]] = {
                "string": ["GET", key],
                "hash": ["HGETALL", key],
                "zset": ["ZRANGE", key, 0, -1, "WITHSCORES"],
            }
            theirs, ours = self._both(looks.get(kind, ["EXISTS", key]))
            if kind in ("hash", "zset"):  # scores are compared with their members
                theirs, ours = (
                    sorted(zip(all_[::2], all_[1::2], strict=True)) for all_ in (theirs, ours)
                )
            assert self.alike(theirs, ours), f"{key}: {theirs!r} and not {ours!r}"

    def alike(self, theirs: Any, ours: Any) -> bool:
        """The same, but for the moments at which they were asked."""
        if isinstance(theirs, list | tuple) and isinstance(ours, list | tuple):
            return len(theirs) == len(ours) and all(map(self.alike, theirs, ours))
        if isinstance(theirs, str) and isinstance(ours, str) and " " in theirs:
            return self.alike(theirs.split(" "), ours.split(" "))
        one, other = str(theirs), str(ours)
        if one[:1] == other[:1] == "-":  # a moment, counted down
            one, other = one[1:], other[1:]
        if not (one.isdigit() and other.isdigit()) or int(one) < 100:
            return one == other
        if len(one) == 16 and one[0] == "1" and one[1] != "0":  # a fence of the server's clock
            ranks, others = self._ranks
            return ranks.setdefault(one, len(ranks)) == others.setdefault(other, len(others))
        return abs(int(one) - int(other)) <= APART_MS


def _by_fence(answer: Any) -> Any:
    """What is said of shares, with the holders in the order of their fences."""
    if not isinstance(answer, list):
        return answer
    holders, end = answer[3:], 2 * int(answer[2])
    pairs = sorted(zip(holders[:end:2], holders[1:end:2], strict=True))
    return [answer[:3], pairs, holders[end:]]


def _text(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, list):
        return [_text(one) for one in value]
    return value


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    try:
        clock = Clock(tmp_path_factory.mktemp("clock"))
    except Missing as missing:
        pytest.skip(str(missing))
    server = Redis()
    server.environment |= clock.environment
    with server:
        pair = Pair(server, clock)
        yield pair
        pair.close()


@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(story=stories)
def test_the_model_of_redis_answers_as_a_server_does(pair: Pair, story: list[Any]) -> None:
    pair.begin()
    for name, argument, words in story:
        if name == "wait":
            pair.wait(argument)
        else:
            pair.ask(name, argument, words)
    pair.compare_what_is_kept()


def test_commands_of_other_clients_are_answered_as_a_server_does(pair: Pair) -> None:
    """What articles print: names in any case, a counter, the release script as text."""
    owned = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end"
    pair.begin()
    assert pair.same("set", "seat", "me", "nx", "px", 30000) == "OK"
    assert pair.same("SET", "seat", "other", "NX", "PX", 30000) is None
    assert pair.same("Get", "seat") == "me"
    pair.same("eval", owned, 1, "seat", "other")
    assert pair.same("eval", owned, 1, "seat", "me") == 1
    assert [pair.same("incr", "count") for _ in range(3)] == [1, 2, 3]
    pair.same("set", "text", "one")
    pair.same("INCR", "text")
    assert pair.same("get", "count") == "3"
    pair.same("pexpire", "count", 60000)
    pair.same("incr", "count")
    pair.same("pttl", "count")
