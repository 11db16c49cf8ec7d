"""``mode=lease``: semaphores and read/write locks, what is remembered, and who observes a name."""

from __future__ import annotations

import asyncio
import multiprocessing
import time
from collections.abc import Sequence
from multiprocessing.sharedctypes import Synchronized
from secrets import token_hex
from typing import Any

import pytest

import fencelock
import fencelock.sql
from fencelock import Denied, LeaseLost, UsageError, aio
from fencelock._client.lock_options import READ, WRITE
from fencelock.engines.mysql import lease_sql, tables
from fencelock.engines.mysql.literals import NOW
from fencelock.errors import OutcomeUnknown
from fencelock.model import Busy, Gone, Grant, Request, Share
from fencelock.worlds.threads import drive
from tests.faults.flavors import Lab, run
from tests.servers.mariadb import PASSWORD, SqlServer
from tests.servers.proxy import Proxy

ONE, TWO, THREE = (Share("semaphore", 1, limit) for limit in (1, 2, 3))


def engine_of(client: Any) -> Any:
    return client._core.engine


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


async def queue(client: Any, share: Share, name: str = "seat") -> Request:
    """Join the queue as a new owner whose client listens."""
    engine = engine_of(client)
    request = wish(share, name)._replace(queue=True)
    await engine.watch(request, engine.world.signal())
    assert isinstance(await engine.acquire(request), Busy)
    return request


async def until_granted(lab: Lab, client: Any, request: Request) -> Grant:
    """Look, now and then, until a waiter has its share."""
    found: list[Grant] = []

    async def look() -> None:
        while not found:
            answer = await engine_of(client).acquire(request)
            if isinstance(answer, Grant):
                found.append(answer)
            else:
                await lab.let_pass(0.02)

    await lab.start(look()).result()
    return found[0]


def count(server: SqlServer, table: str, which: str) -> int:
    return int(server.ask(f"SELECT COUNT(*) FROM locks.{table}_{which}")[0][0])


def end_now(server: SqlServer, table: str, grant: Grant) -> None:
    """Have a share be over, as if its time had passed."""
    past = f"{NOW} - 1"
    server.ask(f"UPDATE locks.{table}_shares SET expires_at = {past} WHERE owner = '{grant.owner}'")
    server.ask(f"UPDATE locks.{table}_share_names SET ends_at = {past}")


def books_are_right(server: SqlServer, table: str) -> bool:
    """Whether each name knows how many units are free, which slots are, and the first end."""
    names = server.ask(f"SELECT name,capacity,free,slots,ends_at FROM locks.{table}_share_names")
    shares = server.ask(f"SELECT name,units,slot,expires_at FROM locks.{table}_shares")
    for name, capacity, free, slots, ends_at in names:
        mine = [row for row in shares if row[0] == name]
        assert free == capacity - sum(units for _, units, _, _ in mine), (name, mine)
        held = sorted(slot for _, _, slot, _ in mine if slot is not None)
        assert [at for at, bit in enumerate(slots) if bit == ord("1")] == held, (name, slots)
        assert all(ends_at <= end for *_, end in mine), (name, mine)
    return True


def test_names_that_look_alike_and_kinds_are_apart(
    flavor: str, server: SqlServer, table: str
) -> None:
    names = ["a", "A", "a ", " a", "ä", "a\u0308", "Ä", "s", "sa", "ra", "a%", "a_", "a\\", "a'"]

    async def scenario(lab: Lab) -> None:
        client, other = [await lab.connect(server.url(), table=table) for _ in range(2)]
        engine = engine_of(client)
        grants = [await take(client, share, name) for name in names for share in (ONE, WRITE)]
        grants += [got(await engine.acquire(wish(None, name))) for name in names]
        for number, name in enumerate(names):
            assert await is_busy(other, ONE, name)
            assert await is_busy(other, READ, name)
            roles = sorted(holding.role for holding in await other.holders(name))
            assert roles == ["lock", "semaphore", "write"]
            await engine.remember(name, "A", number, 60.0)
            await engine.remember(name, "a ", number + 1, 60.0)
        for number, name in enumerate(names):
            assert await engine.recall(name) == {"A": number, "a ": number + 1}
        renewed = await engine.renew(grants)
        assert [(g.name, g.fence, g.share) for g in renewed] == [
            (g.name, g.fence, g.share) for g in grants
        ]
        assert len(await other.scan()) == 3 * len(names)
        assert len(await other.scan("s")) == 2 * 3
        for grant in grants:
            assert await engine.release(grant) is True
        assert books_are_right(server, table)

    run(flavor, scenario)


def test_tables_that_are_called_alike_are_apart(flavor: str, server: SqlServer, table: str) -> None:
    async def scenario(lab: Lab) -> None:
        for name in (table, f"{table}_share", f"{table}_shares", f"{table}_share_queue"):
            client = await lab.connect(server.url(), table=name)
            assert not await engine_of(client).recall("seat")
            await engine_of(client).remember("seat", "done", 1, 60.0)
            await take(client, ONE)
            await take(client, WRITE)
            assert await is_busy(client, ONE)
            async with client.lock("seat"):
                pass

    run(flavor, scenario)


def test_a_holder_that_asks_twice_takes_one_share(
    flavor: str, server: SqlServer, table: str
) -> None:
    async def scenario(lab: Lab) -> None:
        client = await lab.connect(server.url(), table=table, pool=4)
        engine = engine_of(client)
        await engine.release(await take(client, THREE))  # from now on the short way serves
        request = wish(THREE)
        jobs = [lab.start(engine.acquire(request)) for _ in range(8)]
        first, *others = [got(await job.result()) for job in jobs]
        assert {(g.fence, g.share) for g in others} == {(first.fence, first.share)}
        assert books_are_right(server, table)
        slots = [(await take(client, THREE)).share for _ in range(2)]
        assert [share and share.slot for share in slots] == [1, 2]
        assert await is_busy(client, THREE)

    run(flavor, scenario)


def test_a_take_whose_answer_was_lost_is_found_again(
    flavor: str, server: SqlServer, table: str
) -> None:
    with Proxy(server.port) as proxy:

        async def scenario(lab: Lab) -> None:
            client = await lab.connect(server.url(port=proxy.port), table=table, request_timeout=3)
            engine = engine_of(client)
            for share, then_cut in ((TWO, True), (WRITE, False)):
                await engine.release(await take(client, share))
                request = wish(share)
                proxy.lose_next_reply(then_cut=then_cut)
                with pytest.raises(OutcomeUnknown):
                    await engine.acquire(request)
                found = f"SELECT fence FROM locks.{table}_shares WHERE owner='{request.owner}'"
                taken = server.ask(found)
                assert taken or then_cut, "a server whose client is there runs it to the end"
                grant = got(await engine.acquire(request))
                assert server.ask(found) == [(grant.fence,)]
                assert taken in ([], [(grant.fence,)]), "it was taken again"
                assert books_are_right(server, table)
                assert await engine.release(grant) is True
            assert count(server, table, "shares") == 0

        run(flavor, scenario)


def test_what_is_handed_over_and_not_claimed_goes_to_the_next(
    flavor: str, server: SqlServer, table: str
) -> None:
    """Who did not claim is passed over until it looks again, and keeps its position."""

    async def scenario(lab: Lab) -> None:
        client, rival = [await lab.connect(server.url(), table=table) for _ in range(2)]
        held = await take(client, ONE)
        idle = await queue(rival, ONE)
        next_one, last = await queue(client, ONE), await queue(client, ONE)
        await engine_of(client).release(held)
        assert count(server, table, "shares") == 1, "it was not handed over"
        taken = await until_granted(lab, client, next_one)
        assert taken.fence > held.fence
        waiting = server.ask(f"SELECT owner FROM locks.{table}_share_queue ORDER BY place")
        assert waiting == [(one.owner.encode(),) for one in (idle, last)], "it was forgotten"
        answer = await engine_of(rival).acquire(idle)
        assert isinstance(answer, Busy)
        assert answer.position == 0
        await engine_of(client).release(taken)
        assert got(await engine_of(rival).acquire(idle)).fence > taken.fence
        assert books_are_right(server, table)

    run(flavor, scenario)


def test_those_who_fit_are_served_together_and_the_first_that_does_not_holds_up_the_rest(
    flavor: str, server: SqlServer, table: str
) -> None:
    async def scenario(lab: Lab) -> None:
        clients = [await lab.connect(server.url(), table=table) for _ in range(3)]
        brisk = await lab.connect(server.url(), table=table)  # it has met nobody who waits
        await engine_of(brisk).release(await take(brisk, READ))
        writer = await take(clients[0], WRITE)
        readers = [await queue(client, READ) for client in clients]
        second = await queue(clients[0], WRITE)
        late = await queue(clients[1], READ)
        await engine_of(clients[0]).release(writer)
        grants = [
            await until_granted(lab, client, request)
            for client, request in zip(clients, readers, strict=True)
        ]
        for client, request in ((clients[0], second), (clients[1], late)):
            assert isinstance(await engine_of(client).acquire(request), Busy)
        for client in (brisk, clients[2]):
            assert await is_busy(client, READ), "it overtook a writer that waits"
        for client, grant in zip(clients, grants, strict=True):
            assert await engine_of(client).release(grant) is True
        again = await until_granted(lab, clients[0], second)
        assert isinstance(await engine_of(clients[1]).acquire(late), Busy)
        (again,) = await engine_of(clients[0]).renew([again])
        request = Request("seat", again.owner, again.ttl, share=READ)
        downgraded = got(await engine_of(clients[0]).acquire(request))
        assert (downgraded.fence, downgraded.share) == (again.fence, READ)
        await until_granted(lab, clients[1], late)
        assert books_are_right(server, table)

    run(flavor, scenario)


def test_a_dead_holder_is_passed_over_and_no_other(
    flavor: str, server: SqlServer, table: str
) -> None:
    """Also where more have died than one packet takes away."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(server.url(), table=table)
        dead = [await take(client, READ) for _ in range(40)]
        kept = await take(client, READ)
        for grant in dead:
            end_now(server, table, grant)
        end_now(server, table, kept)  # its row says so, and it was renewed
        later = f"{NOW} + 60000000"
        server.ask(f"INSERT INTO locks.{table}_renewals VALUES ('{kept.owner}', 60000000, {later})")
        answers = await engine_of(client).renew([dead[0], kept])
        assert [type(answer) for answer in answers] == [Gone, Grant], "it was over"
        assert await is_busy(client, WRITE)
        assert server.ask(f"SELECT owner FROM locks.{table}_shares") == [(kept.owner.encode(),)]
        answers = await engine_of(client).renew([dead[0], kept])
        assert [type(answer) for answer in answers] == [Gone, Grant]
        assert await engine_of(client).release(kept) is True
        assert (await take(client, WRITE)).fence > kept.fence

    run(flavor, scenario)


def test_a_renewal_extends_what_it_is_asked_for_alone(
    flavor: str, server: SqlServer, table: str
) -> None:
    """Not the shares of others, which may have died, nor what the same owner has of other kinds."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(server.url(), table=table)
        engine = engine_of(client)
        mine, _ = await take(client, READ), await take(client, READ)
        assert [got(answer).fence for answer in await engine.renew([mine])] == [mine.fence]
        renewals = f"SELECT owner FROM locks.{table}_renewals"
        assert server.ask(renewals) == [(mine.owner.encode(),)]
        (answer,) = await engine.renew([mine._replace(share=ONE)])
        assert isinstance(answer, Gone), "it was renewed as another kind"

    run(flavor, scenario)


def test_a_waiting_writer_whose_client_died_keeps_no_reader_waiting(
    flavor: str, server: SqlServer, table: str
) -> None:
    async def scenario(lab: Lab) -> None:
        dead, client = [await lab.connect(server.url(), table=table) for _ in range(2)]
        await take(client, READ)
        await queue(dead, WRITE)
        lock = client.rwlock("seat", timeout=30).read()
        waiting = lab.start(lock.acquire())
        await lab.until_queued(client, "seat", 2)
        assert await is_busy(client, READ), "it overtook a writer that waits"
        await engine_of(dead).close()
        await (await waiting.result()).release()

    run(flavor, scenario)


def test_acquire_and_release_are_one_round_trip_each_beside_many_readers(
    flavor: str, server: SqlServer, table: str
) -> None:
    with Proxy(server.port) as proxy:

        async def scenario(lab: Lab) -> None:
            client = await lab.connect(server.url(port=proxy.port), table=table)
            engine = engine_of(client)
            await take(client, READ, ttl=600)  # the first makes the tables
            for share in (READ, TWO):
                proxy.count_from_now()
                grant = await take(client, share, "new", ttl=600)
                assert await engine.release(grant) is True
                assert proxy.requests == 2
            for _ in range(32):
                await take(client, READ, ttl=600)
            proxy.count_from_now()
            for share in (READ, TWO, READ, TWO):
                assert await engine.release(await take(client, share, ttl=600)) is True
            assert proxy.requests == 8
            assert books_are_right(server, table)

        run(flavor, scenario)


def test_a_pool_of_one_connection_serves_many_waiters(
    flavor: str, server: SqlServer, table: str
) -> None:
    async def scenario(lab: Lab) -> None:
        clients = [await lab.connect(server.url(), table=table, pool=1) for _ in range(2)]

        async def turn(client: Any, number: int) -> None:
            async with client.semaphore("seat", limit=2, timeout=60):
                pass
            lock = client.rwlock("seat", timeout=60)
            async with lock.write() if number % 4 == 0 else lock.read():
                pass

        jobs = [lab.start(turn(client, n)) for n in range(8) for client in clients]
        for job in jobs:
            await job.result(within=60)
        assert count(server, table, "shares") == count(server, table, "share_queue") == 0
        assert books_are_right(server, table)

    run(flavor, scenario)


def test_unused_names_go_and_their_fences_do_not_go_back(
    server: SqlServer, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even if the clock was set back: here a fence of the far future stands for that."""
    monkeypatch.setattr(lease_sql, "UNUSED_US", -1_000_000)
    with fencelock.connect(server.url(), table=table) as client:
        engine = engine_of(client)

        def clean_up() -> None:
            drive(engine._shares.cleanup._run())

        drive(engine.release(drive(take(client, ONE))))
        left = drive(take(client, READ, "left"))
        drive(engine.remember("seat", "done", 1, 0.0))
        drive(engine.announce("seat"))
        end_now(server, table, left)
        high = 2**52
        server.ask(f"UPDATE locks.{table}_share_names SET fence = {high}")
        for _ in range(3):  # shares that are over, the fence, the rows
            clean_up()
        for which in ("shares", "share_names", "memos", "changes"):
            assert count(server, table, which) == 0, which
        assert drive(take(client, ONE)).fence > high
        assert drive(take(client, READ, "left")).fence > high
        for _ in range(2):  # the fence, the rows
            clean_up()
        assert count(server, table, "share_names") == 2, "they are in use"
        with client.lock("seat") as lease:
            assert lease.fence > high


def test_a_limit_lasts_while_somebody_holds_or_waits(
    flavor: str, server: SqlServer, table: str
) -> None:
    async def scenario(lab: Lab) -> None:
        client = await lab.connect(server.url(), table=table)
        engine = engine_of(client)
        first = await take(client, ONE)
        waiting = await queue(client, ONE)
        for share in (TWO, THREE):
            with pytest.raises(UsageError, match=f"limit=1, and limit={share.limit} was"):
                await engine.acquire(wish(share)._replace(queue=True))
        await engine.release(first)
        held = await until_granted(lab, client, waiting)
        with pytest.raises(UsageError, match="limit=1"):
            await engine.acquire(wish(TWO))
        await engine.release(held)
        grants = [await take(client, TWO) for _ in range(2)]
        assert [grant.share for grant in grants] == [TWO._replace(slot=0), TWO._replace(slot=1)]
        for grant in grants:
            end_now(server, table, grant)
        assert (await take(client, ONE)).fence > grants[1].fence, "those who held are gone"

    run(flavor, scenario)


def test_a_share_can_be_made_to_end_sooner(flavor: str, server: SqlServer, table: str) -> None:
    async def scenario(lab: Lab) -> None:
        client = await lab.connect(server.url(), table=table)
        held = await take(client, ONE, ttl=600)
        (held,) = await engine_of(client).renew([held])
        assert await engine_of(client).end_in(held._replace(owner=token_hex(16)), 0.5) is False
        waiting = lab.start(client.semaphore("seat", limit=1, timeout=30).acquire())
        await lab.until_queued(client, "seat", 1)
        assert await engine_of(client).end_in(held, 0.3) is True
        heir = await waiting.result()
        assert heir.fence > held.fence
        assert await engine_of(client).release(held) is False
        await heir.release()

    run(flavor, scenario)


def test_a_verified_transaction_protects_a_share_that_has_ended(
    server: SqlServer, table: str
) -> None:
    with (
        fencelock.connect(server.url(), table=table) as client,
        fencelock.connect(server.url(), table=table, request_timeout=3) as rival,
    ):
        lock = rival.rwlock("seat", ttl=30)
        lease = client.rwlock("seat", ttl=2, renew=False).read().acquire()
        mine = server.connect()
        mine.begin()
        fencelock.sql.verify(mine, lease)
        (grant,) = drive(engine_of(client).renew([lease._hold.grant._replace(ttl=0.1)]))
        assert isinstance(grant, Grant), "renewals do not go on"
        assert lease.lost.wait(10)
        while server.ask(f"SELECT SLEEP(0.05) FROM locks.{table}_shares WHERE expires_at > {NOW}"):
            pass  # the server gives it a moment longer
        assert lock.write().try_acquire() is None
        lock.read().acquire().release()  # others may read, and what is free is not kept
        with pytest.raises(fencelock.Unavailable, match="kept the row locked"):
            rival.revoke("seat", "test")
        mine.commit()
        lock.write().acquire(timeout=10).release()
        mine.begin()
        with pytest.raises(LeaseLost):
            fencelock.sql.verify(mine, lease)
        mine.rollback()
        mine.close()
        assert lease.release() is False


def test_who_meets_another_in_a_deadlock_tries_again(
    flavor: str, server: SqlServer, table: str
) -> None:
    """A release locks its share and then the name; another's transaction does it in reverse."""

    def a_release_waits() -> bool:
        return any(
            state == "LOCK WAIT" and f"{table}_share_names" in str(query)
            for _, state, _, query in server.transactions()
        )

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(server.url(), table=table)
        held = await take(client, ONE)
        with server.connect() as other, other.cursor() as cursor:
            other.begin()
            rows = ",".join(f"('weight', '{number}', 1, 1)" for number in range(500))
            cursor.execute(f"INSERT INTO locks.{table}_memos VALUES {rows}")  # not to be the victim
            cursor.execute(f"SELECT 1 FROM locks.{table}_share_names FOR UPDATE")
            released = lab.start(engine_of(client).release(held))
            await lab.until(a_release_waits, "a release that waits for the name")
            cursor.execute(f"SELECT owner FROM locks.{table}_shares FOR UPDATE")
            assert cursor.fetchall() == ((held.owner.encode(),),), "it was not undone"
            other.commit()
            assert await released.result() is True
        assert count(server, table, "shares") == 0
        assert books_are_right(server, table)

    run(flavor, scenario)


def make(server: SqlServer, text: str) -> None:
    with server.connect() as connection, connection.cursor() as cursor:
        for statement in text.split(";\n"):
            if statement.strip():
                cursor.execute(statement)


def test_an_account_that_may_not_create_goes_on_locking_until_a_migration_was_run(
    flavor: str, server: SqlServer, table: str
) -> None:
    """Also where the tables are those of an older release."""
    make(server, "".join(tables._make(name, table) for name in tables.NEEDED["lease"]))
    server.ask(f"CREATE USER IF NOT EXISTS 'poor'@'%' IDENTIFIED BY '{PASSWORD}'")
    server.ask("GRANT SELECT, INSERT, UPDATE, DELETE ON locks.* TO 'poor'@'%'")
    url = server.url().replace("tester:", "poor:")

    async def locks(client: Any) -> None:
        async with client.lock("seat"):
            assert len(await client.scan()) == len(await client.holders("seat")) == 1
            assert await client.revoke("other", "test") is False

    async def refused(lab: Lab) -> None:
        client = await lab.connect(url, table=table)
        await locks(client)
        with pytest.raises(Denied, match="fencelock schema mysql"):
            await take(client, ONE)
        with pytest.raises(Denied, match="fencelock schema mysql"):
            await engine_of(client).remember("seat", "done", 1, 60.0)
        await locks(client)

    async def served(lab: Lab) -> None:
        client = await lab.connect(url, table=table)
        await locks(client)
        await engine_of(client).release(await take(client, ONE))
        await engine_of(client).remember("seat", "done", 1, 60.0)

    run(flavor, refused)
    make(server, tables.schema(table))
    run(flavor, served)


def test_a_server_without_window_functions_has_no_shares() -> None:
    from fencelock.engines.mysql.server import Server

    for version, shared in (
        ("5.7.44", False),
        ("8.0.36", True),
        ("10.5.9-MariaDB", False),
        ("10.6.1-MariaDB-log", True),
        ("11.4.2-MariaDB", True),
    ):
        assert Server({"version": version}).skips_locked is shared, version


def record_looks(engine: Any) -> list[str]:
    """Have the looks of a client at announced names recorded: each was answered, or failed."""
    looks: list[str] = []
    look = engine._memos.changes

    async def recorded(names: Sequence[str]) -> dict[str, int]:
        looks.append("failed")
        changes: dict[str, int] = await look(names)
        looks[-1] = "answered"
        return changes

    engine._memos.changes = recorded
    return looks


def test_observers_are_told_again_after_an_outage_and_memos_only_grow(
    flavor: str, server: SqlServer, table: str
) -> None:
    with Proxy(server.port) as proxy:

        async def scenario(lab: Lab) -> None:
            client = await lab.connect(server.url(port=proxy.port), table=table, request_timeout=3)
            other = await lab.connect(server.url(), table=table)
            engine, theirs = engine_of(client), engine_of(other)
            signal, stranger = engine.world.signal(), engine.world.signal()
            looks = record_looks(engine)
            await theirs.announce("seat é")
            await engine.observe("seat é", signal)
            await engine.observe("SEAT é", stranger)
            looks.clear()
            await lab.until(lambda: len(looks) > 1, "two looks")
            assert not signal.is_set(), "it was announced before"
            proxy.cut()
            await lab.until(lambda: "failed" in looks, "a look that fails")
            proxy.heal()
            await theirs.remember("seat é", "done", 7, 60.0)
            await theirs.announce("seat é")
            await lab.until(signal.is_set, "an observer to be told")
            await theirs.remember("seat é", "done", 3, 0.0)
            assert await engine.recall("seat é") == {"done": 7}
            await engine.forget("seat é")
            assert not await theirs.recall("seat é")
            assert not stranger.is_set()
            await engine.unobserve("seat é", signal)
            await engine.unobserve("SEAT é", stranger)

        run(flavor, scenario)


def test_observers_are_told_after_somebody_has_cancelled_all_tasks(
    server: SqlServer, table: str
) -> None:
    """As programs do that shut down, and observe on meanwhile."""

    async def main() -> None:
        async with aio.connect(server.url(), table=table) as client:
            engine = engine_of(client)
            signal = engine.world.signal()
            await engine.observe("seat", signal)
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                task.cancel()
            await engine.announce("seat")
            assert await engine.world.wait(signal, engine.world.now() + 30)
            await engine.unobserve("seat", signal)

    asyncio.run(main())


Counter = Any  # a Synchronized[int], which spawn hands to a child


def _storm(url: str, table: str, turns: int, inside: list[Counter], wrong: Counter) -> None:
    """Read, write and take slots; each sees who else is inside."""
    readers, writers, *slots = inside

    def enter(mine: Counter, *, alone: list[Counter]) -> None:
        with readers.get_lock():  # one lock for all of them
            if any(counter.value for counter in alone):
                wrong.value += 1
            mine.value += 1

    def leave(mine: Counter) -> None:
        time.sleep(0.002)  # what it holds the name for: long enough that others come to wait
        with readers.get_lock():
            mine.value -= 1

    with fencelock.connect(url, table=table) as client:
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
    server: SqlServer, table: str
) -> None:
    spawn = multiprocessing.get_context("spawn")
    inside: list[Synchronized[int]] = [spawn.Value("i", 0) for _ in range(4)]
    wrong = spawn.Value("i", 0)
    processes = [
        spawn.Process(target=_storm, args=(server.url(), table, 20, inside, wrong))
        for _ in range(3)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
    assert [process.exitcode for process in processes] == [0, 0, 0]
    assert wrong.value == 0
    assert books_are_right(server, table)
    assert count(server, table, "shares") == count(server, table, "share_queue") == 0
