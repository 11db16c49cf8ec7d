"""The connections of one client are lent in turn: nobody starves while others come again."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Any
from weakref import ref

import pytest

from fencelock import FencelockError, Unavailable
from fencelock.engines.mysql.wire.codec import ServerError
from fencelock.engines.mysql.wire.pool import Pool
from fencelock.model import Request
from fencelock.wires.live_set import LiveSet, Slot
from tests.engines.uncollected import Local, uncollected
from tests.faults.flavors import Lab, run
from tests.servers.mariadb import mariadb
from tests.servers.proxy import Proxy
from tests.servers.shared import shared


async def only_connection(lab: Lab, table: str, request_timeout: float) -> Pool:
    """The pool of a client that has room for one connection."""
    url = shared(mariadb).url()
    client = await lab.connect(url, table=table, pool=1, request_timeout=request_timeout)
    pool: Pool = client._core.engine._pool  # type: ignore[attr-defined]
    return pool


def test_a_connection_that_comes_back_goes_to_who_has_waited_longest(
    flavor: str, table: str
) -> None:
    async def scenario(lab: Lab) -> None:
        pool = await only_connection(lab, table, 20)
        connection = await pool.lend()
        waiting = lab.start(pool.lend())
        await lab.until(lambda: pool._queue, "somebody who waits for a connection")
        pool.give_back(connection)
        assert not pool._free  # there is nothing for whoever asks again at once
        assert await waiting.result() is connection
        pool.give_back(connection)
        assert await pool.lend() is connection
        pool.give_back(connection)

    run(flavor, scenario)


def test_who_has_waited_too_long_for_a_connection_leaves_the_queue(flavor: str, table: str) -> None:
    async def scenario(lab: Lab) -> None:
        pool = await only_connection(lab, table, 0.5)
        connection = await pool.lend()
        with pytest.raises(Unavailable, match=r"in use for 0\.5 s"):
            await pool.lend()
        pool.give_back(connection)
        assert await pool.lend() is connection
        pool.give_back(connection)

    run(flavor, scenario)


class Alarm(Exception):
    """What a signal handler raises."""


def without_python(call: Callable[[], object]) -> None:
    """Raise in whatever function, written in Python, is called beneath this call."""

    def raise_in(frame: Any, event: str, argument: object) -> None:
        if event == "call":
            raise Alarm

    sys.setprofile(raise_in)
    try:
        call()
    finally:
        sys.setprofile(None)


def test_what_has_died_takes_no_room_whatever_a_signal_handler_raises_then() -> None:
    """A WeakSet would count it for ever: its callback is where the handler is called."""
    live = LiveSet()
    known = [Slot(), Slot()]
    live.add(known[0])
    live.add(known[1])
    without_python(known.pop)
    assert len(live) == 1
    live.discard(known[0])
    assert len(live) == 0


def test_an_error_of_the_server_is_not_kept_by_the_connection_that_raised_it(
    flavor: str, table: str
) -> None:
    async def scenario(lab: Lab) -> None:
        pool = await only_connection(lab, table, 20)
        connection = await pool.lend()
        known: list[ref[Local]] = []

        async def refused() -> None:
            local = Local()
            known.append(ref(local))
            await connection.query("SELECT nothing", 20)

        with uncollected():
            try:
                await refused()
            except ServerError:
                pass
            assert known.pop()() is None
        pool.give_back(connection)

    run(flavor, scenario)


def test_a_cancel_is_not_kept_by_the_connection_that_raised_it(table: str) -> None:
    async def scenario(lab: Lab) -> None:
        pool = await only_connection(lab, table, 20)
        connection = await pool.lend()
        known: list[ref[Local]] = []

        async def cancelled() -> None:
            local = Local()
            known.append(ref(local))
            task = asyncio.current_task()
            assert task is not None
            asyncio.get_running_loop().call_soon(task.cancel)
            await connection.query("SELECT SLEEP(0.01)", 20)

        with uncollected():
            try:
                await cancelled()
            except asyncio.CancelledError:
                pass
            assert known.pop()() is None
        pool.give_back(connection)

    run("asyncio", scenario)


@pytest.mark.parametrize("caller", ["waits", "is cancelled"])
def test_an_error_is_not_kept_by_the_request_for_a_lock_that_raised_it(
    table: str, caller: str
) -> None:
    with Proxy(shared(mariadb).port) as proxy:

        async def scenario(lab: Lab) -> None:
            url = shared(mariadb).url(port=proxy.port)
            client = await lab.connect(url, mode="advisory", table=table)
            engine: Any = client._core.engine
            known: list[ref[object]] = []

            async def ask() -> None:
                local = Local()
                known.append(ref(local))
                await engine.acquire(Request("seat", "f" * 32, 30.0))

            proxy.block()
            with uncollected():
                task = asyncio.create_task(ask())
                await lab.until(lambda: list(engine._requests._all), "a request for the lock")
                known += map(ref, engine._requests._all.values())
                if caller == "is cancelled":
                    task.cancel()
                    await asyncio.wait([task])
                proxy.cut()
                await asyncio.wait([task])
                assert task.cancelled() or isinstance(task.exception(), FencelockError)
                del task
                await lab.until(lambda: not any(one() for one in known), "an end of all of them")

        run("asyncio", scenario)


def test_an_error_is_not_kept_by_the_connection_that_could_not_be_made(
    flavor: str, table: str
) -> None:
    with Proxy(shared(mariadb).port) as proxy:

        async def scenario(lab: Lab) -> None:
            client = await lab.connect(shared(mariadb).url(port=proxy.port), table=table)
            pool: Pool = client._core.engine._pool  # type: ignore[attr-defined]
            known: list[ref[Local]] = []

            async def lend() -> None:
                local = Local()
                known.append(ref(local))
                while True:  # those that were made before
                    await pool.lend()

            proxy.cut()
            with uncollected():
                try:
                    await lend()
                except Unavailable:
                    pass
                await lab.until(lambda: known[0]() is None, "an end of its caller's frame")

        run(flavor, scenario)
