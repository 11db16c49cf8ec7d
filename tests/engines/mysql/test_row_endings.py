"""mode=row: a lease that nobody renewed in time is gone once the server has ended it."""

from __future__ import annotations

from typing import Any

from fencelock import aio
from fencelock.model import Gone
from tests.faults.flavors import Lab, run
from tests.servers.mariadb import SqlServer

MOMENT = 0.1  # for somebody to do what it must not do


class Gate:
    """Stops the first statement with a word in it that the pool of a client sends."""

    def __init__(self, lab: Lab, engine: Any, word: str) -> None:
        self._lab = lab
        self._query = engine._pool.query
        self._word = word
        self._reached = self._open = False
        engine._pool.query = self._pass

    async def _pass(self, sql: str, *values: object, **options: Any) -> Any:
        if not self._reached and self._word in sql:
            self._reached = True
            await self._lab.until(lambda: self._open, "a gate to be opened")
        return await self._query(sql, *values, **options)

    async def reached(self) -> None:
        await self._lab.until(lambda: self._reached, "the statement to be sent")

    def open(self) -> None:
        self._open = True


def engine_of(client: Any) -> Any:
    return client._core.engine


def be_over(client: aio.Client) -> None:
    """Let the time of all leases be over."""
    engine = engine_of(client)
    for hold in engine._holds.values():
        hold.until = 0.0
    engine._timer.expect(0.0)


def test_a_late_renewal_says_gone_once_the_lock_is_free(
    flavor: str, server: SqlServer, table: str
) -> None:
    async def scenario(lab: Lab) -> None:
        client = await lab.connect(server.url(), mode="row", table=table)
        rival = await lab.connect(server.url(), mode="row", table=table)
        lease = await client.lock("seat", ttl=30, renew=False).acquire()
        gate = Gate(lab, engine_of(client), "KILL")
        be_over(client)
        await gate.reached()

        async def renew() -> aio.Lease | None:
            (answer,) = await engine_of(client).renew([lease._hold.grant])
            assert isinstance(answer, Gone)
            return await rival.lock("seat").try_acquire()

        renewing = lab.start(renew())
        await lab.let_pass(MOMENT)
        assert not renewing.done()
        gate.open()
        other = await renewing.result()
        assert await lease.release() is False
        assert other is not None
        assert await other.release() is True

    run(flavor, scenario)


def test_a_late_release_waits_for_the_end_that_is_under_way(
    flavor: str, server: SqlServer, table: str
) -> None:
    """Whoever was told that it is released may expect others to be let in."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(server.url(), mode="row", table=table)
        rival = await lab.connect(server.url(), mode="row", table=table)
        lease = await client.lock("seat", ttl=30, renew=False).acquire()
        gate = Gate(lab, engine_of(client), "KILL")
        be_over(client)
        await gate.reached()
        releasing = lab.start(lease.release())
        await lab.let_pass(MOMENT)
        gate.open()
        assert await releasing.result() is False
        async with rival.lock("seat", timeout=0) as other:
            assert other.fence > lease.fence

    run(flavor, scenario)


def test_a_holder_that_released_first_is_not_ended_again(
    flavor: str, server: SqlServer, table: str
) -> None:
    """Its connection may be another holder's by then."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(server.url(), mode="row", table=table)
        first = await client.lock("first", ttl=30, renew=False).acquire()
        second = await client.lock("second", ttl=30, renew=False).acquire()
        gate = Gate(lab, engine_of(client), "KILL")
        be_over(client)
        await gate.reached()  # the timer is at the first, and knows of the second
        assert await second.release() is False
        third = await client.lock("third", ttl=30, renew=False).acquire()
        gate.open()
        assert await first.release() is False
        await lab.let_pass(MOMENT)
        third.check()
        assert await third.release() is True

    run(flavor, scenario)
