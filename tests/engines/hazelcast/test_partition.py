"""Three members of which the leader is cut off from the others, and not from its clients.

One story for each flavor, since three Java machines take long to start.
"""

from __future__ import annotations

import pytest

from fencelock import FencelockError, LeaseLost, OutcomeUnknown, Unavailable, aio
from fencelock.worlds import clock
from tests.engines.hazelcast.test_sessions import engine_of, waits
from tests.engines.renewal_retry import until_renewed
from tests.faults.flavors import Lab, run
from tests.servers.hazelcast import Hazelcast, HazelcastCluster, url_at

LONG = 150.0  # seconds: elections on a busy machine, and deadlines that have to pass
SESSION_TTL = 20  # seconds: a lease of as long ends as late as it may


class Tenures:
    """The leases of one name, as they are granted."""

    def __init__(self) -> None:
        self._leases: list[aio.Lease] = []

    def begin(self, lease: aio.Lease) -> None:
        """Note a grant, which has just been told: nobody else believes in an earlier one."""
        assert [one.fence for one in self._leases if one] == []
        assert all(one.fence < lease.fence for one in self._leases)
        self._leases.append(lease)


def members_of(client: aio.Client) -> list[int]:
    """The ports of the members to which a client is connected."""
    manager = engine_of(client)._wire._client._connection_manager
    return [one.remote_address.port for one in [*manager.active_connections.values()]]


async def until_granted(lab: Lab, client: aio.Client, name: str) -> aio.Lease:
    """Acquire as soon as somebody serves it."""
    give_up = clock.now() + LONG
    while True:
        try:
            return await client.lock(name, ttl=SESSION_TTL).acquire(timeout=LONG)
        except (Unavailable, OutcomeUnknown):
            assert clock.now() < give_up
            await lab.let_pass(0.1)


def test_a_leader_that_is_cut_off_grants_and_renews_nothing_and_the_others_serve_on(
    flavor: str,
) -> None:
    """H47, H54: who holds at the minority knows its end before the majority grants to another."""

    async def scenario(lab: Lab) -> None:
        async def reach(*ports: int) -> aio.Client:
            """A client that reaches some members, and no other."""
            url, give_up = f"{url_at(ports)}?smart_routing=no", clock.now() + LONG
            while True:
                try:
                    return await lab.connect(url, request_timeout=3.0, connect_timeout=30.0)
                except Unavailable:  # it was healed just now, and an election is under way
                    assert clock.now() < give_up
                    await lab.let_pass(0.1)

        async def begin_at(node: Hazelcast) -> aio.Client:
            """A client that reaches all members, and has chosen this one."""
            while True:
                client = await reach(*(each.port for each in cluster.nodes))
                if members_of(client) == node.public_ports:
                    return client

        async def take() -> aio.Lease:
            lease = await until_granted(lab, rival, "seat")
            tenures.begin(lease)
            return lease

        async def contend() -> list[int]:
            """Ask the member that is cut off for a lock that is free, again and again."""
            granted = list[int]()
            while not taking.done():
                try:
                    async with outsider.lock("other", ttl=SESSION_TTL) as lease:
                        granted.append(lease.fence)
                except (Unavailable, OutcomeUnknown):
                    await lab.let_pass(0.1)
            return granted

        told, tenures = list[LeaseLost](), Tenures()
        client = await reach(*(node.port for node in cluster.nodes))
        async with client.lock("seat", ttl=SESSION_TTL) as first:  # the group has a leader then
            tenures.begin(first)
        leader = cluster.leader()
        holder, outsider = await reach(leader.port), await reach(leader.port)
        astray = await begin_at(leader)
        rival = await reach(*(node.port for node in cluster.others(leader)))
        async with outsider.lock("other", ttl=SESSION_TTL):
            pass
        old = await holder.lock("seat", ttl=SESSION_TTL, on_lost=told.append).acquire()
        tenures.begin(old)
        assert old.ttl == SESSION_TTL
        taking = lab.start(take())
        await lab.until(lambda: waits(rival), "a waiter")

        cluster.part(leader)
        contending = lab.start(contend())
        lease = await taking.result(LONG)
        assert old.lost.is_set()
        await lab.until(lambda: told, "its holder to be told")
        with pytest.raises(LeaseLost):
            old.check()
        with pytest.raises(LeaseLost):
            await old.renew()
        assert await contending.result(LONG) == []
        other = await until_granted(lab, rival, "other")
        turned = await until_granted(lab, astray, "third")  # it has left the minority by itself
        for name in ("seat", "other", "third"):
            for timeout in (0, 2):
                with pytest.raises((Unavailable, OutcomeUnknown)):
                    await outsider.lock(name, ttl=SESSION_TTL).acquire(timeout=timeout)
        with pytest.raises(FencelockError):
            await holder.holders("seat")
        await until_renewed(lab, lease)
        assert await other.release() is True
        assert await turned.release() is True

        cluster.heal()
        for node in cluster.nodes:
            there = await reach(node.port)
            await until_renewed(lab, lease)
            late = await until_granted(lab, there, "other")
            assert late.fence > other.fence
            assert await late.release() is True
        await until_renewed(lab, lease)
        assert await lease.release() is True
        for client in (holder, rival):
            last = await until_granted(lab, client, "seat")
            tenures.begin(last)
            assert await last.release() is True

    with HazelcastCluster(SESSION_TTL) as cluster:
        cluster.network.members_only = True
        run(flavor, scenario)
