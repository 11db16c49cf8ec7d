"""The service over stores that several machines share: one queue, and two nodes of it."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from tests.cli.program import Program
from tests.servers.etcd import Etcd
from tests.servers.postgresql import Postgresql
from tests.servers.redis import Redis
from tests.servers.shared import shared
from tests.service.nodes import Node, answer_of, new_id

STORES: dict[str, Callable[[], str]] = {
    "redis": lambda: shared(Redis).url,
    "postgresql": lambda: shared(Postgresql).url(),
    "etcd": lambda: shared(Etcd).url,
}


@pytest.fixture(params=STORES)
def two(request: pytest.FixtureRequest, program: Program) -> tuple[Node, Node]:
    url = STORES[request.param]()
    first, second = (Node(program, "--insecure", "--drain", "0s", url=url) for _ in range(2))
    return first, second


def test_a_lock_is_handed_on_between_nodes(two: tuple[Node, Node]) -> None:
    first, second = two
    name = f"service-{new_id()}"
    lease = first.acquire(name, ttl=60)
    waiting = second.begin("acquire", {"name": name, "wait": 55, "ttl": 60})
    first.queue(name, 1)
    assert second.release(lease) == [True]
    got = answer_of(waiting)
    assert got.body["fence"] > lease["fence"]
    assert first.renew(got.body)[0]["held"] is True
    assert first.release(got.body) == [True]


def test_a_ghost_never_gets_a_lock(two: tuple[Node, Node]) -> None:
    first, second = two
    name = f"service-{new_id()}"
    lease, ghost = first.acquire(name, ttl=60), {"name": name, "id": new_id(), "ttl": 600}
    cut_off = first.begin("wait", {"inbox": "i", "wants": [ghost]})
    first.queue(name, 1)
    alive = second.begin("acquire", {"name": name, "wait": 55, "ttl": 60})
    first.queue(name, 2)
    cut_off.close()
    first.release(lease)
    got = answer_of(alive)
    assert got.status == 200, got
    assert second.renew(got.body)[0]["held"] is True


def test_a_poll_that_moves_to_another_node_keeps_its_lock(two: tuple[Node, Node]) -> None:
    first, second = two
    name = f"service-{new_id()}"
    lease, mine = first.acquire(name, ttl=60), {"name": name, "id": new_id(), "ttl": 600}
    ended = first.call("wait", {"inbox": "i", "wants": [mine], "hold": 0.2})
    assert ended.body["granted"] == []
    moved = second.begin("wait", {"inbox": "i", "wants": [mine]})
    first.release(lease)
    (granted,) = answer_of(moved).body["granted"]
    for _ in range(12):  # longer than a ticket is kept
        assert first.call("acquire", {"name": name}).status == 409
        time.sleep(1.0)
    assert second.renew(granted)[0]["held"] is True
