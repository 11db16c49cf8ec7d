"""Locks share an etcd lease that may be a tenth of its ttl old: nobody counts on what is over."""

from __future__ import annotations

import json
from typing import Any

from fencelock import aio
from fencelock.worlds import clock
from tests.engines.etcd.test_recipe import engine_of, key_of, lease_of
from tests.faults.flavors import Lab, run
from tests.servers.etcd import Etcd
from tests.servers.service import Service

TTL = 20.0
AGE_S = 1.5  # below a tenth of the ttl, and above a second: etcd tells whole ones


async def left(lab: Lab, etcd: Etcd, key: str) -> float:
    """The seconds at most for which etcd keeps a key unless its lease is extended."""
    asked = ("lease", "timetolive", lease_of(etcd, key), "-w", "json")
    return float(json.loads(etcd.ctl(*asked).stdout)["ttl"]) + 1.0


async def with_a_lease_of_some_age(lab: Lab, client: aio.Client, ttl: float) -> None:
    """Let a client have an etcd lease for this ttl that was granted a while ago."""
    await (await client.lock("warm", ttl=ttl).acquire()).release()
    await lab.let_pass(AGE_S)


def test_a_client_of_the_service_counts_from_the_age_of_the_lease(
    flavor: str, etcd: Etcd, prefix: str
) -> None:
    """The lease is older than its call, and is not extended by it."""
    with Service(etcd.url) as service:

        async def scenario(lab: Lab) -> None:
            client = await lab.connect(service.url)
            await with_a_lease_of_some_age(lab, client, TTL)
            lease = await client.lock(prefix, ttl=TTL, renew=False).acquire()
            (key,) = etcd.keys(f"{prefix}/")
            believed, since = lease.remaining(), clock.now()
            assert believed < await left(lab, etcd, key) + clock.now() - since
            assert lease.ttl == TTL
            assert await lease.release() is True

        run(flavor, scenario)


def test_a_delay_is_kept_to_although_the_lease_is_older(
    flavor: str, etcd: Etcd, prefix: str
) -> None:
    delay = 1.0

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(etcd.url)
        await with_a_lease_of_some_age(lab, client, TTL + delay)
        lease = await client.lock(prefix, ttl=TTL, delay=delay, renew=False).acquire()
        believed, since = lease.remaining(), clock.now()
        kept = await left(lab, etcd, key_of(client, lease))
        assert believed + delay < kept + clock.now() - since
        await lease.release()

    run(flavor, scenario)


def test_a_claim_with_another_fence_leaves_the_key_to_its_owner(
    flavor: str, etcd: Etcd, prefix: str
) -> None:
    """As a delayed copy of an earlier call makes: the key still ends if nobody renews it."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(etcd.url)
        engine: Any = engine_of(client)
        lease = await client.lock(prefix, ttl=60).acquire()
        grant = lease._hold.grant
        for late in (grant._replace(fence=grant.fence - 1), grant._replace(fence=grant.fence + 1)):
            (answer,) = await engine.renew([late])
            assert not hasattr(answer, "fence")
            assert await engine.release(late) is False
        own = engine._own_keys.by_owner[grant.owner]
        assert own.lease.keys[grant.owner] is own, "nobody would delete it at its end"
        await lease.renew()
        assert await lease.release() is True
        assert etcd.keys(f"{prefix}/") == []

    run(flavor, scenario)


def test_a_waiter_whose_lease_ends_as_its_turn_is_confirmed_goes_on(
    flavor: str, etcd: Etcd, prefix: str
) -> None:
    """Between the look that showed its turn and the confirmation, another member took over."""

    async def scenario(lab: Lab) -> None:
        client, rival = await lab.connect(etcd.url), await lab.connect(etcd.url)
        holder = await client.lock(prefix, ttl=60).acquire()
        engine: Any = engine_of(rival)
        look = engine._queue.ahead
        ended: list[Any] = []

        async def ahead(name: str, own: Any) -> Any:
            found = await look(name, own)
            if found.last is None and not ended:
                ended.append(own)
                engine._cluster.epoch += 1
                etcd.ctl("lease", "revoke", own.lease.hex.decode())
            return found

        engine._queue.ahead = ahead
        waiting = lab.start(rival.lock(prefix, ttl=60).acquire(timeout=30))
        await lab.until_queued(client, prefix, 1)
        for lease_of_rival in list(engine._leases._all):
            await engine._leases.extend(lease_of_rival)
        assert await holder.release() is True
        lease = await waiting.result(30)
        assert ended
        assert etcd.keys(f"{prefix}/") == [key_of(rival, lease)]
        assert await lease.release() is True

    run(flavor, scenario)
