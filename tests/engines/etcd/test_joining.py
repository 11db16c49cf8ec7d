"""How many requests it takes to have a lock: one for a free one, and the queue in few words."""

from __future__ import annotations

import time
from typing import Any

import pytest

from fencelock import AcquireTimeout, FencelockError, OutcomeUnknown, aio
from fencelock.engines.etcd import cluster
from fencelock.engines.etcd.engine import CONTENDED_FOR, EtcdEngine
from fencelock.engines.etcd.messages import replies, requests
from fencelock.engines.etcd.wire import WORK
from fencelock.wires.grpc.status import RpcError
from tests.faults.flavors import Lab, run
from tests.servers.etcd import Etcd


def engine_of(client: aio.Client) -> EtcdEngine:
    engine = client._core.engine
    assert isinstance(engine, EtcdEngine)
    return engine


def overhear(client: aio.Client, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, bool]]:
    """Requests of a client from now on, each with whether it did what it was sent for."""
    wire, heard = engine_of(client)._cluster.wire, list[tuple[str, bool]]()
    call = wire.call

    async def listening(*arguments: Any) -> bytes:
        answer = await call(*arguments)
        if arguments[1] == WORK:
            method = arguments[2]
            heard.append((method, method == requests.TXN and replies.succeeded(answer)))
        return answer

    monkeypatch.setattr(wire, "call", listening)
    return heard


def test_a_free_lock_takes_one_request_and_so_does_leaving_it(
    flavor: str, etcd: Etcd, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(lab: Lab) -> None:
        client = await lab.connect(etcd.url)
        kept = await client.lock(f"{prefix}kept", ttl=60).acquire()
        heard = overhear(client, monkeypatch)
        for timeout in (None, 0, 5):
            lease = await client.lock(prefix, ttl=60, timeout=timeout).acquire()
            assert await lease.release() is True
            assert heard == [(requests.TXN, True), (requests.TXN, True)]
            heard.clear()
        assert await kept.release() is True

    run(flavor, scenario)


def test_who_finds_others_joins_in_a_second_request_and_expects_them_from_then_on(
    flavor: str, etcd: Etcd, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(lab: Lab) -> None:
        client, other = await lab.connect(etcd.url), await lab.connect(etcd.url)
        lock, theirs = client.lock(prefix, ttl=60, timeout=30), other.lock(prefix, ttl=60)
        assert await (await lock.acquire()).release() is True
        heard = overhear(client, monkeypatch)

        async def wait_for_it(count: int) -> list[tuple[str, bool]]:
            heard.clear()
            holder = await theirs.acquire()
            waiting = lab.start(lock.acquire())
            await lab.until_queued(other, prefix, 1)
            await lab.until(lambda: len(heard) >= count, "the answer to joining")
            joining = [one for one in heard if one[0] == requests.TXN]
            assert await holder.release() is True
            lease = await waiting.result(30)
            assert lease.fence > holder.fence
            assert await lease.release() is True
            return joining

        assert await wait_for_it(2) == [(requests.TXN, False)] * 2
        assert await wait_for_it(1) == [(requests.TXN, False)]
        for _ in range(CONTENDED_FOR):
            assert await (await lock.acquire()).release() is True
        assert await wait_for_it(2) == [(requests.TXN, False)] * 2

    run(flavor, scenario)


def test_who_does_not_wait_reads_the_first_and_asks_for_the_others_only_where_there_are_some(
    flavor: str, etcd: Etcd, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(lab: Lab) -> None:
        client, other = await lab.connect(etcd.url), await lab.connect(etcd.url)
        kept = await client.lock(f"{prefix}kept", ttl=60).acquire()
        below = await other.lock(f"{prefix}/below", ttl=60).acquire()
        below_too = await other.lock(f"{prefix}/below/that", ttl=60).acquire()
        heard = overhear(client, monkeypatch)

        async def refusal() -> tuple[str, list[str]]:
            heard.clear()
            with pytest.raises(AcquireTimeout) as refused:
                await client.lock(prefix, timeout=0, ttl=60).acquire()
            return str(refused.value), [method for method, _ in heard]

        lock = other.lock(prefix, ttl=60, meta={"job": "nightly"})
        holder = await lock.acquire()
        said, asked = await refusal()
        assert asked == [requests.TXN, requests.RANGE]
        assert "waiting before us" not in said  # who wants names below does not stand before us
        assert await below.release()
        assert await below_too.release()
        said, asked = await refusal()
        assert asked == [requests.TXN]
        assert "job nightly" in said
        assert "waiting before us" not in said
        waiting = lab.start(lock.acquire(timeout=30))
        await lab.until_queued(client, prefix, 1)
        said, asked = await refusal()
        assert asked == [requests.TXN, requests.RANGE]
        assert "job nightly, 1 waiting before us" in said
        assert await holder.release() is True
        assert await (await waiting.result(30)).release() is True
        assert etcd.keys(f"{prefix}/") == []
        assert await kept.release() is True

    run(flavor, scenario)


@pytest.mark.parametrize("code", ["UNAVAILABLE", "DEADLINE_EXCEEDED"])
def test_a_lock_that_was_taken_without_an_answer_is_found_again(
    flavor: str, etcd: Etcd, prefix: str, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    """H13: the request was carried out. Asked again, our own key is no rival's."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(etcd.url)
        kept = await client.lock(f"{prefix}kept", ttl=60).acquire()
        wire, taken = engine_of(client)._cluster.wire, list[int]()
        call = wire.call

        async def unheard(*arguments: Any) -> bytes:
            answer = await call(*arguments)
            if not taken and f"{prefix}0".encode() in arguments[3]:
                taken.append(replies.read_success(answer))
                raise RpcError(code, "on its way back")
            return answer

        monkeypatch.setattr(wire, "call", unheard)
        lease = await client.lock(prefix, ttl=60, timeout=30).acquire()
        assert [lease.fence] == taken
        assert len(etcd.keys(f"{prefix}/")) == 1
        assert await lease.release() is True
        assert etcd.keys(f"{prefix}/") == []
        assert await kept.release() is True

    run(flavor, scenario)


class Script:
    """A wire that refuses once, as it is told, and answers from then on."""

    def __init__(self, refused: RpcError) -> None:
        self._refused = [refused]
        self.heard: list[tuple[int, int, str]] = []
        self.left: list[tuple[int, int]] = []

    async def call(
        self, member: int, channel: int, method: str, request: bytes, within: float, about: Any
    ) -> bytes:
        self.heard.append((member, channel, method))
        if method == requests.TXN and self._refused:
            raise self._refused.pop()
        return b"\x12\x05token" if method == requests.AUTHENTICATE else b"done"

    def leave(self, member: int, channel: int) -> None:
        self.left.append((member, channel))


async def outcome(
    by_the_short_way: bool, user: str | None, code: str, words: str, unsent: bool = False
) -> tuple[object, int, list[tuple[int, int, str]], list[tuple[int, int]]]:
    """What becomes of a transaction whose first try is refused, and where it went meanwhile."""
    wire: Any = Script(RpcError(code, f"it says {words}", unsent))
    way = cluster.Cluster(wire, ["a:1", "b:2", "c:3"], 6.0, time.monotonic, user, "secret")
    await way.call(requests.RANGE, b"")  # logs in
    ended: object
    try:
        if by_the_short_way:
            ended = await way.transact(b"request", time.monotonic())
        else:
            ended = await way.call(requests.TXN, b"request")
    except FencelockError as error:
        ended = (type(error), str(error))
    return ended, way.epoch, wire.heard, wire.left


@pytest.mark.parametrize(("code", "words"), [row[:2] for row in cluster.TABLE], ids=str)
@pytest.mark.parametrize("user", [None, "somebody"])
def test_a_transaction_ends_alike_by_the_short_way_and_the_long_one(
    flavor: str, user: str | None, code: str, words: str
) -> None:
    async def scenario(_: Lab) -> None:
        code_or_any = code or "RESOURCE_EXHAUSTED"
        short = await outcome(True, user, code_or_any, words)
        assert short == await outcome(False, user, code_or_any, words)

    run(flavor, scenario)


@pytest.mark.parametrize("by_the_short_way", [True, False])
def test_what_was_certainly_not_heard_is_sent_to_the_next_member(
    flavor: str, by_the_short_way: bool
) -> None:
    """And nothing else that changes something."""

    async def scenario(lab: Lab) -> None:
        ended, turn, heard, _ = await outcome(by_the_short_way, None, "UNAVAILABLE", "", True)
        assert (ended, turn) == (b"done", 1)
        assert [member for member, _, method in heard if method == requests.TXN] == [0, 1]
        ended, turn, heard, _ = await outcome(by_the_short_way, None, "UNAVAILABLE", "")
        assert isinstance(ended, tuple)
        assert ended[0] is OutcomeUnknown
        assert [member for member, _, method in heard if method == requests.TXN] == [0]

    run(flavor, scenario)
