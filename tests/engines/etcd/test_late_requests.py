"""Requests that went unanswered and take effect after what undid them."""

from __future__ import annotations

import json
import threading
import urllib.request
from base64 import b64encode
from typing import Any

import pytest

from fencelock import OutcomeUnknown, aio
from fencelock.engines.etcd import lease as leases
from fencelock.engines.etcd.engine import EtcdEngine
from fencelock.engines.etcd.messages.requests import TXN
from fencelock.engines.etcd.own_key import OwnKey
from fencelock.engines.etcd.wire import RENEWAL
from fencelock.model import Gone, Grant, Request
from tests.faults.flavors import SOON, Lab, run
from tests.servers.etcd import Etcd

LATE_S = 3.0


def put_late(server: Etcd, key: OwnKey) -> None:
    """Write a key, by way of the JSON gateway: a program of its own may take too long to start."""
    pair = {"key": key.key, "value": key.value}
    body = {name: b64encode(text).decode() for name, text in pair.items()}
    url = f"http://{server.address}/v3/kv/put"
    request = urllib.request.Request(
        url, json.dumps({**body, "lease": key.lease.id}).encode(), method="POST"
    )
    with urllib.request.urlopen(request, timeout=SOON):
        pass


def test_a_key_that_appears_after_a_long_freeze_is_taken_away(
    flavor: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What waits in a frozen server is served when it wakes, in any order, however late."""
    monkeypatch.setattr(leases, "LATE_S", LATE_S)

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(server.url)
        async with client.lock("another", ttl=60):
            pass
        engine = client._core.engine
        assert isinstance(engine, EtcdEngine)
        (lease,) = engine._leases._all
        unanswered = OwnKey("1" * 32, b"seat/" + lease.hex, b"late", lease, 0.0)
        server.pause()
        engine._leases.expect_late(unanswered)
        expected = lease.late_keys.get(unanswered.key)
        await lab.let_pass(1.2 * LATE_S)
        server.resume()
        await lab.until(lambda: lease.late_keys.get(unanswered.key) != expected, "a deletion")
        put_late(server, unanswered)
        await lab.until(lambda: not server.keys("seat/"), "the end of the late key", SOON)
        async with client.lock("seat", timeout=SOON):
            pass

    with Etcd() as server:
        run(flavor, scenario)


TTL_S = 60.0


class HeldUp:
    """Holds up the deletion of a client's keys that are past their end."""

    def __init__(self, lab: Lab, client: aio.Client) -> None:
        self.engine: Any
        self.engine = client._core.engine
        self.begun, self.goes_on, self.done = False, False, False
        self._lab = lab
        self._call = self.engine._cluster.call
        self.engine._cluster.call = self.call

    async def call(self, method: str, request: bytes, **how: Any) -> Any:
        if method != TXN or how.get("channel") != RENEWAL:
            return await self._call(method, request, **how)
        self.begun = True
        await self._lab.until(lambda: self.goes_on, "the owner")
        answer = await self._call(method, request, **how)
        self.done = True
        return answer

    async def begin(self, owner: str) -> None:
        """Have an owner's key be past its end, and its deletion begin."""
        self.engine._own_keys.by_owner[owner].until = 0.0
        await self._lab.until(lambda: self.begun, "a deletion")

    async def go_on(self) -> None:
        self.goes_on = True
        await self._lab.until(lambda: self.done, "the end of the deletion")


def request_of(client: aio.Client, name: str, *, queue: bool = False) -> Request:
    return Request(name, client._core.world.owner(), TTL_S, queue=queue)


def test_a_retry_is_not_deleted_with_the_key_of_the_first_request(
    flavor: str, etcd: Etcd, prefix: str
) -> None:
    """The first request went unanswered for longer than the ttl; the retry is granted."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(etcd.url)
        held_up = HeldUp(lab, client)
        engine, request = held_up.engine, request_of(client, f"{prefix}seat")
        transact = engine._cluster.transact

        async def lost(put: bytes, now: float) -> Any:
            engine._cluster.transact = transact
            raise OutcomeUnknown("no answer")

        engine._cluster.transact = lost
        with pytest.raises(OutcomeUnknown):
            await engine.acquire(request)
        await held_up.begin(request.owner)
        grant = await engine.acquire(request)
        assert isinstance(grant, Grant)
        await held_up.go_on()
        (renewed,) = await engine.renew([grant])
        assert isinstance(renewed, Grant)
        assert await engine.release(grant) is True

    run(flavor, scenario)


def test_what_is_being_deleted_is_not_renewed(flavor: str, etcd: Etcd, prefix: str) -> None:
    """The renewal is answered at the very end of the lease: the key is there for a moment yet."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(etcd.url)
        held_up = HeldUp(lab, client)
        engine, request = held_up.engine, request_of(client, f"{prefix}seat")
        confirmed = engine._leases.extend_confirmed

        async def then_expires(*lease_and_look: Any) -> bytes:
            answer = bytes(await confirmed(*lease_and_look))
            await held_up.begin(request.owner)
            return answer

        grant = await engine.acquire(request)
        engine._leases.extend_confirmed = then_expires
        (answer,) = await engine.renew([grant])
        assert isinstance(answer, Gone)
        assert answer.loss == "expired"
        await held_up.go_on()
        assert not (await engine.inspect(f"{prefix}seat")).holders

    run(flavor, scenario)


def test_a_turn_in_the_queue_that_is_being_deleted_is_not_granted(
    flavor: str, etcd: Etcd, prefix: str
) -> None:
    """A waiter that stood still looks again as its key is deleted: it queues anew."""

    async def scenario(lab: Lab) -> None:
        client, holder = await lab.connect(etcd.url), await lab.connect(etcd.url)
        held_up = HeldUp(lab, client)
        engine, request = held_up.engine, request_of(client, f"{prefix}seat", queue=True)
        lease = await holder.lock(f"{prefix}seat", ttl=TTL_S).acquire()
        assert not isinstance(await engine.acquire(request), Grant)
        await held_up.begin(request.owner)
        await lease.release()
        late = await engine.acquire(request)
        assert late.valid_until <= client._core.world.now()
        await held_up.go_on()
        await engine.withdraw(request)
        grant = await engine.acquire(request)
        assert isinstance(grant, Grant)
        assert await engine.release(grant) is True

    run(flavor, scenario)


def test_a_lease_that_is_being_revoked_as_unused_carries_no_new_key(
    etcd: Etcd, prefix: str
) -> None:
    """A thread has chosen the lease, and has not said so yet, when another revokes it."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(etcd.url)
        engine: Any
        engine = client._core.engine
        request = request_of(client, f"{prefix}seat")
        async with client.lock(f"{prefix}warm", ttl=TTL_S):
            pass
        leases_, take = engine._leases, engine._own_keys.take
        revoke = leases_._revoke
        begun, chosen, done = threading.Event(), threading.Event(), threading.Event()

        async def held_up(lease: Any) -> None:
            begun.set()
            assert chosen.wait(SOON)
            await revoke(lease)
            done.set()

        def then_revoked(wanted: Request, lease: Any) -> Any:
            engine._own_keys.take = take
            lease.used_at -= 2 * leases.IDLE_S
            assert begun.wait(SOON)
            return take(wanted, lease)

        leases_._revoke, engine._own_keys.take = held_up, then_revoked
        grant = await engine.acquire(request)
        chosen.set()
        assert done.wait(SOON)
        assert isinstance(grant, Grant)
        assert grant.valid_until > client._core.world.now()
        assert await engine.release(grant) is True

    run("sync", scenario)
