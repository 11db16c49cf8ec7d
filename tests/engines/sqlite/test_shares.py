"""Semaphores, read/write locks and memos in the file: what a client of one process cannot show."""

from __future__ import annotations

import itertools
import signal
import sqlite3
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import fencelock
from fencelock.engine import Engine
from fencelock.engines import waiters
from fencelock.engines.sqlite import shares
from fencelock.engines.sqlite.transactions import GIVE_BACK, TAKE_FREE
from fencelock.engines.sqlite.wire.file import APPLICATION_ID
from fencelock.model import READERS_MAX, Busy, Grant, Request, Share
from fencelock.world import World
from fencelock.worlds.threads import ThreadsWorld, drive
from tests.engines.sqlite.stage import SOON, flavors, opened, play, until

TTL = 600.0
READ, WRITE = Share("rwlock", 1, READERS_MAX), Share("rwlock", READERS_MAX, READERS_MAX)
TABLES = ("shares", "share_waiters", "share_names", "memos")


@pytest.fixture(autouse=True)
def no_haste(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stall of the machine passes nobody over who was handed something."""
    monkeypatch.setattr(shares, "CLAIM_S", TTL)


def semaphore(limit: int) -> Share:
    return Share("semaphore", 1, limit)


def wish(world: World, share: Share | None, name: str = "seat", queue: bool = False) -> Request:
    return Request(name, world.owner(), TTL, queue=queue, share=share)


async def got(engine: Engine, request: Request) -> Grant:
    answer = await engine.acquire(request)
    assert isinstance(answer, Grant), answer
    return answer


async def joined(engine: Engine, world: World, share: Share, name: str = "seat") -> Request:
    """A waiter in the queue of a name."""
    request = wish(world, share, name, queue=True)
    await engine.watch(request, world.signal())
    assert isinstance(await engine.acquire(request), Busy)
    return request


def rows(path: Path, sql: str, *values: object) -> list[tuple[Any, ...]]:
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        return connection.execute(sql, values).fetchall()
    finally:
        connection.close()


# Files of the release before


BEFORE = (
    """
    CREATE TABLE waiters (
        name TEXT, place INTEGER, owner TEXT NOT NULL, ttl REAL NOT NULL, since REAL NOT NULL,
        seen_at REAL NOT NULL, lapsed INTEGER NOT NULL, inbox TEXT NOT NULL, meta TEXT NOT NULL,
        PRIMARY KEY (name, place)
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE revoked (
        owner TEXT PRIMARY KEY, reason TEXT NOT NULL, until REAL NOT NULL
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE locks (
        name TEXT PRIMARY KEY, owner TEXT NOT NULL, fence INTEGER NOT NULL, ttl REAL NOT NULL,
        since REAL NOT NULL, expires_at REAL NOT NULL, claimed INTEGER NOT NULL, meta TEXT NOT NULL
    ) WITHOUT ROWID
    """,
    "INSERT INTO locks VALUES ('', '', 0, 0, 0, 9e99, 0, '{}')",
    """
    CREATE TRIGGER mark AFTER INSERT ON locks BEGIN
        UPDATE locks SET fence = NEW.fence WHERE name = '';
    END
    """,
    f"PRAGMA application_id={APPLICATION_ID}",
    "PRAGMA user_version=1",
    "PRAGMA journal_mode=WAL",
)


def test_a_file_of_the_release_before_goes_on_with_that_release_beside_us(tmp_path: Path) -> None:
    path, world = tmp_path / "locks.db", ThreadsWorld()
    older = sqlite3.connect(path, isolation_level=None)
    for statement in BEFORE:
        older.execute(statement)

    def take(name: str, owner: str, fence: int) -> bool:
        now = world.now()
        row = (name, owner, fence, TTL, now, now + TTL, "{}", fence, name, name)
        return older.execute(TAKE_FREE, row).rowcount == 1

    assert take("old", "a" * 32, 5)
    engine = drive(opened(world, path))
    assert isinstance(drive(engine.acquire(wish(world, None, "old"))), Busy)
    slot = drive(got(engine, wish(world, semaphore(2), "old")))
    drive(engine.remember("old", "item", 1, TTL))
    assert not take("new", "b" * 32, slot.fence), "one counter: its fence is not higher"
    assert take("new", "b" * 32, slot.fence + 1)
    now = world.now()
    assert older.execute(GIVE_BACK, ("old", "a" * 32, now, "old")).rowcount == 1
    assert drive(got(engine, wish(world, None, "old"))).fence > slot.fence
    assert older.execute("PRAGMA user_version").fetchone() == (1,)
    drive(engine.close())
    again = drive(opened(world, path))
    assert drive(again.release(slot)) is True
    assert drive(again.recall("old")) == {"item": 1}
    drive(again.close())
    older.close()


def test_what_was_written_before_the_machine_started_is_over_but_for_what_is_remembered(
    tmp_path: Path,
) -> None:
    """The boot clock has begun again: rows lie in the future."""
    path, world = tmp_path / "locks.db", ThreadsWorld()
    engine = drive(opened(world, path))
    reader = drive(got(engine, wish(world, READ)))
    drive(joined(engine, world, WRITE))
    drive(engine.remember("seat", "item", 7, 60.0))
    drive(engine.close())
    ahead = 1e9
    rows(path, "UPDATE shares SET expires_at = expires_at + ?", ahead)
    rows(path, "UPDATE share_waiters SET seen_at = seen_at + ?", ahead)
    rows(path, "UPDATE memos SET until = until + ?", ahead)
    engine = drive(opened(world, path))
    state = drive(engine.inspect("seat"))
    assert (state.holders, state.waiters) == ((), ())
    assert drive(got(engine, wish(world, WRITE))).fence > reader.fence
    assert drive(engine.recall("seat")) == {"item": 7}
    ((kept_until,),) = rows(path, "SELECT until FROM memos")
    assert world.now() < kept_until < world.now() + 62.0
    drive(engine.close())


# What the file itself refuses, and what is left in it


def test_the_file_refuses_more_units_than_there_are_and_a_slot_with_two_holders(
    tmp_path: Path,
) -> None:
    path, world = tmp_path / "locks.db", ThreadsWorld()
    engine = drive(opened(world, path))
    drive(got(engine, wish(world, semaphore(2))))
    drive(got(engine, wish(world, READ)))
    share = "INSERT INTO shares VALUES (?, 'x', ?, ?, ?, 9e15, 1, 1, 9e9, 1, '{}')"
    for row in (
        ("\x01seat", 1, 2, 0),
        ("\x01seat", 2, 2, 1),
        ("\x02seat", READERS_MAX, READERS_MAX, None),
    ):
        with pytest.raises(sqlite3.IntegrityError):
            rows(path, share, *row)
    drive(engine.close())


def test_names_that_look_alike_share_nothing(tmp_path: Path) -> None:
    path, world = tmp_path / "locks.db", ThreadsWorld()
    engine = drive(opened(world, path))
    names = [
        "seat",
        "SEAT",
        "seat ",
        " seat",
        "1seat",
        "@seat",
        "seat%",
        "é",
        "e\u0301",
        "'",
        "\\x01seat",
    ]
    kinds = [None, semaphore(1), WRITE]
    grants = [drive(got(engine, wish(world, *pair))) for pair in itertools.product(kinds, names)]
    assert len(drive(engine.scan(""))) == len(grants)
    for name in names:
        roles = [(held.name, held.role) for held in drive(engine.inspect(name)).holders]
        assert roles == [(name, "lock"), (name, "semaphore"), (name, "write")]
    assert {held.name for held in drive(engine.scan("seat"))} == {"seat", "seat ", "seat%"}
    assert drive(engine.revoke("seat", "why")) is True
    assert [drive(engine.release(grant)) for grant in grants] == [g.name != "seat" for g in grants]
    drive(engine.close())


def test_nothing_is_kept_for_a_name_that_nobody_uses(tmp_path: Path) -> None:
    """Released, withdrawn, expired, left by the dead, or remembered for long enough."""
    path, world = tmp_path / "locks.db", ThreadsWorld()
    engine = drive(opened(world, path))
    for share in (semaphore(3), READ, WRITE):
        held = drive(got(engine, wish(world, share)))
        if share is WRITE:
            waiter = drive(joined(engine, world, READ))
            rows(path, "DELETE FROM shares")  # nobody holds it any more, and somebody waits
            drive(engine.withdraw(waiter))
        drive(engine.release(held))
    assert [rows(path, f"SELECT COUNT(*) FROM {table}") for table in TABLES] == [[(0,)]] * 4
    dead = Request("dead", world.owner(), 0.05, share=WRITE)
    drive(got(engine, dead))
    waiter = drive(joined(engine, world, READ, "dead"))
    drive(engine.unwatch(waiter))
    drive(engine.remember("dead", "item", 1, 0.05))
    drive(engine.close())
    rows(path, "UPDATE shares SET expires_at = expires_at - 100")
    rows(path, "UPDATE share_waiters SET seen_at = seen_at - 100")
    rows(path, "UPDATE memos SET until = until - 100")
    engine = drive(opened(world, path))
    assert drive(engine.recall("dead")) == {}
    drive(engine.close())
    drive(drive(opened(world, path)).close())  # the dead waiters first, then what they waited for
    assert [rows(path, f"SELECT COUNT(*) FROM {table}") for table in TABLES] == [[(0,)]] * 4


def test_fences_grow_although_nothing_is_kept_and_the_clock_is_set_back(tmp_path: Path) -> None:
    path, world = tmp_path / "locks.db", ThreadsWorld()
    wall = iter(range(10**15, 0, -(10**9)))
    world.wall_us = lambda: next(wall)  # type: ignore[method-assign]
    fences = []
    for share in [semaphore(2), READ, WRITE, None, semaphore(2)] * 3:
        engine = drive(opened(world, path))
        grant = drive(got(engine, wish(world, share)))
        fences.append(grant.fence)
        drive(engine.release(grant))
        drive(engine.close())
    assert fences == sorted(set(fences))


# Cost


@contextmanager
def counted_steps(engine: Engine) -> Iterator[list[int]]:
    """The steps of SQLite's virtual machine meanwhile."""
    connection = engine._database._connection  # type: ignore[attr-defined]
    steps = [0]

    def step() -> int:
        steps[0] += 1
        return 0

    connection.set_progress_handler(step, 1)
    yield steps
    connection.set_progress_handler(None, 1)


@pytest.mark.parametrize("share", [semaphore(1000), READ], ids=["semaphore", "read"])
def test_a_share_costs_the_same_beside_one_holder_and_beside_hundreds(
    share: Share, tmp_path: Path
) -> None:
    world = ThreadsWorld()
    engine = drive(opened(world, tmp_path / "locks.db"))
    spent: list[int] = []
    for holders in (1, 300):
        held = [drive(got(engine, wish(world, share))) for _ in range(holders)]
        drive(engine.release(drive(got(engine, wish(world, share)))))  # finds the lowest slot
        with counted_steps(engine) as steps:
            grant = drive(got(engine, wish(world, share)))
            drive(engine.renew([grant]))
            drive(engine.release(grant))
        spent += steps
        for grant in held[1:]:
            drive(engine.release(grant))
    assert spent[1] <= spent[0] * 1.1, spent
    drive(engine.close())


# Hand-overs


@flavors
def test_a_share_that_is_not_claimed_goes_to_the_next_and_its_waiter_keeps_its_position(
    flavor: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shares, "CLAIM_S", 0.05)

    async def scenario(world: World) -> None:
        holds, waits = [await opened(world, tmp_path / "locks.db") for _ in range(2)]
        held = await got(holds, wish(world, WRITE))
        late = await joined(waits, world, WRITE)
        next_up = await joined(waits, world, READ)
        assert await holds.release(held) is True

        async def is_handed_on() -> bool:
            await holds.inspect("seat")  # whoever looks ends what was not claimed
            return bool(rows(tmp_path / "locks.db", "SELECT 1 FROM shares WHERE units = 1"))

        await until(world, is_handed_on, "the reader is next")
        reader = await got(waits, next_up)
        answer = await waits.acquire(late)
        assert isinstance(answer, Busy)
        assert answer.position == 0
        newcomer = wish(world, READ)
        assert isinstance(await holds.acquire(newcomer), Busy), "it overtook the writer"
        assert await waits.release(reader) is True
        await got(waits, late)
        await waits.close()
        await holds.close()

    play(flavor, scenario)


@flavors
def test_all_readers_behind_a_writer_are_told_at_once(flavor: str, tmp_path: Path) -> None:
    """Those of other clients, too, and none behind the next writer."""

    async def scenario(world: World) -> None:
        holds, one, two = [await opened(world, tmp_path / "locks.db") for _ in range(3)]
        held = await got(holds, wish(world, WRITE))
        signals = [world.signal() for _ in range(5)]
        kinds = [READ, READ, READ, WRITE, READ]
        engines = [one, two, one, two, one]
        requests = [wish(world, share, queue=True) for share in kinds]
        for request, told, engine in zip(requests, signals, engines, strict=True):
            await engine.watch(request, told)
            assert isinstance(await engine.acquire(request), Busy)
        for told in signals:
            told.clear()
        assert await holds.release(held) is True
        assert len(rows(tmp_path / "locks.db", "SELECT 1 FROM shares")) == 3

        async def are_told() -> bool:
            return all(told.is_set() for told in signals[:3])

        await until(world, are_told, "three readers are told")
        for request, engine in [*zip(requests, engines, strict=True)][:3]:
            await got(engine, request)
        assert [h.role for h in (await holds.inspect("seat")).holders] == ["read"] * 3
        for engine in (one, two, holds):
            await engine.close()

    play(flavor, scenario)


DYING = """
    import sys, fencelock
    client = fencelock.connect(sys.argv[1])
    lock = client.rwlock("seat", ttl=float(sys.argv[3]), renew=False)
    if sys.argv[2] == "reads":
        lease = lock.read().acquire()
        print("holds", flush=True)
    else:
        lock.write().acquire()
    sys.stdin.read()
"""


@contextmanager
def process(path: Path, what: str, ttl: float) -> Iterator[subprocess.Popen[bytes]]:
    running = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(DYING), f"sqlite:///{path}", what, str(ttl)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        yield running
    finally:
        running.kill()
        running.communicate(timeout=SOON)


@flavors
def test_a_reader_that_was_killed_keeps_the_writer_no_longer_than_its_ttl(
    flavor: str, tmp_path: Path
) -> None:
    """And another reader, who lives, keeps it."""

    async def scenario(world: World) -> None:
        engine = await opened(world, tmp_path / "locks.db")
        alive = await got(engine, wish(world, READ))
        with process(tmp_path / "locks.db", "reads", 1.0) as reader:
            assert reader.stdout is not None
            assert reader.stdout.readline() == b"holds\n"
            reader.send_signal(signal.SIGKILL)
            reader.wait(SOON)
        told = world.signal()
        writer = wish(world, WRITE, queue=True)
        await engine.watch(writer, told)
        assert isinstance(await engine.acquire(writer), Busy)

        async def is_alone() -> bool:
            return len(rows(tmp_path / "locks.db", "SELECT 1 FROM shares")) == 1

        await until(world, is_alone, "the dead reader's share is ended")
        assert isinstance(await engine.acquire(writer), Busy)
        told.clear()
        assert await engine.release(alive) is True

        async def is_told() -> bool:
            return told.is_set()

        await until(world, is_told, "the writer is told")
        await got(engine, writer)
        await engine.close()

    play(flavor, scenario)


@flavors
def test_a_waiting_writer_that_was_killed_is_passed_over_at_once(
    flavor: str, tmp_path: Path
) -> None:
    """Its socket refuses the push: nobody waits until it would have lost its turn."""

    async def scenario(world: World) -> None:
        engine = await opened(world, tmp_path / "locks.db")
        held = await got(engine, wish(world, WRITE))
        with process(tmp_path / "locks.db", "writes", TTL) as writer:

            async def waits() -> bool:
                return bool((await engine.inspect("seat")).waiters)

            await until(world, waits, "the writer waits")
            behind = [await joined(engine, world, READ) for _ in range(2)]
            writer.send_signal(signal.SIGKILL)
            writer.wait(SOON)
        assert await engine.release(held) is True
        for request in behind:
            await got(engine, request)
        assert (await engine.inspect("seat")).waiters == ()
        await engine.close()

    play(flavor, scenario)


@flavors
def test_those_behind_a_dead_waiter_go_on_when_it_is_forgotten(flavor: str, tmp_path: Path) -> None:
    """A writer that died while somebody reads held back readers who would fit."""

    async def scenario(world: World) -> None:
        holds, waits, dead = [await opened(world, tmp_path / "locks.db") for _ in range(3)]
        held = await got(holds, wish(world, READ))
        await joined(dead, world, WRITE)
        told = world.signal()
        reader = wish(world, READ, queue=True)
        await waits.watch(reader, told)
        assert isinstance(await waits.acquire(reader), Busy)
        told.clear()
        rows(tmp_path / "locks.db", "DELETE FROM share_waiters WHERE place = 1")  # as purge does

        async def is_told() -> bool:
            return told.is_set()

        await until(world, is_told, "the reader is told")
        await got(waits, reader)
        assert await holds.release(held) is True
        for engine in (dead, waits, holds):
            await engine.close()

    play(flavor, scenario)


# Observers


@flavors
def test_an_observer_whose_socket_was_removed_is_told_again(
    flavor: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiters, "HEARTBEAT_S", 0.05)

    async def scenario(world: World) -> None:
        path = tmp_path / "locks.db"
        observes, silent = await opened(world, path), await opened(world, path, push=False)
        told = world.signal()
        await observes.observe("é @", told)
        (inbox,) = (tmp_path / "locks.db-inbox").iterdir()
        inbox.unlink()

        async def is_told() -> bool:
            return told.is_set()

        await until(world, is_told, "it looks: something may have been lost")
        told.clear()
        await silent.announce("é @")
        await until(world, is_told, "the observer is told")
        await observes.unobserve("é @", told)
        await silent.observe("é @", told)
        await silent.unobserve("é @", told)
        await silent.close()
        await observes.close()

    play(flavor, scenario)


# Several processes


STORM = """
    import fcntl, random, sys, time, fencelock
    url, log, seed = sys.argv[1:4]
    draw = random.Random(int(seed))
    client = fencelock.connect(url)
    record = open(log, "a+")

    def note(text):
        fcntl.flock(record, fcntl.LOCK_EX)
        record.write(text + "\\n")
        record.flush()
        fcntl.flock(record, fcntl.LOCK_UN)

    for _ in range(40):
        kind = draw.choice(["semaphore", "read", "read", "write"])
        if kind == "semaphore":
            lock = client.semaphore("storm", limit=2, ttl=60, timeout=60)
        else:
            lock = getattr(client.rwlock("storm", ttl=60, timeout=60), kind)()
        with lock as lease:
            note(f"in {kind} {lease.slot} {lease.fence}")
            time.sleep(draw.random() * 0.002)
            note(f"out {kind} {lease.slot} {lease.fence}")
    client.close()
"""


def test_a_storm_of_processes_never_has_too_many_inside(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.touch()
    url = f"sqlite:///{tmp_path}/locks.db"
    storm = [
        subprocess.Popen([sys.executable, "-c", textwrap.dedent(STORM), url, str(log), str(seed)])
        for seed in range(4)
    ]
    assert [one.wait(120) for one in storm] == [0] * 4
    inside: list[tuple[str, str, str]] = []
    fences: dict[tuple[str, str], int] = {}
    for line in log.read_text().splitlines():
        step, kind, slot, fence = line.split()
        if step == "out":
            inside.remove((kind, slot, fence))
            continue
        inside.append((kind, slot, fence))
        slots = [one[1] for one in inside if one[0] == "semaphore"]
        assert len(slots) == len(set(slots)) <= 2, inside
        assert {*slots} <= {"0", "1"}
        kinds = [one[0] for one in inside]
        assert kinds.count("write") == 0 or kinds.count("write") + kinds.count("read") == 1, inside
        if kind != "read":
            assert int(fence) > fences.get((kind, slot), 0)
            fences[kind, slot] = int(fence)
    assert len(log.read_text().splitlines()) == 4 * 40 * 2
    with fencelock.connect(url) as client:
        assert client.scan() == []
    for table in TABLES:
        assert rows(tmp_path / "locks.db", f"SELECT * FROM {table}") == []
