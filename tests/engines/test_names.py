"""Names that look like keys, folders or contenders of other locks are locks of their own, and the
same place by two addresses is one lock."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import pytest

import fencelock
from fencelock import Misconfigured
from tests.servers.consul import Consul
from tests.servers.etcd import Etcd
from tests.servers.firestore import Firestore
from tests.servers.hazelcast import Hazelcast
from tests.servers.shared import shared
from tests.servers.spanner import Spanner
from tests.servers.zookeeper import ZooKeeper

_number = count()
NUMBER = "0000000007"
NAMES = (
    *("a", "a/b", "a/b/c", "a/", "a//", "a//b", "/", "/a", "a0", "a/0", "a-1", "."),
    *("lock:a", "memo:a", "a~sb", "a memo", "__a__"),
    *(f"a/lock-{NUMBER}", f"a/x__lock__{NUMBER}", "a/%", "a/%2F", "zookeeper", "zookeeper/a"),
)


WHERE: dict[str, Callable[[], str]] = {
    "consul": lambda: shared(Consul).fresh_url(),
    "etcd": lambda: f"{shared(Etcd).url}?prefix=names-{next(_number)}/",
    "hazelcast": lambda: shared(Hazelcast).fresh_url(),
    "zookeeper": lambda: shared(ZooKeeper).fresh_url(),
    "firestore": lambda: shared(Firestore).fresh_url(),
    "spanner": lambda: shared(Spanner).fresh_url(),
}


@pytest.mark.parametrize("engine", WHERE)
def test_names_that_lie_within_each_other_do_not_meet(engine: str) -> None:
    url = WHERE[engine]()
    with fencelock.connect(url) as one, fencelock.connect(url) as other:
        probe = one.lock("a", ttl=60).acquire()
        names = [*NAMES]
        if engine == "etcd":  # what the key of the holder of "a" ends with, and that of the next
            lease = shared(Etcd).keys(url.partition("prefix=")[2] + "a/")[0].rpartition("/")[2]
            names += [f"a/{lease}", f"a/{lease}-1", f"a/{lease}/{lease}"]
        assert probe.release()
        leases = [one.lock(name, ttl=60).acquire(timeout=5) for name in names]
        for name in names:
            assert other.lock(name).try_acquire() is None, name
            assert len(other.inspect(name).holders) == 1, name
            assert other.inspect(name).waiters == (), name
        if other.traits.scan:
            assert sorted(held.name for held in other.scan("")) == sorted(names)
        for lease_ in reversed(leases):
            assert lease_.release()
            again = other.lock(lease_.name).try_acquire()
            assert again is not None, lease_.name
            assert again.fence > lease_.fence
            assert again.release()
        assert not any(other.holders(name) for name in names)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("?prefix=p{}", "/a/b"), ("?prefix=p{}/", "a/b")),
        (("?prefix=p{}/", "a/b"), ("?prefix=p{}/a/", "b")),
        (("?prefix=p{}/", "a"), ("", "p{}/a")),
    ],
)
def test_one_place_in_etcd_is_one_lock_by_any_prefix(
    one: tuple[str, str], other: tuple[str, str]
) -> None:
    _see_one_lock(shared(Etcd).url, one, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("/r{}", "a/b"), ("/r{}/", "a/b")),
        (("/r{}", "a/b"), ("/r{}/a", "b")),
        (("//r{}//a/", "b"), ("/", "r{}/a/b")),
    ],
)
def test_one_place_in_zookeeper_is_one_lock_by_any_root(
    one: tuple[str, str], other: tuple[str, str]
) -> None:
    _see_one_lock(f"zookeeper://{shared(ZooKeeper).address}", one, other)


def _see_one_lock(url: str, one: tuple[str, str], other: tuple[str, str]) -> None:
    number = next(_number)
    (place, name), (place_too, name_too) = [
        [part.format(number) for part in each] for each in (one, other)
    ]
    with fencelock.connect(url + place) as first, fencelock.connect(url + place_too) as second:
        held = first.lock(name, ttl=60).acquire()
        assert second.lock(name_too).try_acquire() is None
        assert held.release()
        later = second.lock(name_too, ttl=60).acquire(timeout=5)
        assert later.fence > held.fence
        assert first.lock(name).try_acquire() is None
        assert later.release()


@pytest.mark.parametrize("root", [f"a/lock-{NUMBER}", f"x__lock__{NUMBER}/a", "zookeeper/a"])
def test_a_root_that_would_be_taken_for_a_contender_is_refused(root: str) -> None:
    with pytest.raises(Misconfigured, match="Choose another"):
        fencelock.connect(f"zookeeper://127.0.0.1:1/{root}").open()
