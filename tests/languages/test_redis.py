"""redsync for Go and Redisson for Java share keys with ours: one server, and a majority of three.

They poll, and wake nobody. So they have no place in our queue, and no fence.
"""

from __future__ import annotations

import pytest

import fencelock
from tests.faults.flavors import SOON
from tests.languages.conftest import Start
from tests.languages.programs import ALL, TURNS, TURNS_S, WORKERS, Ours, go, java, take_turns
from tests.languages.register import Register, check_exclusion, check_fences
from tests.servers.maven_programs import REDISSON
from tests.servers.redis import Redis
from tests.servers.redlock import Nodes
from tests.servers.shared import shared

pytestmark = pytest.mark.timeout(2 * TURNS_S)
NAME = "seat"


def single() -> Redis:
    return Redis()


@pytest.fixture
def url() -> str:
    """One server, with a database of the test's own."""
    return shared(single).fresh_url()


@pytest.fixture
def nodes() -> Nodes:
    return shared(Nodes)


def address(url: str) -> str:
    """What the programs want to know."""
    return url.removeprefix("redis://")


def addresses(nodes: Nodes) -> str:
    return ",".join(f"{node.address}/0" for node in nodes.nodes)


def check(register: Register) -> None:
    check_exclusion(register, ALL)
    check_fences([turn for turn in register.history if turn.ours])


def test_one_at_a_time_with_redsync_at_one_server(
    url: str, start: Start, register: Register
) -> None:
    ours = Ours(url)
    theirs = start(go("redsync", "turns", address(url), NAME, register.folder, WORKERS, TURNS))
    take_turns(register, ours, theirs, lambda: ours.poll(register, NAME))
    check(register)


def test_one_at_a_time_with_redsync_by_a_majority(
    nodes: Nodes, start: Start, register: Register
) -> None:
    ours = Ours(nodes.url)
    theirs = start(go("redsync", "turns", addresses(nodes), NAME, register.folder, WORKERS, TURNS))
    take_turns(register, ours, theirs, lambda: ours.record(register, NAME))
    check(register)


def test_one_at_a_time_with_redisson_that_sets_the_key(
    url: str, start: Start, register: Register
) -> None:
    ours = Ours(url)
    words = ("turns", address(url), NAME, register.folder, WORKERS, TURNS)
    theirs = start(java(REDISSON, "RedissonLock", *words))
    take_turns(register, ours, theirs, lambda: ours.poll(register, NAME))
    check(register)


def test_redsync_keeps_us_out_and_we_keep_it_out(nodes: Nodes, start: Start) -> None:
    with fencelock.connect(nodes.url) as client:
        theirs = start(go("redsync", "hold", addresses(nodes), "hold"))
        theirs.hear("held")
        assert client.lock("hold").try_acquire() is None
        theirs.end()
        with client.lock("hold", ttl=60, timeout=SOON) as lease:
            start(go("redsync", "hold", addresses(nodes), "hold"))
            lease.renew()
            lease.check()


def test_an_rlock_of_redisson_is_refused_and_refuses_us(url: str, start: Start) -> None:
    """It is a hash: neither takes the other's for free."""
    with fencelock.connect(url) as client:
        theirs = start(java(REDISSON, "RedissonLock", "rlock", address(url), NAME))
        theirs.hear("held")
        with pytest.raises(fencelock.Misconfigured, match="used by something else"):
            client.lock(NAME).try_acquire()
        theirs.end()
        with client.lock(NAME, ttl=60, timeout=SOON) as lease:
            said = start(java(REDISSON, "RedissonLock", "rlock", address(url), NAME)).fail()
            assert "WRONGTYPE" in said
            lease.renew()


def test_redsync_of_one_node_alone_is_no_majority(nodes: Nodes, start: Start) -> None:
    """It holds at that node, and we at the others: who shares a lock has to name all nodes."""
    with fencelock.connect(nodes.url) as client:
        theirs = start(go("redsync", "hold", f"{nodes.nodes[0].address}/0", "alone"))
        theirs.hear("held")
        with client.lock("alone", ttl=60, timeout=SOON) as lease:
            lease.check()
            theirs.end()  # it was still the owner at its node
