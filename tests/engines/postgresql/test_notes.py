"""Notes about who holds an advisory lock, and the renewals that come between."""

from __future__ import annotations

import pytest

from fencelock.engines.postgresql import holder_table
from tests.engines.postgresql.gate import Gate, mode_of
from tests.faults.flavors import Lab, run
from tests.servers.postgresql import Postgresql

MOMENT = 0.1  # for somebody to do what it must not do

NOTE, BEAT = "_holders\n            SELECT", "WITH beat"


@pytest.mark.parametrize("held_up", ["note", "renewal"])
def test_a_note_shows_the_time_that_a_renewal_gave(
    held_up: str, flavor: str, server: Postgresql, table: str
) -> None:
    """Whichever of the two was first, and whichever takes long."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(server.url(f"table={table}&mode=advisory"))
        lease = await client.lock(f"{table} seat", ttl=30, renew=False).acquire()
        (hold,) = mode_of(client)._holds.values()
        if held_up == "note":
            gate = Gate(lab, hold.session, NOTE)
            await gate.reached()
            renewing = lab.start(lease.renew(ttl=60))
        else:
            gate = Gate(lab, hold.session, BEAT, answered=True)
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


def test_who_asks_waits_for_a_note_that_is_being_written(
    flavor: str, server: Postgresql, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long that takes: only for the notes of other clients there is a limit."""
    monkeypatch.setattr(holder_table, "WAIT_S", 0.0)

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(server.url(f"table={table}&mode=advisory"))
        lease = await client.lock(f"{table} seat", ttl=30).acquire()
        (hold,) = mode_of(client)._holds.values()
        gate = Gate(lab, hold.session, NOTE)
        await gate.reached()
        looking = lab.start(client.holders(f"{table} seat"))
        await lab.let_pass(MOMENT)
        gate.open()
        (shown,) = await looking.result()
        assert shown.fence == lease.fence
        await lease.release()

    run(flavor, scenario)
