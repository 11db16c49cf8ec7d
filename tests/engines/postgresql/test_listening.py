"""``mode=lease``: how a client hears for its waiters, on the connection that it also asks over."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import psycopg

from fencelock import aio
from fencelock.engines.postgresql.statements import LOCK_CLASS
from tests.faults.flavors import SOON, Lab, run
from tests.servers.postgresql import USER, Postgresql
from tests.servers.proxy import Proxy

Link = psycopg.Connection[Any]


def _listening(table: str) -> str:
    return f"""FROM pg_stat_activity JOIN pg_locks USING (pid) WHERE locktype = 'advisory'
        AND application_name = '{table}' AND classid::bigint = {LOCK_CLASS} AND granted"""


def test_a_loop_hears_without_a_thread_and_on_one_connection(
    server: Postgresql, table: str, link: Link
) -> None:
    async def scenario(lab: Lab) -> None:
        client = await lab.connect(server.url(f"table={table}&application_name={table}"))
        rival = await lab.connect(server.url(f"table={table}"))
        held = await rival.lock("seat").acquire()
        before = {thread.name for thread in threading.enumerate()}
        turns = [lab.start(_turn(client)) for _ in range(3)]
        await lab.until_queued(rival, "seat", 3)
        assert {thread.name for thread in threading.enumerate()} <= before
        count = link.execute(f"SELECT count(*) {_listening(table)}".encode()).fetchone()
        assert count == (1,)
        assert await held.release() is True
        assert [await turn.result() for turn in turns] == [True] * 3

    run("asyncio", scenario)


def test_a_listener_whose_task_was_cancelled_hears_all_the_same(
    server: Postgresql, table: str, proxy: Proxy, link: Link
) -> None:
    """Programs exist that cancel every task they find, and go on."""

    async def scenario(lab: Lab) -> None:
        rival = await lab.connect(server.url(f"table={table}"))
        way = f"postgresql://{USER}@{proxy.address}/postgres"
        client = await lab.connect(f"{way}?table={table}&application_name={table}")
        held = await rival.lock("seat").acquire()
        waiting = lab.start(client.lock("seat").acquire(timeout=3 * SOON))
        await lab.until_queued(rival, "seat", 1)
        link.execute(f"SELECT pg_terminate_backend(pid, 10000) {_listening(table)}".encode())
        await lab.until(lambda: _connecting(), "the listener to connect again")
        for task in _connecting():
            task.cancel()
        listening = f"SELECT count(*) {_listening(table)}".encode()
        await lab.until(
            lambda: link.execute(listening).fetchone() == (1,), "the listener to be back"
        )
        await lab.until_queued(rival, "seat", 1)
        assert await held.release() is True
        assert await (await waiting.result()).release() is True

    run("asyncio", scenario)


def test_a_listener_whose_task_was_cancelled_before_it_ran_goes_on(
    server: Postgresql, table: str
) -> None:
    """Nothing of such a task runs, not even what would have planned the next one."""

    async def scenario(lab: Lab) -> None:
        rival = await lab.connect(server.url(f"table={table}"))
        client = await lab.connect(server.url(f"table={table}"))
        held = await rival.lock("seat").acquire()
        waiting = lab.start(client.lock("seat").acquire(timeout=3 * SOON))
        await lab.until_queued(rival, "seat", 1)
        listener = client._core.engine._listener  # type: ignore[attr-defined]
        await lab.until(lambda: listener._job is None and listener._timer, "it to wait")
        listener._timer.cancel()
        listener._start()
        (task,) = _connecting()
        task.cancel()
        await lab.until(lambda: listener._job is None and listener._timer, "it to wait again")
        assert await held.release() is True
        assert await (await waiting.result()).release() is True

    run("asyncio", scenario)


def test_what_was_cancelled_on_its_way_is_taken_back_behind_it(
    server: Postgresql, table: str, link: Link
) -> None:
    """A place in the queue that is asked for over one connection is not left over another."""

    async def scenario(lab: Lab) -> None:
        client, rival = [await lab.connect(server.url(f"table={table}")) for _ in range(2)]
        held = await rival.lock("seat").acquire()
        first = lab.start(_turn(client))  # from now on it knows of a queue
        await lab.until_queued(rival, "seat", 1)
        with link.transaction():
            link.execute(f"ALTER SEQUENCE {table}_place CACHE 1".encode())  # who joins waits
            waiting = asyncio.create_task(client.lock("seat").acquire())
            blocked = f"""SELECT count(*) FROM pg_locks WHERE NOT granted
                AND relation = '{table}_place'::regclass""".encode()
            await lab.until(lambda: link.execute(blocked).fetchone() != (0,), "it to be asked")
            waiting.cancel()
            await lab.let_pass(0.05)  # in which it must not be overtaken
        await asyncio.wait([waiting], timeout=SOON)
        assert waiting.cancelled()
        places = link.execute(f"SELECT count(*) FROM {table}_waiters".encode()).fetchone()
        assert places == (1,)
        assert await held.release() is True
        assert await first.result() is True

    run("asyncio", scenario)


async def _turn(client: aio.Client) -> bool:
    return await (await client.lock("seat").acquire(timeout=SOON)).release()


def _connecting() -> list[asyncio.Task[Any]]:
    return [task for task in asyncio.all_tasks() if task.get_name() == "fencelock-listener"]
