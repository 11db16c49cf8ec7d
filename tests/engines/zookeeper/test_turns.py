"""Clients that take turns wait for the one right before them, whatever happened meanwhile."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engines.zookeeper.contenders import NAME, queue_up
from tests.engines.zookeeper.tree import folder
from tests.faults.flavors import Lab, run
from tests.servers.zookeeper import ZooKeeper

TURN = ["Create2", "GetChildren", "GetData", "GetChildren", "Delete"]


@pytest.mark.parametrize("count", [3, 5])
def test_a_turn_in_a_ring_costs_five_requests(flavor: str, count: int, server: ZooKeeper) -> None:
    """Create and list, watch the one before, list again when that goes, delete."""

    async def scenario(lab: Lab) -> None:
        ring = await queue_up(lab, server.fresh_url(), count)
        fences: list[int] = []
        for turn in range(3 * count):
            contender, following = ring[turn % count], ring[(turn + 1) % count]
            assert contender.lease is not None
            fences.append(contender.lease.fence)
            before = ring[turn % count - 1].child if turn else ""
            await contender.leave()
            if turn:
                assert contender.sent == TURN
            await following.hold()
            await contender.join()
            if turn:
                assert contender.watched == [before]
        assert fences == sorted(fences)
        await ring[0].leave()
        for contender in ring[1:]:
            await (await contender.hold()).release()

    run(flavor, scenario)


@pytest.mark.parametrize("kind", ["kazoo", "curator", "plain"])
def test_a_stranger_that_came_meanwhile_is_waited_for(
    flavor: str, kind: str, server: ZooKeeper, kazoo: Any
) -> None:
    url = server.fresh_url()
    prefix = {"kazoo": f"{'a' * 32}__lock__", "curator": f"_c_{'b' * 36}-lock-", "plain": "lock-"}

    async def scenario(lab: Lab) -> None:
        first, second, third = await queue_up(lab, url, 3)
        await first.leave()
        await second.hold()
        path = f"{folder(url, NAME)}/{prefix[kind]}"
        theirs = kazoo.create(path, b"", ephemeral=True, sequence=True)
        await second.leave()
        await third.hold()
        await second.join()
        assert second.watched == [theirs.rpartition("/")[2]]
        await third.leave()
        await lab.let_pass(0.1)  # a wrong grant would come at once
        assert second.is_waiting()
        kazoo.delete(theirs)
        await (await second.hold()).release()

    run(flavor, scenario)


def test_the_same_name_in_a_folder_made_anew_is_waited_for(
    flavor: str, server: ZooKeeper, kazoo: Any
) -> None:
    """A name without a uuid can come again, in a folder that counts anew."""
    url = server.fresh_url()

    async def scenario(lab: Lab) -> None:
        (contender, rival) = await queue_up(lab, url, 2)
        theirs = kazoo.create(f"{folder(url, NAME)}/lock-", b"", ephemeral=True, sequence=True)
        await contender.leave()
        await rival.hold()  # and it has seen the stranger
        await rival.leave()
        kazoo.delete(folder(url, NAME), recursive=True)
        kazoo.create(folder(url, NAME))
        path = f"{folder(url, NAME)}/lock-"
        made = [kazoo.create(path, b"", ephemeral=True, sequence=True) for _ in range(3)]
        assert made[-1] == theirs
        await rival.join()
        assert rival.watched == [theirs.rpartition("/")[2]]
        kazoo.delete(theirs)
        await lab.until(lambda: rival.watched not in ([], [theirs.rpartition("/")[2]]), "a look")
        assert rival.is_waiting()
        kazoo.delete(made[0])
        assert rival.is_waiting()
        kazoo.delete(made[1])
        await (await rival.hold()).release()

    run(flavor, scenario)


def test_a_folder_made_anew_counts_anew(flavor: str, server: ZooKeeper, kazoo: Any) -> None:
    url = server.fresh_url()

    async def scenario(lab: Lab) -> None:
        first, second = await queue_up(lab, url, 2)
        kazoo.create(f"{folder(url, NAME)}/x__lock__", b"", ephemeral=True, sequence=True)
        await first.leave()
        lost = await second.hold()
        kazoo.delete(folder(url, NAME), recursive=True)
        await second.take()
        assert second.lease is not None
        assert second.lease.fence > lost.fence
        await first.join()
        assert first.watched
        await second.leave()
        await (await first.hold()).release()
        assert await lost.release() is False

    run(flavor, scenario)


def test_a_lease_can_be_released_by_another_client_that_knows_its_owner(
    flavor: str, server: ZooKeeper
) -> None:
    async def scenario(lab: Lab) -> None:
        first, second, third = await queue_up(lab, server.fresh_url(), 3)
        await first.leave()
        await second.hold()
        await second.leave()
        await third.hold()
        await second.join()
        await third.leave()
        lease = await second.hold()
        grant = lease._hold.grant
        stranger = grant._replace(owner="f" * len(grant.owner))
        assert await first.engine.release(stranger) is False
        assert await first.engine.release(grant) is True
        await lease.release()

    run(flavor, scenario)
