"""``mode=lease``: semaphores and read/write locks, what is remembered, and who observes a name."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from contextlib import suppress
from multiprocessing.sharedctypes import Synchronized
from secrets import token_hex
from typing import Any

import psycopg
import pytest

import fencelock
import fencelock.sql
from fencelock import Denied, Misconfigured, OutcomeUnknown, Unavailable, UsageError
from fencelock._client.lock_options import READ, WRITE
from fencelock.engines.postgresql import tables
from fencelock.engines.postgresql.statements import LOCK_CLASS
from fencelock.model import Busy, Gone, Grant, Request, Share
from tests.engines.postgresql.gate import engine_of
from tests.faults.flavors import SOON, Lab, run
from tests.servers.postgresql import USER, Postgresql
from tests.servers.proxy import Proxy

Link = psycopg.Connection[Any]

ONE, TWO = Share("semaphore", 1, 1), Share("semaphore", 1, 2)


def wish(share: Share | None, name: str = "seat", ttl: float = 30.0) -> Request:
    """A new owner's request."""
    return Request(name, token_hex(16), ttl, share=share)


def got(answer: Grant | Busy) -> Grant:
    assert isinstance(answer, Grant), answer
    return answer


async def take(client: Any, share: Share, name: str = "seat", ttl: float = 30.0) -> Grant:
    return got(await engine_of(client).acquire(wish(share, name, ttl)))


async def is_busy(client: Any, share: Share, name: str = "seat") -> bool:
    return isinstance(await engine_of(client).acquire(wish(share, name)), Busy)


async def queue(client: Any, share: Share, name: str = "seat", ttl: float = 30.0) -> Request:
    """Join the queue as a new owner, which listens if its client does."""
    engine = engine_of(client)
    request = wish(share, name, ttl)._replace(queue=True)
    await engine.watch(request, engine.world.signal())
    assert isinstance(await engine.acquire(request), Busy)
    return request


async def until_granted(lab: Lab, client: Any, request: Request) -> Grant:
    """Look, now and then, until a waiter has its share."""
    found: list[Grant] = []

    async def look() -> None:
        while not found:
            engine = engine_of(client)
            answer = engine.pushed_grant(request) or await engine.acquire(request)
            if isinstance(answer, Grant):
                found.append(answer)
            else:
                await lab.let_pass(0.02)

    await lab.start(look()).result()
    return found[0]


def books_are_right(link: Link, table: str) -> bool:
    """Whether each name knows how many units are free, which slots are, and the first end."""
    wrong = link.execute(
        f"""SELECT n.* FROM {table}_share_names n LEFT JOIN (
            SELECT name, kind, sum(units) AS units, min(expires_at) AS ends_at,
              array_agg(slot ORDER BY slot) FILTER (WHERE slot IS NOT NULL) AS slots
            FROM {table}_shares GROUP BY name, kind) s ON s.name = n.name AND s.kind = n.kind
        WHERE n.free <> n.capacity - coalesce(s.units, 0) OR n.ends_at > s.ends_at
          OR coalesce(s.slots, '{{}}') <> ARRAY(SELECT i
            FROM generate_series(0, length(n.slots) - 1) AS i
            WHERE get_bit(n.slots, i) = 1)""".encode()
    ).fetchall()
    assert not wrong, wrong
    return True


def end_all(link: Link, table: str) -> None:
    """Let the time of all shares be over."""
    for which, column in (("shares", "expires_at"), ("share_names", "ends_at")):
        link.execute(f"UPDATE {table}_{which} SET {column} = clock_timestamp()".encode())


def count(link: Link, table: str, which: str) -> int:
    row = link.execute(f"SELECT count(*) FROM {table}_{which}".encode()).fetchone()
    assert row is not None
    return int(row[0])


def test_names_that_look_alike_and_kinds_are_apart(
    flavor: str, server: Postgresql, table: str, link: Link
) -> None:
    names = [
        "seat",
        "seat ",
        " seat",
        "SEAT",
        "seat_shares",
        "semaphore",
        "rwlock",
        "seat%",
        "séat",
    ]
    names += ["se\u0301at", "seat\\", 'seat"', "seat,{}", "{seat}"]

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(server.url(f"table={table}"))
        other = await lab.connect(server.url(f"table={table}"))
        engine = engine_of(client)
        grants = [await take(client, share, name) for name in names for share in (ONE, WRITE)]
        grants += [got(await engine.acquire(wish(None, name))) for name in names]
        for name in names:
            assert await is_busy(other, ONE, name)
            assert await is_busy(other, READ, name)
            assert sorted(h.role for h in await other.holders(name)) == [
                "lock", "semaphore", "write",
            ]  # fmt: skip
        renewed = await engine.renew(grants)
        assert [(g.name, g.fence, g.share) for g in renewed] == [
            (g.name, g.fence, g.share) for g in grants
        ]
        assert len(await other.scan()) == 3 * len(names)
        for grant in grants:
            assert await engine.release(grant) is True
        assert books_are_right(link, table)

    run(flavor, scenario)


def test_tables_that_are_called_alike_are_apart(
    flavor: str, server: Postgresql, table: str
) -> None:
    async def scenario(lab: Lab) -> None:
        for name in (table, f"{table}_share", f"{table}_shares", f"{table}_share_queue"):
            client = await lab.connect(server.url(f"table={name}"))
            await take(client, ONE)
            await take(client, WRITE)
            assert await is_busy(client, ONE)
            async with client.lock("seat"):
                pass

    run(flavor, scenario)


def test_a_holder_that_asks_twice_takes_one_share(
    flavor: str, server: Postgresql, table: str, link: Link
) -> None:
    async def scenario(lab: Lab) -> None:
        client = await lab.connect(server.url(f"table={table}"))
        request = wish(Share("semaphore", 1, 3))
        engine = engine_of(client)
        first = got(await engine.acquire(request))
        jobs = [lab.start(engine.acquire(request)) for _ in range(8)]
        for again in [got(await job.result()) for job in jobs]:
            assert (again.fence, again.share) == (first.fence, first.share)
        assert books_are_right(link, table)
        slots = [(await take(client, Share("semaphore", 1, 3))).share for _ in range(2)]
        assert [share and share.slot for share in slots] == [1, 2]
        assert await is_busy(client, Share("semaphore", 1, 3))

    run(flavor, scenario)


@pytest.mark.parametrize("push", ["yes", "no"])
def test_what_is_handed_over_and_not_claimed_goes_to_the_next(
    push: str, flavor: str, server: Postgresql, table: str, link: Link
) -> None:
    """Who did not claim is passed over until it looks again, and keeps its position."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(server.url(f"table={table}&push={push}"))
        rival = await lab.connect(server.url(f"table={table}&push=no"))
        held = await take(client, ONE)
        idle = await queue(rival, ONE)
        next_one = await queue(client, ONE)
        await engine_of(client).release(held)
        assert count(link, table, "shares") == 1, "it was not handed over"
        taken = await until_granted(lab, client, next_one)
        assert taken.fence > held.fence
        last = await queue(client, ONE)
        answer = await engine_of(rival).acquire(idle)
        assert isinstance(answer, Busy)
        assert answer.position == 0
        await engine_of(client).release(taken)
        assert got(await engine_of(rival).acquire(idle)).fence > taken.fence
        await engine_of(client).withdraw(last)
        assert books_are_right(link, table)

    run(flavor, scenario)


def test_a_reader_that_died_holds_up_a_writer_for_its_ttl_and_no_other_reader(
    flavor: str, server: Postgresql, table: str, link: Link
) -> None:
    async def scenario(lab: Lab) -> None:
        dead, client = [await lab.connect(server.url(f"table={table}")) for _ in range(2)]
        await take(dead, READ, ttl=1.0)
        await engine_of(dead).close()
        kept = await take(client, READ)
        writer = await queue(client, WRITE)
        ended = f"SELECT 1 FROM {table}_shares WHERE units = 1 AND expires_at > now()".encode()
        await lab.until(lambda: len(link.execute(ended).fetchall()) == 1, "the end of a share")
        assert isinstance(await engine_of(client).acquire(writer), Busy), "beside a reader"
        (renewed,) = await engine_of(client).renew([kept])
        assert isinstance(renewed, Grant)
        assert await engine_of(client).release(kept) is True
        assert (await until_granted(lab, client, writer)).fence > kept.fence
        assert books_are_right(link, table)

    run(flavor, scenario)


def test_a_waiting_writer_whose_client_died_keeps_no_reader_waiting(
    flavor: str, server: Postgresql, table: str
) -> None:
    async def scenario(lab: Lab) -> None:
        dead, client = [await lab.connect(server.url(f"table={table}")) for _ in range(2)]
        await take(client, READ)
        await queue(dead, WRITE)
        waiting = await queue(client, READ)
        assert await is_busy(client, READ), "it overtook a writer that waits"
        await engine_of(dead).close()
        newcomer = await until_granted(lab, client, wish(READ))
        assert (await until_granted(lab, client, waiting)).fence < newcomer.fence

    run(flavor, scenario)


def test_a_contended_turn_of_a_semaphore_takes_one_request_to_queue_and_one_to_release(
    flavor: str, proxy: Proxy, server: Postgresql, table: str
) -> None:
    """The notification has the slot."""

    async def scenario(lab: Lab) -> None:
        rival = await lab.connect(server.url(f"table={table}"))
        client = await lab.connect(f"postgresql://{USER}@{proxy.address}/postgres?table={table}")
        engine = engine_of(client)
        zero, one = await take(rival, TWO), await take(rival, TWO)
        fewest = (99, 0)
        for _ in range(20):  # the first open and prepare what is needed, and one may be held up
            proxy.count_from_now()
            request, signal = wish(TWO)._replace(queue=True), engine.world.signal()
            await engine.watch(request, signal)
            assert isinstance(await engine.acquire(request), Busy)
            back = await queue(rival, TWO)
            await engine_of(rival).release(one)
            await lab.start(engine.wait(signal, engine.world.now() + SOON)).result()
            handed = await until_granted(lab, client, request)
            assert handed.share == TWO._replace(slot=1)
            await engine.unwatch(request)
            assert await engine.release(handed) is True
            one = await until_granted(lab, rival, back)
            fewest = min(fewest, (proxy.requests, proxy.connections))
            if fewest == (2, 0):
                break
        assert fewest == (2, 0)
        assert one.fence > zero.fence

    run(flavor, scenario)


def test_64_readers_make_no_pair_dearer(
    flavor: str, server: Postgresql, proxy: Proxy, table: str, link: Link
) -> None:
    """One request each, and no row of another holder is read."""
    way = f"postgresql://{USER}@{proxy.address}/postgres?table={table}"
    read = f"SELECT idx_tup_fetch + seq_tup_read FROM pg_stat_user_tables WHERE relname = '{table}_"

    def rows_read() -> int:
        link.execute("SELECT pg_stat_clear_snapshot()")
        found = link.execute(f"{read}shares'".encode()).fetchone()
        assert found is not None
        return int(found[0])

    async def crowd(lab: Lab) -> None:
        client = await lab.connect(server.url(f"table={table}"))
        for _ in range(64):
            await take(client, READ, ttl=600)

    async def pairs(lab: Lab) -> None:
        client = await lab.connect(way)
        await engine_of(client).release(await take(client, READ, ttl=600))
        proxy.count_from_now()
        for _ in range(10):
            await engine_of(client).release(await take(client, READ, ttl=600))
        assert (proxy.requests, proxy.connections) == (20, 0)

    others = _sessions(link)
    run(flavor, crowd)
    _await_end(link, others)
    before = rows_read()
    run(flavor, pairs)
    _await_end(link, others)
    assert rows_read() - before <= 2 * 11, "rows of others are read"


def _sessions(link: Link) -> set[int]:
    """The sessions of clients, those of other tests too."""
    all_ = link.execute("SELECT pid FROM pg_stat_activity WHERE application_name = 'fencelock'")
    return {int(pid) for (pid,) in all_.fetchall()}


def _await_end(link: Link, others: set[int]) -> None:
    """Wait until no sessions but these are left: they leave their statistics at their end."""
    for _ in range(int(SOON / 0.05)):
        if _sessions(link) <= others:
            return
        link.execute("SELECT pg_sleep(0.05)")
    raise AssertionError("a session is still there")


def test_fences_and_holders_survive_a_crash_of_the_server(flavor: str) -> None:
    async def scenario(lab: Lab) -> None:
        with Postgresql(settings={"wal_writer_delay": "10s"}) as server:
            client = await lab.connect(server.url("request_timeout=1"))
            held = [await take(client, TWO) for _ in range(2)]
            await engine_of(client).remember("seat", "done", 7, 60.0)
            server.kill()
            server.start()
            client = await lab.connect(server.url("request_timeout=1"))
            with suppress(OutcomeUnknown):
                await is_busy(client, TWO)
            assert await is_busy(client, TWO)
            assert await engine_of(client).recall("seat") == {"done": 7}
            assert await engine_of(client).release(held[0]) is True
            again = await take(client, TWO)
            assert again.fence > max(grant.fence for grant in held)
            assert again.share == held[0].share

    run(flavor, scenario)


def test_unused_names_go_and_their_fences_do_not_go_back(
    flavor: str, server: Postgresql, table: str, link: Link
) -> None:
    """Even if the clock that lifts fences has been set back meanwhile."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(server.url(f"table={table}"))
        await engine_of(client).release(await take(client, ONE))
        await take(client, READ, "left", ttl=0.05)
        await engine_of(client).remember("seat", "done", 1, 0.05)
        high = 2**52
        long_ago = "now() - interval '2 minutes'"
        link.execute(
            f"UPDATE {table}_share_names SET fence = {high}, used_at = {long_ago}".encode()
        )
        link.execute(f"UPDATE {table}_shares SET expires_at = {long_ago}".encode())
        link.execute(
            f"UPDATE {table}_share_names SET ends_at = {long_ago} WHERE name = 'left'".encode()
        )
        link.execute(f"UPDATE {table}_memos SET until = {long_ago}".encode())
        _ = await lab.connect(server.url(f"table={table}"))  # who comes tidies up
        assert count(link, table, "shares") == count(link, table, "memos") == 0
        assert count(link, table, "share_names") == 1, "a name goes once nobody has used it"
        assert (await take(client, ONE)).fence == high + 1
        link.execute(f"UPDATE {table}_share_names SET used_at = {long_ago}".encode())
        _ = await lab.connect(server.url(f"table={table}"))
        assert count(link, table, "share_names") == 1, "one is in use"
        assert (await take(client, READ, "left")).fence == high + 1
        async with client.lock("seat") as lease:
            assert lease.fence == high + 1

    run(flavor, scenario)


def test_a_limit_lasts_while_somebody_holds_or_waits(
    flavor: str, server: Postgresql, table: str, link: Link
) -> None:
    async def scenario(lab: Lab) -> None:
        client = await lab.connect(server.url(f"table={table}"))
        engine = engine_of(client)
        await take(client, ONE)
        waiting = await queue(client, ONE)
        for limit, request in ((2, wish(TWO)), (3, wish(Share("semaphore", 1, 3)))):
            with pytest.raises(UsageError, match=f"limit=1, and limit={limit} was"):
                await engine.acquire(request._replace(queue=True))
        end_all(link, table)
        held = await until_granted(lab, client, waiting)
        with pytest.raises(UsageError, match="limit=1"):
            await engine.acquire(wish(TWO))
        await engine.release(held)
        first, second = await take(client, TWO), await take(client, TWO)
        assert (first.share, second.share) == (TWO._replace(slot=0), TWO._replace(slot=1))
        end_all(link, table)
        assert (await take(client, ONE)).fence > second.fence, "those who held are gone"

    run(flavor, scenario)


def test_a_share_that_is_renewed_for_less_ends_sooner(
    flavor: str, server: Postgresql, table: str
) -> None:
    async def scenario(lab: Lab) -> None:
        client = await lab.connect(server.url(f"table={table}"))
        held = await take(client, ONE, ttl=600)
        lock = got(await engine_of(client).acquire(wish(None)))
        gone = held._replace(owner=token_hex(16))
        waiting = await queue(client, ONE)
        answers = await engine_of(client).renew([lock, held._replace(ttl=0.5), gone])
        assert [type(answer) for answer in answers] == [Grant, Grant, Gone]
        assert (await until_granted(lab, client, waiting)).fence > held.fence
        assert await engine_of(client).release(held) is False

    run(flavor, scenario)


@pytest.fixture
def mine(server: Postgresql) -> Iterator[Link]:
    """The caller's connection, with transactions."""
    with psycopg.connect(server.conninfo) as connection:
        yield connection
        connection.rollback()


def test_a_verified_transaction_protects_shares_that_have_ended(
    server: Postgresql, table: str, link: Link, mine: Link
) -> None:
    url = server.url(f"table={table}&request_timeout=5")
    with fencelock.connect(url) as client, fencelock.connect(url) as rival:
        lock = rival.rwlock("seat", ttl=30)
        lease = client.rwlock("seat", ttl=30, renew=False).read().acquire()
        fencelock.sql.verify(mine, lease)
        end_all(link, table)
        assert lock.write().try_acquire() is None
        lock.read().acquire().release()  # others may read, and what is free is not kept
        mine.commit()
        lock.write().acquire(timeout=0).release()
        assert lease.release() is False
        lease = client.rwlock("seat", ttl=30, renew=False).write().acquire()
        fencelock.sql.verify(mine, lease)
        with pytest.raises(Unavailable, match="was not revoked"):
            rival.revoke("seat", "test")
        mine.commit()
        assert rival.revoke("seat", "test") is True
        with pytest.raises(fencelock.LeaseLost):
            fencelock.sql.verify(mine, lease)
        mine.rollback()
        assert lease.release() is False


def test_tables_of_an_older_release_get_what_is_missing(
    flavor: str, server: Postgresql, table: str, link: Link
) -> None:
    link.execute(tables.store(table, "public").encode())

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(server.url(f"table={table}"))
        await engine_of(client).release(await take(client, ONE))
        await engine_of(client).remember("seat", "done", 1, 60.0)

    run(flavor, scenario)


@pytest.fixture
def role(link: Link, table: str) -> Iterator[str]:
    """A role that may use what was made before, and make nothing."""
    link.execute(tables.store(table, "public").encode())
    link.execute(f"CREATE ROLE {table} LOGIN".encode())
    grant(link, table)
    yield table
    link.execute(f"DROP OWNED BY {table}; DROP ROLE {table}".encode())


def grant(link: Link, role: str) -> None:
    for kind in ("TABLES", "SEQUENCES"):
        link.execute(f"GRANT ALL ON ALL {kind} IN SCHEMA public TO {role}".encode())


def test_a_role_without_rights_to_what_is_new_goes_on_locking(
    flavor: str, server: Postgresql, table: str, link: Link, role: str
) -> None:
    url = server.url(f"table={table}").replace(f"//{USER}@", f"//{role}@")

    async def locks(lab: Lab) -> None:
        client, rival = [await lab.connect(url) for _ in range(2)]
        lease = await client.lock("seat", ttl=0.5, renew=False).acquire()
        waiting = lab.start(rival.lock("seat").acquire(timeout=SOON))
        other = await waiting.result()
        assert other.fence > lease.fence
        assert len(await client.scan()) == len(await client.holders("seat")) == 1
        assert await client.revoke("seat", "test") is True
        assert await lease.release() is await other.release() is False

    async def refused(lab: Lab) -> None:
        await locks(lab)
        client = await lab.connect(url)
        with pytest.raises((Misconfigured, Denied), match="fencelock schema postgresql"):
            await take(client, ONE)
        with pytest.raises((Misconfigured, Denied), match="fencelock schema postgresql"):
            await engine_of(client).remember("seat", "done", 1, 60.0)

    async def served(lab: Lab) -> None:
        await locks(lab)
        client = await lab.connect(url)
        await take(client, ONE)
        await engine_of(client).remember("seat", "done", 1, 60.0)

    run(flavor, refused)  # they are missing
    link.execute(tables.schema(table).encode())
    run(flavor, refused)  # they are there, and not for this role
    grant(link, role)
    run(flavor, served)


def test_observers_are_told_again_after_their_connection_was_lost(
    flavor: str, server: Postgresql, table: str, link: Link
) -> None:
    async def scenario(lab: Lab) -> None:
        client = await lab.connect(server.url(f"table={table}&application_name={table}"))
        other = await lab.connect(server.url(f"table={table}&push=no"))
        engine = engine_of(client)
        signal = engine.world.signal()
        await engine.observe("seat * é", signal)
        signal.clear()
        link.execute(
            f"""SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity
            JOIN pg_locks USING (pid) WHERE application_name = '{table}'
            AND locktype = 'advisory' AND classid::bigint = {LOCK_CLASS}""".encode()
        )
        await lab.until(signal.is_set, "an observer that was cut off to be told to look")
        signal.clear()
        await engine_of(other).announce("seat *")
        await engine_of(other).announce("seat * é")
        await lab.until(signal.is_set, "an observer to be told")
        await engine.unobserve("seat * é", signal)

    run(flavor, scenario)


Counter = Any  # a Synchronized[int], which spawn hands to a child


def _storm(url: str, turns: int, inside: list[Counter], wrong: Counter) -> None:
    """Read, write and take slots; each sees who else is inside."""
    readers, writers, *slots = inside

    def enter(mine: Counter, *, alone: list[Counter]) -> None:
        with readers.get_lock():  # one lock for all of them
            if any(counter.value for counter in alone):
                wrong.value += 1
            mine.value += 1

    def leave(mine: Counter) -> None:
        with readers.get_lock():
            mine.value -= 1

    with fencelock.connect(url) as client:
        lock, semaphore = client.rwlock("seat", timeout=60), client.semaphore("seat", limit=2)
        for turn in range(turns):
            with lock.write() if turn % 4 == 0 else lock.read() as lease:
                mine = writers if lease.role == "write" else readers
                enter(mine, alone=[writers] if mine is readers else [readers, writers])
                leave(mine)
            with semaphore.acquire(timeout=60) as lease:
                mine = slots[lease.slot or 0]
                enter(mine, alone=[mine])
                leave(mine)


def test_processes_never_write_beside_others_nor_share_a_slot(
    server: Postgresql, table: str, link: Link
) -> None:
    spawn = multiprocessing.get_context("spawn")
    inside: list[Synchronized[int]] = [spawn.Value("i", 0) for _ in range(4)]
    wrong = spawn.Value("i", 0)
    urls = [server.url(f"table={table}&push={push}") for push in ("yes", "yes", "no")]
    with fencelock.connect(urls[0]):
        processes = [spawn.Process(target=_storm, args=(url, 30, inside, wrong)) for url in urls]
        for process in processes:
            process.start()
        for process in processes:
            process.join(120)
        assert [process.exitcode for process in processes] == [0, 0, 0]
    assert wrong.value == 0
    assert books_are_right(link, table)
    assert count(link, table, "shares") == count(link, table, "share_queue") == 0
