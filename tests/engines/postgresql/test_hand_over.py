"""``mode=lease``: a release hands the lock to a waiter whole, and what becomes of it then."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

import psycopg

import fencelock
from fencelock import OutcomeUnknown
from fencelock.engines.postgresql.tables import SPACE
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
            holder, waiter = [await lab.connect(server.url("request_timeout=1")) for _ in range(2)]
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
            holder, waiter = [await lab.connect(server.url("request_timeout=1")) for _ in range(2)]
            held = await holder.lock("seat", ttl=60).acquire()
            waiting = lab.start(waiter.lock("seat", ttl=60).acquire(timeout=LATE))
            await lab.until_queued(holder, "seat", 1)
            server.kill()
            server.start()
            judge = await lab.connect(server.url("request_timeout=1"))
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
                AND locktype = 'advisory' AND classid::bigint = {SPACE}""".encode()
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


def test_a_waiter_of_an_older_version_is_called_and_claims_the_lock_itself(
    server: Postgresql, table: str, link: Link
) -> None:
    """It would not understand what it is handed."""
    inbox = f"{table}_0123456789abcdef"
    with fencelock.connect(server.url(f"table={table}")) as client:
        lease = client.lock("seat").acquire()
        link.execute(f'LISTEN "{inbox}"'.encode())
        link.execute(f"SELECT pg_advisory_lock({SPACE}, hashtext('{inbox}'))".encode())
        link.execute(
            f"""INSERT INTO {table}_waiters (owner, name, ttl, since, seen_at, lapsed, inbox, meta)
            VALUES ('older', 'seat', 30, now(), now(), false, '{inbox}', '{{}}');
            UPDATE {table}_locks SET queued = true""".encode()
        )
        assert lease.release() is True
        (heard,) = link.notifies(timeout=SOON, stop_after=1)
        assert heard.payload == "older"
        state = link.execute(f"SELECT owner, claimed FROM {table}_locks".encode()).fetchone()
        assert state == ("older", False)


def test_tables_of_an_older_version_are_brought_up_to_date(
    flavor: str, server: Postgresql, table: str, link: Link
) -> None:
    async def scenario(lab: Lab) -> None:
        _ = await lab.connect(server.url(f"table={table}"))
        link.execute(
            f"""DROP FUNCTION {table}_v4_lift;
            ALTER TABLE {table}_locks DROP COLUMN inbox, DROP COLUMN turn;
            ALTER TABLE {table}_waiters ALTER COLUMN place DROP DEFAULT;
            ALTER TABLE {table}_waiters ALTER COLUMN place ADD GENERATED ALWAYS AS IDENTITY,
              SET LOGGED;
            DROP SEQUENCE {table}_place;
            INSERT INTO {table}_waiters (owner, name, ttl, since, seen_at, lapsed, inbox, meta)
              SELECT name, name, 30, now(), now(), false, '', '{{}}'
              FROM unnest(array['a', 'b']) AS name""".encode()
        )
        client = await lab.connect(server.url(f"table={table}"))
        lease = await client.lock("seat").acquire()
        waiting = lab.start(client.lock("seat").acquire(timeout=SOON))
        await lab.until_queued(client, "seat", 1)
        places = f"SELECT place FROM {table}_waiters ORDER BY place"
        assert link.execute(places.encode()).fetchall() == [(1,), (2,), (3,)]
        assert await lease.release() is True
        assert await (await waiting.result()).release() is True
        kept = f"SELECT relpersistence FROM pg_class WHERE relname = '{table}_waiters'"
        assert link.execute(kept.encode()).fetchone() == ("u",)

    run(flavor, scenario)


def test_clients_of_older_versions_follow_the_new_protocol(
    server: Postgresql, table: str, link: Link
) -> None:
    """What they call would empty a queue under those who join it, and is made to call ours."""
    acquire = f"""{table}_v%s_acquire(p_name text, p_owner text, p_ttl double precision,
        p_meta text, p_queue boolean, p_inbox text, p_alone boolean, OUT r_fence bigint,
        OUT r_remaining double precision, OUT r_place bigint, OUT r_holder text)"""
    leave = (
        f"{table}_v%s_leave(p_name text, p_owner text%s, OUT r_held boolean, OUT r_queued boolean)"
    )
    body = "AS $$ BEGIN END $$ LANGUAGE plpgsql"
    for version, more in (1, ""), (2, ", p_alone boolean"):
        link.execute(f"CREATE FUNCTION {acquire % version} {body}".encode())
        link.execute(f"CREATE FUNCTION {leave % (version, more)} {body}".encode())
    with fencelock.connect(server.url(f"table={table}")) as client:
        for version, more in (1, ""), (2, ", true"):
            lease = client.lock("seat").acquire()
            ask = f"{table}_v{version}_acquire('seat', 'older', 30, '{{}}', true, '', true)"
            assert _one(link, f"SELECT r_fence, r_place FROM {ask}") == (0, 0)
            assert lease.release() is True
            fence, _ = _one(link, f"SELECT r_fence, r_place FROM {ask}")
            assert fence > lease.fence
            left = f"{table}_v{version}_leave('seat', 'older'{more})"
            assert _one(link, f"SELECT * FROM {left}") == (True, False)
            assert _one(link, f"SELECT * FROM {table}_v{version}_settle('')") is None
            assert _one(link, f"SELECT {table}_v{version}_revoke('seat', '')") == (False,)


def test_clients_of_the_version_before_hand_on_as_we_do(
    server: Postgresql, table: str, link: Link
) -> None:
    """Theirs could pass over a waiter that was just joining anew."""
    url = server.url(f"table={table}")
    with fencelock.connect(url) as client:
        client.lock("seat").acquire().release()
    link.execute(
        f"""CREATE FUNCTION {table}_v3_hand_on(p_name text) RETURNS {table}_locks
        AS $$ BEGIN END $$ LANGUAGE plpgsql;
        DROP FUNCTION {table}_v4_lift""".encode()
    )
    with fencelock.connect(url):
        assert _one(link, f"SELECT name, owner FROM {table}_v3_hand_on('seat')") == ("seat", "")


def _one(link: Link, sql: str) -> Any:
    return link.execute(sql.encode()).fetchone()
