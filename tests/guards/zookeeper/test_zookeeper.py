"""The guard for nodes of ZooKeeper, on a real server and over kazoo."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError
from kazoo.retry import KazooRetry
from kazoo.security import make_acl

from fencelock.errors import (
    Denied,
    EngineError,
    OutcomeUnknown,
    StaleFence,
    Unavailable,
    UsageError,
)
from fencelock.guards import zookeeper
from fencelock.guards.fence import Fenced
from fencelock.guards.zookeeper import ZooKeeperGuard
from tests.guards.contract import NAME, Desk, every_check
from tests.servers.link import TO_CLIENT
from tests.servers.proxy import Proxy
from tests.servers.server import until
from tests.servers.shared import shared
from tests.servers.zookeeper import ZooKeeper

_number = itertools.count()


@pytest.fixture(scope="module")
def zk() -> Iterator[Any]:
    with _client(shared(ZooKeeper).port) as client:
        yield client


@pytest.fixture
def root(zk: Any) -> str:
    path = f"/guard-{next(_number)}"
    zk.create(path)
    return path


@contextmanager
def _client(port: int) -> Iterator[Any]:
    logging.getLogger("kazoo").setLevel(logging.CRITICAL)  # it logs what the tests do to it
    client = KazooClient(f"127.0.0.1:{port}", timeout=30, connection_retry=KazooRetry(max_tries=-1))
    client.start(30)
    try:
        yield client
    finally:
        client.stop()
        client.close()


class ZooKeeperDesk:
    def __init__(self, zk: Any, root: str, epoch: int = 0) -> None:
        self._zk, self._root = zk, root
        self.path = f"{root}/value"
        self.guard = ZooKeeperGuard(zk, f"{root}/marks", epoch=epoch)

    def enter(
        self, lease: Fenced | int, name: str | None = None, reading: bool = False
    ) -> str | None:
        return _text(self.guard.enter(lease, self.path, name=name, reading=reading)[self.path])

    def write(self, value: str, lease: Fenced | int, name: str | None = None) -> None:
        do = self.guard.set if self._zk.exists(self.path) else self.guard.create
        do(self.path, value.encode(), lease, name=name)

    def read(self) -> str | None:
        return _text(self._zk.get(self.path)[0] if self._zk.exists(self.path) else None)

    def mark(self, reading: bool = False) -> int:
        return self.guard.mark(NAME, reading=reading)

    def reset(self, to: int = 0) -> None:
        self.guard.reset(NAME, to)

    def at(self, epoch: int) -> ZooKeeperDesk:
        return ZooKeeperDesk(self._zk, self._root, epoch)


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode()


@every_check
def test_the_contract(check: Callable[[Desk], None], zk: Any, root: str) -> None:
    check(ZooKeeperDesk(zk, root))


def test_several_nodes_change_together_or_not_at_all(zk: Any, root: str) -> None:
    guard = ZooKeeperGuard(zk, f"{root}/marks")
    a, b = f"{root}/a", f"{root}/b"
    zk.create(a, b"1")

    def both(transaction: Any) -> None:
        transaction.set_data(a, b"2")
        transaction.create(b, b"new")

    guard.commit(both, 5, name=NAME)
    with pytest.raises(StaleFence):
        guard.commit(lambda transaction: transaction.delete(a), 4, name=NAME)
    assert guard.enter(5, a, b, name=NAME) == {a: b"2", b: b"new"}
    guard.delete(b, 5, name=NAME)
    assert guard.enter(5, a, b, name=NAME) == {a: b"2", b: None}


def test_what_zookeeper_refuses_is_kazoos_own_error_and_moves_no_mark(zk: Any, root: str) -> None:
    guard = ZooKeeperGuard(zk, f"{root}/marks")
    guard.enter(5, name=NAME)
    with pytest.raises(NoNodeError):
        guard.set(f"{root}/nowhere", b"x", 6, name=NAME)
    assert guard.mark(NAME) == 5


@pytest.mark.parametrize("operation", ["enter", "set"])
def test_whoever_comes_in_between_is_noticed(zk: Any, root: str, operation: str) -> None:
    """The other raises the mark when ours was read and judged, and before our transaction."""
    desk, other = ZooKeeperDesk(zk, root), ZooKeeperDesk(zk, root)
    desk.write("a", 5, NAME)
    came = list[str]()

    def intrude(transaction: Any) -> None:
        if not came:
            came.append("once")
            other.write("b", 7, NAME)
        if operation == "set":
            transaction.set_data(desk.path, b"late")

    with pytest.raises(StaleFence) as caught:
        desk.guard.commit(intrude, 6, name=NAME)
    assert caught.value.highest == 7
    assert (desk.read(), desk.mark()) == ("b", 7)


def test_a_read_is_of_the_moment_in_which_the_mark_was_raised(zk: Any, root: str) -> None:
    """An older holder writes between our reading and our transaction: we read again."""
    desk, older = ZooKeeperDesk(zk, root), ZooKeeperDesk(zk, root)
    older.write("a", 5, NAME)
    read, came = desk.guard._read, list[str]()

    def read_and_be_overtaken(path: str) -> Any:
        found = read(path)
        if path == desk.path and not came:
            came.append("once")
            older.write("b", 5, NAME)
        return found

    desk.guard._read = read_and_be_overtaken  # type: ignore[method-assign]
    assert desk.enter(6, NAME) == "b"


def test_a_crowd_that_never_lets_us_in_is_told(
    zk: Any, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zookeeper, "ATTEMPTS_MAX", 3)
    desk, other = ZooKeeperDesk(zk, root), ZooKeeperDesk(zk, root)
    with pytest.raises(Unavailable, match="try again"):
        desk.guard.commit(lambda _: other.enter(5, NAME), 5, name=NAME)


@pytest.mark.parametrize("name", [".", "..", "a/b", "zookeeper", "ä ☃", "%2E", "x" * 512])
def test_names_are_kept_apart(zk: Any, root: str, name: str) -> None:
    guard = ZooKeeperGuard(zk, root)
    guard.enter(5, name="a")
    guard.enter(3, name=name)
    assert guard.mark(name) == 3
    assert len(zk.get_children(root)) == 2


def test_old_marks_are_forgotten_and_young_ones_are_not(
    zk: Any, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    guard = ZooKeeperGuard(zk, f"{root}/marks")
    assert guard.forget(1) == 0  # there is not even a root
    guard.enter(5, name="a")
    guard.enter(5, name="b")
    assert guard.forget(3600) == 0
    monkeypatch.setattr("time.time", lambda: 4e9)
    assert guard.forget(3600) == 2
    assert guard.mark("a") == 0
    guard.enter(1, name="a")  # which is the price


def test_a_mark_that_was_raised_meanwhile_is_not_forgotten(
    zk: Any, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    guard = ZooKeeperGuard(zk, root)
    guard.enter(5, name=NAME)
    remove = guard._remove

    def raised_first(path: str, version: int) -> bool:
        ZooKeeperGuard(zk, root).enter(6, name=NAME)
        return remove(path, version)

    monkeypatch.setattr(guard, "_remove", raised_first)
    monkeypatch.setattr("time.time", lambda: 4e9)
    assert guard.forget(1) == 0
    assert guard.mark(NAME) == 6


def test_a_client_without_a_connection_does_nothing() -> None:
    guard = ZooKeeperGuard(KazooClient("127.0.0.1:1"))
    for call in (
        lambda: guard.enter(1, name=NAME),
        lambda: guard.set("/x", b"", 1, name=NAME),
        lambda: guard.mark(NAME),
        lambda: guard.reset(NAME),
        lambda: guard.reset(NAME, 3),
        lambda: guard.forget(1),
    ):
        with pytest.raises(Unavailable) as caught:
            call()
        assert not caught.value.may_have_happened


def test_a_lost_answer_leaves_the_outcome_unknown(root: str) -> None:
    with Proxy(shared(ZooKeeper).port) as proxy:
        with _client(proxy.port) as client:
            desk = ZooKeeperDesk(client, root)
            desk.write("a", 5, NAME)
            guard = ZooKeeperGuard(client, f"{root}/marks", request_timeout=2)

            def send_and_hear_nothing(transaction: Any) -> None:
                transaction.set_data(desk.path, b"b")
                proxy.block(TO_CLIENT)

            with pytest.raises(OutcomeUnknown) as caught:
                guard.commit(send_and_hear_nothing, 6, name=NAME)
            assert caught.value.may_have_happened
            with pytest.raises(Unavailable):
                guard.mark(NAME)
            proxy.heal()
            until(lambda: desk.read() == "b", "the write to have landed")
            assert desk.mark() == 6


def test_a_node_that_we_may_not_write_is_denied(zk: Any, root: str) -> None:
    read_only = make_acl("world", "anyone", read=True)
    zk.create(f"{root}/marks", acl=[read_only])
    guard = ZooKeeperGuard(zk, f"{root}/marks")
    with pytest.raises(Denied):
        guard.enter(1, name=NAME)


def test_a_foreign_value_in_the_place_of_a_mark_stops_everybody(zk: Any, root: str) -> None:
    guard = ZooKeeperGuard(zk, root)
    zk.create(f"{root}/a", b"zzz")
    with pytest.raises(EngineError, match="no guard wrote"):
        guard.enter(5, name="a")


@pytest.mark.parametrize(
    "call",
    [
        lambda _: ZooKeeperGuard("localhost:2181"),
        lambda zk: ZooKeeperGuard(zk, "marks"),
        lambda zk: ZooKeeperGuard(zk, "/"),
        lambda zk: ZooKeeperGuard(zk, epoch=-1),
        lambda zk: ZooKeeperGuard(zk).enter(1, name="lone \ud800"),
        lambda zk: ZooKeeperGuard(zk).mark(""),
        lambda zk: ZooKeeperGuard(zk).reset(NAME, -1),
        lambda zk: ZooKeeperGuard(zk).forget(-1),
    ],
)
def test_mistakes_are_told(call: Callable[[Any], object], zk: Any) -> None:
    with pytest.raises(UsageError):
        call(zk)
