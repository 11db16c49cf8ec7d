"""Requests that went unanswered and take effect after what undid them."""

from __future__ import annotations

import json
import urllib.request
from base64 import b64encode

import pytest

from fencelock.engines.etcd import lease as leases
from fencelock.engines.etcd.engine import EtcdEngine
from fencelock.engines.etcd.own_key import OwnKey
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
