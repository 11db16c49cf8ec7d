"""Fences grow whatever becomes of the item, and no item is for ever."""

from __future__ import annotations

import time
from typing import Any

import pytest

import fencelock
from fencelock.engines.dynamodb.records import KEEP_S
from fencelock.worlds.host import HostWorld
from tests.faults.flavors import Lab, run
from tests.servers.dynalite import Dynalite
from tests.servers.dynamodb import client
from tests.servers.server import until

KEY = {"key": {"S": "seat"}}
TTL_S = 60.0


def item_of(server: Dynalite, table: str) -> dict[str, Any]:
    found = client(server.url).get_item(TableName=table, Key=KEY, ConsistentRead=True)
    return dict(found["Item"])


def test_a_counter_goes_on_after_its_item_was_removed(
    flavor: str, locks_url: str, server: Dynalite, table: str
) -> None:
    """H56: somebody deletes the item, held or released; the holder is told, and fences grow."""

    async def scenario(lab: Lab) -> None:
        one = await lab.connect(locks_url)
        fences = []
        for _ in range(3):
            async with one.lock("seat", ttl=TTL_S) as lease:
                fences.append(lease.fence)
        client(server.url).delete_item(TableName=table, Key=KEY)
        lease = await one.lock("seat", ttl=TTL_S).acquire()
        fences.append(lease.fence)
        client(server.url).delete_item(TableName=table, Key=KEY)
        with pytest.raises(fencelock.LeaseLost):
            await lease.renew()
        async with one.lock("seat", ttl=TTL_S) as lease:
            fences.append(lease.fence)
        assert fences == sorted(set(fences))
        assert fences[1] == fences[0] + 1

    run(flavor, scenario)


def test_fences_grow_although_all_data_is_lost(
    locks_url: str, server: Dynalite, table: str
) -> None:
    """H35: the table is deleted and made anew by the next client that comes."""
    with fencelock.connect(locks_url) as before, before.lock("seat", ttl=TTL_S) as lease:
        first = lease.fence
    asks = client(server.url)
    asks.delete_table(TableName=table)
    until(lambda: table not in asks.list_tables(Limit=100)["TableNames"], "it to be deleted")
    with fencelock.connect(locks_url) as after, after.lock("seat", ttl=TTL_S) as lease:
        assert lease.fence > first


def test_a_clock_that_is_set_back_does_not_take_a_fence_back(
    locks_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H26: the number of an item that is there counts, not the clock."""
    with fencelock.connect(locks_url) as one:
        with one.lock("seat", ttl=TTL_S) as lease:
            first = lease.fence
        monkeypatch.setattr(HostWorld, "wall_us", lambda self: 1_000_000)
        with one.lock("seat", ttl=TTL_S) as lease:
            assert lease.fence == first + 1


def test_every_item_has_an_end(locks_url: str, server: Dynalite, table: str) -> None:
    """DynamoDB deletes by ``expires``, which lies past the lease of whoever holds the item."""
    with fencelock.connect(locks_url) as one:
        with one.lock("seat", ttl=TTL_S) as lease:
            began = time.time()
            held = item_of(server, table)
            assert int(held["expires"]["N"]) > began + TTL_S
            lease.renew(ttl=10 * TTL_S)
            renewed = item_of(server, table)
            assert int(renewed["expires"]["N"]) > began + 10 * TTL_S
            assert renewed["recordVersionNumber"] != held["recordVersionNumber"]
        released = item_of(server, table)
        assert released["fence"] == held["fence"]
        assert "isReleased" in released
        assert began < int(released["expires"]["N"]) <= time.time() + KEEP_S
