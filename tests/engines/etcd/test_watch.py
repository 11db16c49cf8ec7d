"""Watches that are kept for whoever waits for the same key again: nothing is missed by it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from fencelock.engines.etcd import watch
from fencelock.engines.etcd.cluster import Cluster
from fencelock.engines.etcd.messages import protobuf, replies, requests
from fencelock.engines.etcd.own_key import Lease, OwnKey
from fencelock.engines.etcd.watch import QUIET_S, SPARE_S, SPARES_MAX, Watches
from fencelock.worlds.threads import ThreadsWorld
from tests.faults.flavors import Lab, run
from tests.servers.etcd import Etcd

KEY = b"seat/1"


class FakeCluster(Cluster):
    """A cluster whose watch stream the test speaks on."""

    def __init__(self) -> None:
        self.epoch = 0
        self.sent: list[bytes] = []
        self.say: Callable[[bytes], None]
        self.end: Callable[[], None]

    def stream(
        self, on_message: Callable[[bytes], None], on_end: Callable[[], None]
    ) -> FakeCluster:
        self.say, self.end = on_message, on_end
        return self

    def send(self, message: bytes) -> None:
        self.sent.append(message)

    def close(self) -> None: ...

    def begun(self, number: int, revision: int) -> None:
        self.say(_header(revision) + protobuf.integer(2, number) + protobuf.integer(3, 1))

    def deleted(self, number: int, revision: int) -> None:
        event = protobuf.integer(1, 1) + protobuf.message(2, protobuf.text(1, KEY))
        self.say(_header(revision) + protobuf.integer(2, number) + protobuf.message(11, event))


def _header(revision: int) -> bytes:
    return protobuf.message(1, protobuf.integer(3, revision))


class Desk:
    """The watches of a client, a cluster, and a clock that the test sets."""

    def __init__(self) -> None:
        self.world = ThreadsWorld()
        self.at = 0.0
        self.world.now = lambda: self.at
        self.cluster = FakeCluster()
        self.watcher = Watches(self.world, self.cluster)
        self.lease = Lease(1, 30.0, 0.0)

    def waits(self, revision: int, key: bytes = KEY, past: bool = False) -> OwnKey:
        """Somebody who has read the queue at a revision, and waits from then on."""
        own = OwnKey("owner", b"seat/2", b"", self.lease, 0.0)
        own.waiting, own.signal = True, self.world.signal()
        assert self.watcher.arm(own, key, revision, past)
        return own


def told(own: OwnKey) -> bool:
    assert own.signal is not None
    return own.signal.is_set()


@pytest.fixture
def desk() -> Desk:
    """Somebody has waited for the key and was told of its deletion at revision 12."""
    desk = Desk()
    own = desk.waits(10)
    desk.cluster.begun(1, 10)
    assert not told(own)
    desk.cluster.deleted(1, 12)
    assert told(own)
    assert desk.cluster.sent == [requests.watch_deletion(1, KEY)]
    return desk


def test_who_waits_for_the_key_again_is_told_without_another_request(desk: Desk) -> None:
    own = desk.waits(14)
    assert len(desk.cluster.sent) == 1
    assert not told(own)
    desk.cluster.deleted(1, 15)
    assert told(own)


def test_what_was_told_before_one_listened_is_not_missed(desk: Desk) -> None:
    """The queue was read, then the key went, and only then somebody came to watch it."""
    assert told(desk.waits(11))
    assert not told(desk.waits(12))


def test_a_watch_that_begins_in_the_past_needs_no_other_look(desk: Desk) -> None:
    own = desk.waits(20, b"other", past=True)
    assert desk.cluster.sent[1:] == [requests.watch_deletion(2, b"other", 21)]
    desk.cluster.begun(2, 30)
    assert not told(own), "whatever happened since will be told"
    desk.cluster.deleted(2, 31)
    assert told(own)


def test_etcd_tells_what_happened_before_the_watch(flavor: str, etcd: Etcd, prefix: str) -> None:
    async def scenario(lab: Lab) -> None:
        client = await lab.connect(etcd.url)
        engine: Any = client._core.engine
        lease = await client.lock(prefix, ttl=60).acquire()
        (mine,) = engine._own_keys.by_owner.values()
        own = OwnKey("owner", b"other", b"", mine.lease, 0.0)
        own.waiting, own.signal = True, engine.world.signal()
        assert await lease.release() is True
        assert engine._watches.arm(own, mine.key, mine.created, past=True)
        await lab.until(lambda: told(own), "word of a deletion before the watch began")
        engine._watches.disarm(own)

    run(flavor, scenario)


def test_two_who_wait_for_one_key_have_a_watch_each(desk: Desk) -> None:
    first, second = desk.waits(14), desk.waits(14)
    assert desk.cluster.sent[1:] == [requests.watch_deletion(2, KEY)]
    desk.cluster.begun(2, 14)
    desk.cluster.deleted(1, 15)
    desk.cluster.deleted(2, 15)
    assert told(first)
    assert told(second)
    assert desk.cluster.sent[2:] == [requests.watch_no_more(2)], "one spare is enough"


def test_a_spare_that_nobody_needs_is_given_up(desk: Desk) -> None:
    desk.cluster.deleted(1, 15)  # others go on without us
    assert desk.cluster.sent[1:] == [requests.watch_no_more(1)]
    desk.waits(15)
    assert desk.cluster.sent[2:] == [requests.watch_deletion(2, KEY)]


def test_a_spare_ends_after_a_while(desk: Desk) -> None:
    desk.at = SPARE_S - 0.1
    desk.watcher.look()
    assert len(desk.cluster.sent) == 1
    desk.at = SPARE_S
    desk.watcher.look()
    assert desk.cluster.sent[1:] == [requests.watch_no_more(1)]


def test_there_are_only_so_many_spares(desk: Desk) -> None:
    for number in range(2, SPARES_MAX + 3):
        desk.waits(20, b"other/%d" % number)
        desk.cluster.deleted(number, 21)
    ended = [
        message
        for message in desk.cluster.sent
        if message == requests.watch_no_more(SPARES_MAX + 1)
    ]
    assert len(desk.watcher._spares) == SPARES_MAX
    assert ended


def test_a_stream_that_broke_leaves_no_spare(desk: Desk) -> None:
    """Nobody tells what happened since: the next one begins anew."""
    desk.cluster.end()
    desk.at = QUIET_S
    own = desk.waits(20)
    assert desk.cluster.sent[1:] == [requests.watch_deletion(2, KEY)]
    desk.cluster.begun(2, 21)
    assert told(own), "the store has moved on between reading and watching"


def test_a_watch_that_the_server_ends_is_no_spare(desk: Desk) -> None:
    own = desk.waits(14)
    desk.cluster.say(_header(15) + protobuf.integer(2, 1) + protobuf.integer(4, 1))
    assert told(own)
    desk.waits(15)
    assert desk.cluster.sent[1:] == [requests.watch_deletion(2, KEY)]


def listens(client: Any) -> bool:
    watches = list(client._core.engine._watches._watching.values())
    return any(watch.own is not None for watch in watches)


def test_workers_that_take_turns_begin_one_watch_each(
    flavor: str, etcd: Etcd, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[bytes] = []
    answered: list[replies.WatchReply] = []
    watch_deletion, read_watch = requests.watch_deletion, replies.read_watch

    def begin(watch: int, key: bytes, since: int) -> bytes:
        begun.append(key)
        return watch_deletion(watch, key, since)

    def read(data: bytes) -> replies.WatchReply:
        news = read_watch(data)
        if news.created:
            answered.append(news)
        return news

    monkeypatch.setattr(requests, "watch_deletion", begin)
    monkeypatch.setattr(replies, "read_watch", read)
    monkeypatch.setattr(watch, "SPARE_S", 60.0)

    async def scenario(lab: Lab) -> None:
        clients = [await lab.connect(f"{etcd.url}?prefix={prefix}") for _ in range(2)]
        lease = await clients[0].lock("seat", ttl=30).acquire()
        for turn in range(1, 9):
            waiting = lab.start(clients[turn % 2].lock("seat", ttl=30).acquire(timeout=30))
            await lab.until(partial(listens, clients[turn % 2]), "a watch", 30)
            await lab.until(lambda: len(answered) == len(begun), "a watch that has begun", 30)
            assert await lease.release() is True
            following = await waiting.result(30)
            assert following.fence > lease.fence
            lease = following
        await lease.release()

    run(flavor, scenario)
    assert len(begun) == len(set(begun)) == 2
