"""Leases that nobody renewed in time, in the modes in which somebody has to give them back.

All are over at once, as after a pause of the whole process: the timer comes, and a late holder.
"""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from fencelock import aio
from fencelock.model import Gone
from tests.engines.postgresql.gate import Gate, engine_of
from tests.faults.flavors import SOON, Lab, run
from tests.servers.postgresql import Postgresql

Link = psycopg.Connection[Any]

MOMENT = 0.1  # for somebody to do what it must not do

ENDS = {
    "mode=advisory": "pg_advisory_unlock",
    "mode=advisory&bound=transaction": "ROLLBACK",
    "mode=row": "ROLLBACK",
}


def be_over(client: aio.Client) -> None:
    """Let the time of all leases be over."""
    engine = engine_of(client)
    for hold in engine._holds.values():
        hold.until = 0.0
    engine._expiry.expect(0.0)


async def taken(client: aio.Client, name: str) -> Any:
    return await client.lock(name, ttl=30, renew=False).acquire()


@pytest.mark.parametrize("options", ENDS)
def test_a_late_renewal_says_gone_once_the_lock_is_free(
    options: str, flavor: str, server: Postgresql, table: str
) -> None:
    """Not while the timer is still about to give it back."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(server.url(f"table={table}&{options}"))
        rival = await lab.connect(server.url(f"table={table}&{options}"))
        lease = await taken(client, f"{table} seat")
        (hold,) = engine_of(client)._holds.values()
        gate = Gate(lab, hold.session, ENDS[options])
        be_over(client)
        await gate.reached()

        async def renew() -> aio.Lease | None:
            (answer,) = await engine_of(client).renew([lease._hold.grant])
            assert isinstance(answer, Gone)
            return await rival.lock(f"{table} seat").try_acquire()

        renewing = lab.start(renew())
        await lab.let_pass(MOMENT)
        gate.open()
        other = await renewing.result()
        assert await lease.release() is False
        assert other is not None
        assert await other.release() is True

    run(flavor, scenario)


@pytest.mark.parametrize("options", [o for o, end in ENDS.items() if end == "ROLLBACK"])
def test_a_statement_under_way_is_ended_with_its_lease(
    options: str, flavor: str, server: Postgresql, table: str, link: Link
) -> None:
    """The lock is free when a late renewal has said so, and whoever ran the statement is told."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(server.url(f"table={table}&{options}"))
        rival = await lab.connect(server.url(f"table={table}&{options}"))
        lease = await taken(client, f"{table} seat")
        (hold,) = engine_of(client)._holds.values()

        async def use() -> None:
            answer = lease.connection.execute("SELECT pg_sleep(60)")
            if flavor == "asyncio":
                await answer

        using = lab.start(use())
        busy = "SELECT 1 FROM pg_stat_activity WHERE pid = %s AND wait_event = 'PgSleep'"
        await lab.until(lambda: link.execute(busy, (hold.session.pid,)).fetchone(), "the statement")
        hold.until = 0.0
        (answer,) = await engine_of(client).renew([lease._hold.grant])
        assert isinstance(answer, Gone)
        async with rival.lock(f"{table} seat", timeout=0):
            with pytest.raises(psycopg.OperationalError):
                await using.result()
        assert await lease.release() is False

    run(flavor, scenario)


@pytest.mark.parametrize("options", ENDS)
def test_what_was_given_back_late_is_not_given_back_again(
    options: str, flavor: str, server: Postgresql, table: str
) -> None:
    """By then the key is another holder's, and so is the connection."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(server.url(f"table={table}&{options}"))
        rival = await lab.connect(server.url(f"table={table}&{options}"))
        first, second, third = [f"{table} {word}" for word in ("first", "second", "third")]
        leases = [await taken(client, name) for name in (first, second, third)]
        hold = engine_of(client)._holds[leases[0]._hold.grant.owner]
        gate = Gate(lab, hold.session, ENDS[options])
        be_over(client)
        await gate.reached()  # the timer will go on with the others
        assert await leases[1].release() is False
        other = await client.lock(second, ttl=30).try_acquire()
        assert other is not None
        gate.open()
        async with rival.lock(third, timeout=SOON):  # which the timer gives back last
            assert await rival.lock(second).try_acquire() is None
            other.check()
        assert await other.release() is True
        for lease in (leases[0], leases[2]):
            assert await lease.release() is False

    run(flavor, scenario)
