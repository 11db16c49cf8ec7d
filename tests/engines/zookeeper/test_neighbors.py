"""Who comes back knows by its number who stands before it, and is right whatever happened."""

from __future__ import annotations

from typing import Any

import pytest

from fencelock.engines.zookeeper import paths
from tests.engines.zookeeper.contenders import NAME, seats
from tests.engines.zookeeper.tree import folder
from tests.faults.flavors import Lab, run
from tests.servers.zookeeper import ZooKeeper

TURN = ["Create2", "GetData", "GetChildren", "Delete"]


def test_the_server_counts_what_is_made_and_nothing_else(server: ZooKeeper, kazoo: Any) -> None:
    """The children of a folder have consecutive numbers, whatever is deleted or written."""
    place = folder(server.fresh_url(), NAME)
    kazoo.ensure_path(place)
    for number in range(12):
        kind = number % 4
        if kind == 3:
            kazoo.create(f"{place}/plain{number}", b"")
            continue
        made = kazoo.create(f"{place}/x__lock__", b"", ephemeral=kind == 1, sequence=True)
        assert paths.sequence(made) == number
        if kind:
            kazoo.delete(made)
        kazoo.set(place, b"%d" % number)


@pytest.mark.parametrize("count", [3, 5])
def test_a_turn_in_a_ring_costs_four_requests(flavor: str, count: int, server: ZooKeeper) -> None:
    """Each comes back when the next has the lock already: the guess is what spares the look."""

    async def scenario(lab: Lab) -> None:
        ring = await seats(lab, server.fresh_url(), count)
        fences: list[int] = []
        for turn in range(3 * count):
            seat, following = ring[turn % count], ring[(turn + 1) % count]
            assert seat.lease is not None
            fences.append(seat.lease.fence)
            before = ring[turn % count - 1].child if turn else ""
            await seat.leave()
            if turn > count + 1:  # who has never seen another in line is not known to return
                assert seat.sent == TURN
            await following.hold()
            await seat.join()
            if turn:
                assert seat.watched == [before]
        assert fences == sorted(fences)
        await ring[0].leave()
        for seat in ring[1:]:
            await (await seat.hold()).release()

    run(flavor, scenario)


@pytest.mark.parametrize("overtaken", [False, True])
def test_who_comes_back_after_two_others_still_knows_the_last(
    flavor: str, overtaken: bool, server: ZooKeeper
) -> None:
    """Two are away while a third gets the lock; a fourth may be back before the third is."""

    async def scenario(lab: Lab) -> None:
        ring = await seats(lab, server.fresh_url(), 6)
        for turn in range(12):  # now all have seen each other
            await ring[turn % 6].leave()
            await ring[(turn + 1) % 6].hold()
            await ring[turn % 6].join()
        first, second, third, fourth, fifth, sixth = ring
        for seat, following in ((first, second), (second, third)):
            await seat.leave()
            await following.hold()
        back = [first, second, *[fourth] * overtaken]
        await first.join()
        await second.join()
        await third.leave()
        await fourth.hold()
        if overtaken:
            await fourth.leave()
            await fifth.hold()
            await fourth.join()
        await third.join()
        assert third.sent == ["Create2", "GetData"]
        assert third.watched == [back[-1].child]
        holder, *others = [fifth] if overtaken else [fourth, fifth]
        await holder.leave()
        for seat in [*others, sixth, *back, third]:
            await seat.hold()
            await seat.leave()

    run(flavor, scenario)


def test_who_comes_back_next_waits_for_the_last_it_saw(flavor: str, server: ZooKeeper) -> None:
    async def scenario(lab: Lab) -> None:
        first, second, third = await seats(lab, server.fresh_url(), 3)
        await first.leave()
        await second.hold()
        await second.leave()
        await third.hold()
        await second.join()
        assert second.sent == ["Create2", "GetData"]
        assert second.watched == [third.child]
        await third.leave()
        await (await second.hold()).release()

    run(flavor, scenario)


def test_the_last_it_saw_may_be_gone(flavor: str, server: ZooKeeper, kazoo: Any) -> None:
    """An operator deletes the node that a client would wait for, and the client looks."""
    url = server.fresh_url()

    async def scenario(lab: Lab) -> None:
        first, second = await seats(lab, url, 2)
        theirs = kazoo.create(f"{folder(url, NAME)}/x__lock__", b"", ephemeral=True, sequence=True)
        await first.leave()
        await second.hold()
        kazoo.delete(theirs)
        await second.leave()
        await second.take()
        assert second.sent == ["Create2", "GetData", "GetChildren"]
        await second.leave()

    run(flavor, scenario)


@pytest.mark.parametrize("kind", ["kazoo", "curator", "plain"])
def test_a_stranger_that_came_meanwhile_is_waited_for(
    flavor: str, kind: str, server: ZooKeeper, kazoo: Any
) -> None:
    url = server.fresh_url()
    prefix = {"kazoo": f"{'a' * 32}__lock__", "curator": f"_c_{'b' * 36}-lock-", "plain": "lock-"}

    async def scenario(lab: Lab) -> None:
        first, second, third = await seats(lab, url, 3)
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
    """A name without a uuid can come again: with the number before ours it is our predecessor."""
    url = server.fresh_url()

    async def scenario(lab: Lab) -> None:
        (seat, rival) = await seats(lab, url, 2)
        theirs = kazoo.create(f"{folder(url, NAME)}/lock-", b"", ephemeral=True, sequence=True)
        await seat.leave()
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
        first, second = await seats(lab, url, 2)
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


def test_a_lease_of_one_who_came_back_can_be_released_by_another_process(
    flavor: str, server: ZooKeeper
) -> None:
    """Its node is not named after its owner; the owner is known by what is written in it."""

    async def scenario(lab: Lab) -> None:
        first, second, third = await seats(lab, server.fresh_url(), 3)
        await first.leave()
        await second.hold()
        await second.leave()
        await third.hold()
        await second.join()
        await third.leave()
        lease = await second.hold()
        assert not second.child.startswith(paths.mark(lease._hold.grant.owner))
        grant = lease._hold.grant
        stranger = grant._replace(owner="f" * len(grant.owner))
        assert await first.engine.release(stranger) is False
        assert await first.engine.release(grant) is True
        await lease.release()

    run(flavor, scenario)
