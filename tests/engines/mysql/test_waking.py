"""A waiter is woken by whoever hands it the lock, and finds out by itself otherwise."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import fencelock
from fencelock.engines.mysql import advisory, listener
from fencelock.engines.waiters import HEARTBEAT_S
from fencelock.model import Busy, Request
from fencelock.world import Job
from fencelock.worlds.threads import drive
from tests.faults.flavors import Lab, run
from tests.servers.mariadb import PASSWORD, SqlServer


def test_a_waiter_in_another_client_is_woken(
    flavor: str, server: SqlServer, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sleep of a listener is ended: it would last far longer than the test waits."""
    monkeypatch.setattr(listener, "NAP_S", 4.0)

    async def scenario(lab: Lab) -> None:
        client, other = [await lab.connect(server.url(), table=table) for _ in range(2)]
        for _ in range(5):
            lease = await client.lock("seat").acquire()
            waiter = lab.start(other.lock("seat", timeout=30).acquire())
            await lab.until(lambda: _asleep(server), "the listener must sleep")
            await lease.release()
            await (await waiter.result(within=3.0)).release()

    run(flavor, scenario)


def _asleep(server: SqlServer) -> bool:
    return bool(server.ask("SELECT 1 FROM information_schema.processlist WHERE state='User sleep'"))


def test_accounts_that_cannot_wake_each_other_still_take_turns(
    flavor: str, server: SqlServer, table: str
) -> None:
    server.ask(f"CREATE USER IF NOT EXISTS 'second'@'%' IDENTIFIED BY '{PASSWORD}'")
    server.ask("GRANT ALL ON locks.* TO 'second'@'%'")

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(server.url(), table=table)
        url = server.url().replace("tester:", "second:")
        other = await lab.connect(url, table=table)
        for _ in range(3):
            lease = await client.lock("seat").acquire()
            waiter = lab.start(other.lock("seat", timeout=30).acquire())
            await lab.until_queued(client, "seat", 1)
            await lease.release()
            await (await waiter.result()).release()

    run(flavor, scenario)


def test_a_lock_that_is_given_back_while_a_waiter_looks_is_not_overslept(
    server: SqlServer, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """mode=advisory: the release comes just after a waiter of the same client saw the lock held."""
    monkeypatch.setattr(advisory, "LOOK_S", 60.0)
    with fencelock.connect(server.url(), mode="advisory", table=table) as client:
        lease = client.lock("seat").acquire()

        class Trap(dict[str, object]):
            """Has the lock released as soon as somebody has found it held."""

            armed = False

            def get(self, key: str, default: object = None) -> object:
                found = super().get(key, default)
                if self.armed:
                    self.armed = False
                    releasing = threading.Thread(target=lease.release)
                    releasing.start()
                    releasing.join(10)
                return found

        engine: Any = client._core.engine
        held, watch = engine._held, engine._queues.watch

        def arm(*arguments: Any) -> None:
            watch(*arguments)
            held._all.armed = True

        monkeypatch.setattr(engine._queues, "watch", arm)
        held._all = Trap(held._all)
        turn = threading.Thread(target=lambda: client.lock("seat").acquire(timeout=30).release())
        turn.start()
        turn.join(10)
        assert not turn.is_alive(), "it sleeps beside a free lock"


def test_who_gives_up_waiting_calls_the_next_where_no_session_waits_for_them(
    flavor: str, server: SqlServer, table: str
) -> None:
    """The first looks by itself, the others leave that to it: until it leaves."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(server.url(), mode="advisory", table=table)
        world = client._core.world
        engine: Any = client._core.engine
        queues = engine._queues
        first, second = [Request("seat", owner, 30.0, queue=True) for owner in ("one", "two")]
        signal = world.signal()
        queues.watch("seat", second, signal)
        assert [queues.join("seat", request) for request in (first, second)] == [0, 1]
        await queues.withdraw("seat", first.owner)
        assert signal.is_set()
        assert queues.is_first("seat", second)

    run(flavor, scenario)


def test_a_waiter_leaves_looking_to_the_listener_of_its_client(
    flavor: str, server: SqlServer, table: str
) -> None:
    """Two hundred that looked every few seconds by themselves would be a load for the server."""

    async def scenario(lab: Lab) -> None:
        client, other = [await lab.connect(server.url(), table=table) for _ in range(2)]
        lease = await client.lock("seat").acquire()
        engine = other._core.engine
        request = Request("seat", "0123456789abcdef0123456789abcdef", 30.0, queue=True)
        await engine.watch(request, other._core.world.signal())
        for _ in range(2):  # to join the queue, and to look again
            answer = await engine.acquire(request)
            assert isinstance(answer, Busy)
            assert answer.look_in > HEARTBEAT_S
        await engine.unwatch(request)
        await engine.withdraw(request)
        await lease.release()

    run(flavor, scenario)


def test_one_session_listens_though_a_signal_handler_ends_who_starts_it(
    server: SqlServer, table: str
) -> None:
    """Two would read each other's answers from one connection."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(server.url(), table=table)
        mine: listener.Listener = client._core.engine._listener  # type: ignore[attr-defined]
        world, jobs = mine._world, list[Job]()

        def start(work: Any, label: str) -> Job:
            jobs.append(spawn(work, label))
            if len(jobs) == 1:
                raise KeyboardInterrupt
            return jobs[-1]

        spawn = world.spawn
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(world, "spawn", start)
            with pytest.raises(KeyboardInterrupt):
                mine.watch("first", world.signal())
            mine.watch("second", world.signal())
        await lab.until(
            lambda: [drive(job.join(0.0)) for job in jobs].count(False) == 1, "one that listens"
        )

    run("sync", scenario)
