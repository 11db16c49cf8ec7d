"""Nodes of one service that are killed, frozen, rolled or refuse: the locks stay held.

All nodes share a file; each test has its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

import fencelock
from fencelock import Denied, Misconfigured, aio
from fencelock.judge.torture.proxy import Proxy
from fencelock.model import Grant, Request
from fencelock.testing.conformance.context import core_of, engine_of
from tests.engines.http.answers import Said, Stub, problem, stub
from tests.faults.flavors import Lab, run
from tests.servers.redis import Redis
from tests.servers.service import Service, Services

LONG_S = 60.0


@pytest.fixture
def nodes() -> Iterator[Services]:
    with Services() as found:
        yield found


async def contend(client: aio.Client, fences: list[int], times: int) -> None:
    """Take a lock so many times, and note the fences."""
    for _ in range(times):
        async with client.lock("a", ttl=LONG_S, timeout=LONG_S) as lease:
            fences.append(lease.fence)


def test_a_lease_outlives_the_node_that_granted_it(flavor: str, nodes: Services) -> None:
    """H76: whoever holds it renews and releases it at another node."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(nodes.url)
        lease = await client.lock("a", ttl=LONG_S).acquire()
        nodes.nodes[0].kill()
        await lease.renew()
        assert lease
        other = await lab.connect(nodes.url)
        assert await other.lock("a", ttl=LONG_S).try_acquire() is None
        assert await lease.release() is True
        again = await other.lock("a", ttl=LONG_S).acquire()
        assert again.fence > lease.fence
        await again.release()

    run(flavor, scenario)


def test_who_waits_goes_on_at_another_node(flavor: str, nodes: Services) -> None:
    """H76: its place in the queue is the engine's."""
    first, second = nodes.nodes

    async def scenario(lab: Lab) -> None:
        holder = await lab.connect(second.url)
        lease = await holder.lock("a", ttl=LONG_S).acquire()
        waiter, late = await lab.connect(nodes.url), await lab.connect(second.url)
        fences: list[int] = []
        jobs = [lab.start(contend(waiter, fences, 1))]
        await lab.until_queued(holder, "a", 1)
        jobs.append(lab.start(contend(late, fences, 1)))
        await lab.until_queued(holder, "a", 2)
        first.kill()
        await lease.release()
        for job in jobs:
            await job.result(2 * LONG_S)
        assert len({lease.fence, *fences}) == 3

    run(flavor, scenario)


def test_nodes_are_rolled_under_holders_and_waiters(flavor: str, nodes: Services) -> None:
    """H76: each is stopped and started again meanwhile: no grant is lost or doubled."""

    async def scenario(lab: Lab) -> None:
        clients = [await lab.connect(nodes.url) for _ in range(3)]
        kept = await clients[0].lock("kept", ttl=LONG_S).acquire()
        fences: list[int] = []
        turns = [0 for _ in clients]

        async def take_turns(number: int) -> None:
            for _ in range(20):
                await contend(clients[number], fences, 1)
                turns[number] += 1

        jobs = [lab.start(take_turns(number)) for number in range(len(clients))]

        def all_went_on(before: list[int]) -> bool:
            now = zip(jobs, before, turns, strict=True)
            return all(job.done() or turn > earlier for job, earlier, turn in now)

        for node in nodes.nodes:
            # A call that one node has refused before it stopped may come to the other only now:
            # in asyncio, nobody goes on while this starts a node.
            await lab.until(partial(all_went_on, list(turns)))
            node.restart()
        for job in jobs:
            await job.result(2 * LONG_S)
        assert fences == sorted(set(fences))
        assert len(fences) == 60
        kept.check()
        assert await kept.release() is True

    run(flavor, scenario)


def test_a_frozen_node_is_left(flavor: str, nodes: Services) -> None:
    """H77: what was sent to it may have been served: the same owner finds that at the other."""
    first, _ = nodes.nodes

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(nodes.url, request_timeout=1)
        await (await client.lock("warm", ttl=LONG_S).acquire()).release()
        first.pause()
        try:
            lease = await client.lock("a", ttl=LONG_S).acquire(timeout=30)
        finally:
            first.resume()
        late = await lab.connect(first.url)  # served after what the node had not read yet
        assert await late.lock("a", ttl=LONG_S).try_acquire() is None
        assert await lease.release() is True

    run(flavor, scenario)


def test_a_node_without_its_engine_is_left(flavor: str, tmp_path: Path) -> None:
    """H78: a node that is cut off from its store says so, and the other serves."""

    async def scenario(lab: Lab) -> None:
        with (
            Redis() as redis,
            Proxy(redis.port, "127.0.0.1") as proxy,
            Service(f"redis://127.0.0.1:{proxy.port}?request_timeout=3") as cut,
            Service(redis.url) as whole,
        ):
            client = await lab.connect(f"{cut.url},{whole.address}")
            lease = await client.lock("a", ttl=LONG_S).acquire()
            proxy.cut()
            await lease.renew()
            async with client.lock("b", ttl=LONG_S, timeout=LONG_S):
                pass
            proxy.heal()
            assert await lease.release() is True

    run(flavor, scenario)


def test_who_is_gone_while_it_waits_keeps_nobody_out(flavor: str, nodes: Services) -> None:
    """H75: its connections end, and it says nothing more."""

    async def scenario(lab: Lab) -> None:
        holder, gone = await lab.connect(nodes.url), await lab.connect(nodes.url)
        lease = await holder.lock("a", ttl=LONG_S).acquire()
        request, signal = Request("a", "0" * 32, LONG_S, queue=True), core_of(gone).world.signal()
        await engine_of(gone).watch(request, signal)
        await engine_of(gone).acquire(request)
        await lab.until_queued(holder, "a", 1)
        engine_of(gone).close_nowait()
        waiting = lab.start(holder.lock("a", ttl=LONG_S, timeout=LONG_S).acquire())
        await lab.until_queued(holder, "a", 2)
        await lease.release()
        await (await waiting.result(LONG_S)).release()

    run(flavor, scenario)


def test_a_call_that_comes_twice_is_one_attempt(flavor: str, nodes: Services) -> None:
    """H80: at whichever node; and a copy that comes late takes nothing."""

    async def scenario(lab: Lab) -> None:
        first, second = [await lab.connect(node.url) for node in nodes.nodes]
        request = Request("a", "0" * 32, LONG_S)
        grants = [await engine_of(client).acquire(request) for client in (first, first, second)]
        fences = {grant.fence for grant in grants if isinstance(grant, Grant)}
        assert len(fences) == 1
        assert isinstance(grants[0], Grant)
        assert await engine_of(first).release(grants[0]) is True
        stranger = await lab.connect(nodes.nodes[0].url)
        with pytest.raises(fencelock.Unavailable, match="taken back before"):
            await engine_of(stranger).acquire(request)  # as a copy that was under way
        assert (await first.inspect("a")).holders == ()
        again = await engine_of(first).acquire(request)  # its owner tries once more
        assert isinstance(again, Grant)
        assert again.fence not in fences
        await engine_of(first).release(again)

    run(flavor, scenario)


def test_a_dead_node_costs_nothing_at_the_beginning(flavor: str, nodes: Services) -> None:
    first, _ = nodes.nodes
    first.kill()

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(nodes.url)
        async with client.lock("a", ttl=LONG_S):
            pass

    run(flavor, scenario)


def test_a_node_that_says_that_nothing_happened_is_followed_by_the_next(
    flavor: str, peer: Stub
) -> None:
    """Any other answer is the answer: nothing is sent twice that may have happened."""

    async def scenario(lab: Lab) -> None:
        with stub() as other:
            client = await lab.connect(f"{peer.url},{other.url.removeprefix('http://')}")
            await core_of(client).ready()
            lease = Said(200, {"schema": 1, "fence": 7, "ttl": 600.0, "waited": 0.0})
            other.say("/v1/acquire", lease)
            peer.say("/v1/acquire", problem(503, "draining"))
            answer = await engine_of(client).acquire(Request("a", "0" * 32, 10.0))
            assert isinstance(answer, Grant)
            other.say("/v1/acquire", Said(503, b"busy", "text/plain"))
            with pytest.raises(fencelock.OutcomeUnknown):
                await engine_of(client).acquire(Request("a", "0" * 32, 10.0))
            asked = [path for path, *_ in (*peer.asked, *other.asked)]
            assert asked.count("/v1/acquire") == 3

    run(flavor, scenario)


def test_each_node_is_asked_once_whatever_other_calls_meet(flavor: str, peer: Stub) -> None:
    """Others leave nodes meanwhile: which one serves the next call is no word on this one."""

    async def scenario(lab: Lab) -> None:
        with stub() as second, stub() as third:
            others = [one.url.removeprefix("http://") for one in (second, third)]
            client = await lab.connect(",".join([peer.url, *others]))
            await core_of(client).ready()
            replicas = engine_of(client)._replicas  # type: ignore[attr-defined]
            draining = problem(503, "draining")

            def answer_late(_: object) -> Said:
                replicas._nodes._current = 0  # as two other calls would have it by now
                return draining

            peer.say("/v1/acquire", draining)
            second.answers["/v1/acquire"] = answer_late
            third.say(
                "/v1/acquire", Said(200, {"schema": 1, "fence": 7, "ttl": 600.0, "waited": 0.0})
            )
            answer = await engine_of(client).acquire(Request("a", "0" * 32, 10.0))
            assert isinstance(answer, Grant)

    run(flavor, scenario)


@pytest.mark.parametrize("said", ["internal", "outcome-unknown", "proxy"])
def test_a_node_that_does_not_know_is_left_and_not_asked_again_unasked(
    flavor: str, peer: Stub, said: str
) -> None:
    """The caller asks again, and that goes to the next node."""
    unknown = {
        "internal": problem(500, "internal"),
        "outcome-unknown": problem(504, "outcome-unknown"),
        "proxy": Said(502, b"<h1>Bad Gateway</h1>", "text/html"),
    }[said]

    async def scenario(lab: Lab) -> None:
        with stub() as other:
            client = await lab.connect(f"{peer.url},{other.url.removeprefix('http://')}")
            lease = Said(200, {"schema": 1, "fence": 7, "ttl": 600.0, "waited": 0.0})
            for node in (peer, other):
                node.say("/v1/acquire", lease)
                node.say("/v1/renew", unknown)
                node.say("/v1/release", Said(200, {"schema": 1, "leases": [{"released": True}]}))
            held = await client.lock("a", ttl=LONG_S).acquire()
            with pytest.raises(fencelock.OutcomeUnknown, match=peer.url.removeprefix("http://")):
                await held.renew()
            assert "/v1/renew" not in [path for path, *_ in other.asked]
            renewal = {"held": True, "ttl": LONG_S}
            other.say("/v1/renew", Said(200, {"schema": 1, "leases": [renewal]}))
            await held.renew()
            held.check()
            assert [path for path, *_ in peer.asked].count("/v1/renew") == 1
            await held.release()
            assert other.asked[-1][0] == "/v1/release"

    run(flavor, scenario)


def test_all_who_wait_share_one_poll(flavor: str, tmp_path: Path) -> None:
    """However many wait, for however many locks: the node sees few connections."""
    count = 40

    async def scenario(lab: Lab) -> None:
        with Service(folder=tmp_path) as node:
            holder, client = await lab.connect(node.url), await lab.connect(node.url)
            leases = [await holder.lock(f"l{n}", ttl=LONG_S).acquire() for n in range(count)]
            jobs = [
                lab.start(client.lock(f"l{n}", ttl=LONG_S, timeout=LONG_S).acquire())
                for n in range(count)
            ]
            for number in range(count):
                await lab.until_queued(holder, f"l{number}", 1)
            pools = engine_of(client)._replicas._nodes._pools  # type: ignore[attr-defined]
            polls = pools[0, "polls"]
            assert len(polls._members._taken) <= 2
            for lease in leases:
                await lease.release()
            for job in jobs:
                await (await job.result(LONG_S)).release()
            assert len(polls._members._taken) <= 2

    run(flavor, scenario)


def test_a_token_that_is_replaced_is_read_again(flavor: str, peer: Stub, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("first-token")

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(peer.url, token_file=str(file))
        await core_of(client).ready()
        file.write_text("second-token")
        peer.say("/v1/inspect", problem(401, "unauthorized"))
        with pytest.raises(Denied, match="token_file"):
            await client.inspect("a")
        state = {"schema": 1, "name": "a", "holders": [], "waiters": [], "limit": None}
        peer.say("/v1/inspect", Said(200, state))
        await client.inspect("a")
        sent = [headers["authorization"] for _, _, headers in peer.asked]
        assert sent == ["Bearer first-token"] * 2 + ["Bearer second-token"]

    run(flavor, scenario)


def test_tls_is_checked(flavor: str, tmp_path: Path) -> None:
    async def scenario(lab: Lab) -> None:
        with Service(folder=tmp_path, tls=True) as node:
            with pytest.raises(Misconfigured, match="ca="):
                await core_of(await lab.connect(node.url)).ready()
            other = node.url.replace("127.0.0.1", "127.0.0.2")
            certificate = str(node.certificate)
            with pytest.raises((Misconfigured, fencelock.Unavailable)):
                await core_of(await lab.connect(other, ca=certificate)).ready()
            client = await lab.connect(node.url, ca=certificate)
            async with client.lock("a", ttl=LONG_S):
                pass
            local = node.url.replace("127.0.0.1", "localhost")
            async with (await lab.connect(local, ca=certificate)).lock("a", ttl=LONG_S):
                pass

    run(flavor, scenario)
