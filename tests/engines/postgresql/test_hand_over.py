"""``mode=lease``: a release hands the lock to a waiter whole, and what becomes of it then."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

import psycopg

from fencelock import OutcomeUnknown
from fencelock.engines.postgresql.statements import LOCK_CLASS
from fencelock.worlds import clock
from tests.faults.crew import Crew
from tests.faults.flavors import SOON, Lab, run
from tests.servers.postgresql import USER, Postgresql
from tests.servers.proxy import Proxy

Link = psycopg.Connection[Any]

LATE = 30.0


def test_a_contended_turn_takes_one_request_to_queue_and_one_to_release(
    flavor: str, proxy: Proxy, server: Postgresql, table: str
) -> None:
    async def scenario(lab: Lab) -> None:
        rival, judge = [await lab.connect(server.url(f"table={table}")) for _ in range(2)]
        client = await lab.connect(f"postgresql://{USER}@{proxy.address}/postgres?table={table}")
        theirs = await rival.lock("seat").acquire()
        for turn in range(3):  # those before open and prepare what is needed
            proxy.count_from_now()
            waiting = lab.start(client.lock("seat").acquire(timeout=SOON))
            await lab.until_queued(judge, "seat", 1)
            assert await theirs.release() is True
            ours = await waiting.result()
            waiting = lab.start(rival.lock("seat").acquire(timeout=SOON))
            await lab.until_queued(judge, "seat", 1)
            assert await ours.release() is True
            assert turn < 2 or (proxy.requests, proxy.connections) == (2, 0)
            assert theirs.fence < ours.fence < (theirs := await waiting.result()).fence
        assert await theirs.release() is True

    run(flavor, scenario)


def test_a_lock_that_was_handed_over_survives_a_crash_of_the_server(flavor: str) -> None:
    """What the waiter was told is on disk, although nobody asked for it again."""

    async def scenario(lab: Lab) -> None:
        with Postgresql(settings={"wal_writer_delay": "10s"}) as server:
            holder, waiter = [await lab.connect(server.url("request_timeout=20")) for _ in range(2)]
            held = await holder.lock("seat", ttl=60).acquire()
            waiting = lab.start(waiter.lock("seat", ttl=60).acquire(timeout=SOON))
            await lab.until_queued(holder, "seat", 1)
            await held.release()
            lease = await waiting.result()
            server.kill()
            server.start()
            assert server.psql("SELECT fence FROM fencelock_locks") == str(lease.fence)
            with suppress(OutcomeUnknown):  # over a connection that died with the server
                await lease.renew()
            await lease.renew()
            assert await lease.release() is True

    run(flavor, scenario)


def test_a_crash_forgets_the_queue_and_its_waiters_stand_in_line_anew(flavor: str) -> None:
    """Queues are not written to disk; who holds is, and so is the fence."""

    async def scenario(lab: Lab) -> None:
        with Postgresql() as server:
            holder, waiter = [await lab.connect(server.url("request_timeout=20")) for _ in range(2)]
            held = await holder.lock("seat", ttl=60).acquire()
            waiting = lab.start(waiter.lock("seat", ttl=60).acquire(timeout=LATE))
            await lab.until_queued(holder, "seat", 1)
            server.kill()
            server.start()
            judge = await lab.connect(server.url("request_timeout=20"))
            await lab.until_queued(judge, "seat", 1)
            with suppress(OutcomeUnknown):  # over a connection that died with the server
                await held.release()
            lease = await waiting.result(within=LATE)
            assert lease.fence > held.fence
            assert await lease.release() is True

    run(flavor, scenario)


def test_a_waiter_whose_own_connection_ended_releases_over_another(
    flavor: str, server: Postgresql, table: str, link: Link
) -> None:
    async def scenario(lab: Lab) -> None:
        rival = await lab.connect(server.url(f"table={table}"))
        client = await lab.connect(server.url(f"table={table}&application_name={table}"))
        for turn in range(2):
            theirs = await rival.lock("seat").acquire()
            waiting = lab.start(client.lock("seat").acquire(timeout=SOON))
            await lab.until_queued(rival, "seat", 1)
            assert await theirs.release() is True
            lease = await waiting.result()
            ended = link.execute(
                f"""SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity
                JOIN pg_locks USING (pid) WHERE application_name = '{table}'
                AND locktype = 'advisory' AND classid::bigint = {LOCK_CLASS}""".encode()
            )
            assert turn > 0 or ended.fetchall() == [(True,)]
            assert await lease.release() is True

    run(flavor, scenario)


def test_a_waiter_frozen_past_its_ttl_does_not_believe_the_old_message(
    flavor: str, server: Postgresql, table: str, crew: Crew
) -> None:
    """H22: it wakes up, finds that it was given the lock long ago, and queues again."""
    url = server.url(f"table={table}")
    holder, frozen, other = (crew.actor(flavor, url) for _ in range(3))
    holder.acquire("seat", ttl=60)
    waiting = frozen.queue("seat", 1, ttl=1)
    frozen.freeze()
    assert holder.ask("release", name="seat") is True
    taken = other.acquire("seat", ttl=60, timeout=LATE)
    frozen.thaw()
    other.wait_queued("seat", 1)
    assert not waiting.given()
    assert other.ask("release", name="seat") is True
    assert waiting.result()["fence"] > taken["fence"]


def test_a_frozen_client_costs_one_ttl_however_many_of_it_wait(
    flavor: str, server: Postgresql, table: str, crew: Crew
) -> None:
    """H22: its first waiter lets the lock expire, and the others of that client are passed over."""
    url = server.url(f"table={table}")
    holder, frozen, heir = (crew.actor(flavor, url) for _ in range(3))
    holder.acquire("seat", ttl=60)
    answers = [
        frozen.queue("seat", place, ttl=ttl) for place, ttl in ((1, 1), (2, 3600), (3, 3600))
    ]
    waiting = heir.queue("seat", 4, ttl=60)
    frozen.freeze()
    assert holder.ask("release", name="seat") is True
    taken = waiting.result(within=LATE)
    frozen.thaw()
    heir.wait_queued("seat", 3)  # all of them are back
    assert heir.ask("release", name="seat") is True
    give_up = clock.now() + LATE
    while not any(answer.given() for answer in answers):
        assert clock.now() < give_up, "none of them got the lock"
        time.sleep(0.005)
    assert all(a.result()["fence"] > taken["fence"] for a in answers if a.given())
