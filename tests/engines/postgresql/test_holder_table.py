"""Rows about who holds an advisory lock, and the renewals that come between."""

from __future__ import annotations

import pytest

from tests.engines.postgresql.gate import Gate, engine_of
from tests.faults.flavors import Lab, run
from tests.servers.postgresql import Postgresql

MOMENT = 0.1  # for somebody to do what it must not do

SHOW, RENEW = "_holders AS h\nSELECT", "WITH renewed"


@pytest.mark.parametrize("held_up", ["row", "renewal"])
def test_a_row_shows_the_time_that_a_renewal_gave(
    held_up: str, flavor: str, server: Postgresql, table: str
) -> None:
    """Whichever of the two was first, and whichever takes long."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(server.url(f"table={table}&mode=advisory"))
        lease = await client.lock(f"{table} seat", ttl=30, renew=False).acquire()
        (hold,) = engine_of(client)._holds.values()
        if held_up == "row":
            gate = Gate(lab, hold.session, SHOW)
            await gate.reached()
            renewing = lab.start(lease.renew(ttl=60))
        else:
            gate = Gate(lab, hold.session, RENEW, answered=True)
            renewing = lab.start(lease.renew(ttl=60))
            await gate.reached()
        await lab.let_pass(MOMENT)
        gate.open()
        await renewing.result()
        (shown,) = await client.holders(f"{table} seat")
        assert shown.remaining > 30
        assert shown.ttl == 60
        assert await lease.release() is True
        assert await client.holders(f"{table} seat") == []

    run(flavor, scenario)
