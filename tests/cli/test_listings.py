"""What people and programs are shown of slots, readers, writers and leaders."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from threading import Thread

import pytest

import fencelock
from fencelock.cli import listing, terminal
from fencelock.cli.verbs import show
from fencelock.model import Holding, Meta, Role, State, Waiting
from tests.cli.program import Program, end, eventually, line

WHO: Meta = {"host": "web", "pid": 7}


def held(role: Role, slot: int | None = None, **words: str) -> Holding:
    limit = 3 if role == "semaphore" else None
    fence = 100 if slot is None else 100 + slot
    return Holding("seat", fence, 30.0, 2.0, 28.0, {**WHO, **words}, role, slot, limit)


def shown(state: State) -> list[str]:
    return [re.sub(r"\x1b\[\d*m", "", text) for text in show.words(state)]


def join(program: Program, lock: fencelock.Lock, length: int) -> Thread:
    """Have somebody wait who gives back what it gets."""
    thread = Thread(target=lambda: lock.acquire(timeout=60).release())
    thread.start()
    program.queue(lock.name, length)
    return thread


def test_ls_tells_in_which_way_each_name_is_held(program: Program) -> None:
    with (
        program.client() as client,
        client.lock("a"),
        client.semaphore("b", limit=2),
        client.semaphore("b", limit=2) as second,
        client.rwlock("c").read(),
        client.rwlock("d").write(),
        client.election("e"),
    ):
        _, *rows = program.run("ls").stdout.splitlines()
        ways = [re.split(r"\s{2,}", row)[:2] for row in rows]
        assert ways == [
            ["a", "lock"],
            ["b", "slot 0 of 2"],
            ["b", "slot 1 of 2"],
            ["c", "reader"],
            ["d", "writer"],
            ["e", "leader"],
        ]
        locks = program.json("ls")["locks"]
        facts = [(x["kind"], x["role"], x["slot"], x["limit"], x["election"]) for x in locks]
        assert facts == [
            ("mutex", "lock", None, None, False),
            ("semaphore", "semaphore", 0, 2, False),
            ("semaphore", "semaphore", 1, 2, False),
            ("rwlock", "read", None, None, False),
            ("rwlock", "write", None, None, False),
            ("mutex", "lock", None, None, True),
        ]
        assert locks[2]["fence"] == second.fence
        assert program.run("ls", "-q").stdout.split() == ["a", "b", "c", "d", "e"]


def test_show_tells_of_a_semaphore_and_its_queue(program: Program) -> None:
    with program.client() as client, program.client() as other:
        first = client.semaphore("pool", limit=2, meta={"job": "x"}).acquire()
        assert "pool is a semaphore: 1 of 2 slots are held" in program.run("show", "pool").stdout
        second = client.semaphore("pool", limit=2).acquire()
        waiter = join(program, other.semaphore("pool", limit=2, meta={"job": "late"}), 1)
        title, head, *rows = program.run("show", "pool").stdout.splitlines()
        assert title == "pool is a semaphore: 2 of 2 slots are held"
        assert head.split() == ["SLOT", "HOLDER", "FOR", "LEFT", "FENCE"]
        assert [row.split()[0] for row in rows[:2]] == ["0", "1"]
        assert rows[0].split()[-2:] == [str(first.fence), "job=x"]
        assert rows[3].split() == ["POS", "WAITER", "FOR"]
        assert rows[4].split()[-1] == "job=late"
        facts = program.json("show", "pool")
        assert facts["kinds"] == {"semaphore": {"held": 2, "limit": 2, "waiting": 1}}
        assert [(w["kind"], w["role"]) for w in facts["waiters"]] == [("semaphore", "semaphore")]
        first.release()
        waiter.join(60)
        second.release()
    assert program.run("show", "pool").stdout == "pool is free\n"


def test_show_tells_of_readers_and_who_waits_to_write(program: Program) -> None:
    with program.client() as client, program.client() as other:
        readers = [client.rwlock("catalog").read().acquire() for _ in range(2)]
        writer = join(program, other.rwlock("catalog").write(), 1)
        reader = join(program, other.rwlock("catalog").read(), 2)
        words = program.run("show", "catalog").stdout
        assert words.startswith("catalog is a read/write lock: held by 2 readers\nAS ")
        queue = words.partition("\n\n")[2].splitlines()
        assert queue[0].split() == ["POS", "TO", "WAITER", "FOR"]
        assert [row.split()[:2] for row in queue[1:]] == [["1", "write"], ["2", "read"]]
        waiters = program.json("show", "catalog")["waiters"]
        assert [(w["kind"], w["role"]) for w in waiters] == [
            ("rwlock", "write"),
            ("rwlock", "read"),
        ]
        for lease in readers:
            lease.release()
        writer.join(60)
        reader.join(60)
        with client.rwlock("catalog").write():
            assert "held by 1 writer\n" in program.run("show", "catalog").stdout


def test_each_kind_of_a_name_is_shown_apart() -> None:
    state = State(
        "seat",
        (held("lock", by="anna"), held("semaphore", 1), held("read")),
        (Waiting(1.0, WHO), Waiting(2.0, WHO, "write")),
        3,
    )
    assert shown(state) == [
        "seat is held by web/7",
        "  for      2s",
        "  left     28s of 30s, unless it is renewed",
        "  fence    100",
        "  meta     by=anna",
        "",
        "POS  WAITER  FOR",
        "1    web/7   1s",
        "",
        "seat is a semaphore: 1 of 3 slots are held",
        "SLOT  HOLDER  FOR  LEFT  FENCE",
        "1     web/7   2s   28s   101",
        "",
        "seat is a read/write lock: held by 1 reader",
        "AS      HOLDER  FOR  LEFT  FENCE",
        "reader  web/7   2s   28s   100",
        "",
        "POS  TO     WAITER  FOR",
        "1    write  web/7   2s",
    ]


def test_who_waits_while_nobody_holds_is_shown() -> None:
    """A slot that was handed over is nobody's until it is claimed."""
    waiting = (Waiting(1.0, WHO, "semaphore"),)
    assert shown(State("seat", (), waiting, 3))[0] == "seat is a semaphore: 0 of 3 slots are held"
    waiting = (Waiting(1.0, WHO, "read"),)
    assert shown(State("seat", (), waiting))[0] == "seat is a read/write lock: free"
    assert shown(State("seat", (), (Waiting(1.0, WHO),)))[0] == "seat is free"


def test_a_slot_of_another_program_has_no_number() -> None:
    """Curator's leases say neither their slot nor their limit."""
    foreign = held("semaphore")._replace(limit=None)
    assert listing.held_as(foreign) == "slot ?"
    assert shown(State("seat", (foreign,)))[0] == "seat is a semaphore: 1 slots are held"


def test_who_leads_is_shown(program: Program) -> None:
    process = program.start("elect", "jobs", "-c", "echo up; read x")
    assert line(process) == "up"
    assert program.run("show", "jobs").stdout.startswith("jobs is led by ")
    assert "recipe" not in program.run("show", "jobs").stdout
    leader = program.json("leader", "jobs")["leader"]
    assert (leader["election"], leader["meta"]["recipe"]) == (True, "election")
    with program.client() as client:
        found = client.inspect("jobs").leader
        assert found is not None
        assert found.fence == leader["fence"]
    end(process)
    assert program.run("leader", "jobs").returncode == 1


def test_who_is_in_the_way_holds_the_same_kind(program: Program) -> None:
    with (
        program.client() as client,
        client.lock("pool"),
        client.rwlock("pool").read(),
        client.semaphore("pool", limit=1),
    ):
        ran = program.answered("run", "pool", "--limit", "1", "-n", "--", "true")
        assert ran.returncode == 75
        assert re.search(r"held by \S+ for [^ ;]+; see", ran.stderr), ran.stderr


def test_watch_tells_of_shares_and_of_a_writer_that_reads_on(program: Program) -> None:
    process = program.start("watch", "--interval", "20ms")
    with program.client() as client:
        with client.semaphore("pool", limit=2), client.semaphore("pool", limit=2):
            held = [json.loads(line(process)) for _ in range(2)]
        freed = [json.loads(line(process)) for _ in range(2)]
        writer = client.rwlock("seat").write().acquire()
        wrote = json.loads(line(process))
        writer.downgrade()
        reads = json.loads(line(process))
        writer.release()
    process.terminate()
    end(process)
    assert [(x["event"], x["slot"]) for x in held] == [("held", 0), ("held", 1)]
    assert {(x["event"], x["slot"]) for x in freed} == {("freed", 0), ("freed", 1)}
    assert [(x["event"], x["role"]) for x in (wrote, reads)] == [
        ("held", "write"),
        ("changed", "read"),
    ]


Room = Callable[[int], None]


@pytest.fixture
def room(monkeypatch: pytest.MonkeyPatch) -> Room:
    """Make stdout a terminal of so many columns."""

    def narrow(columns: int) -> None:
        monkeypatch.setattr(terminal, "is_terminal", lambda stream: True)
        monkeypatch.setattr(terminal, "size", lambda stream: (columns, 24))
        monkeypatch.setattr(terminal, "colors", lambda stream: False)

    return narrow


@pytest.mark.parametrize("columns", [40, 60, 80, 100, 400])
def test_a_table_fits_into_its_terminal(columns: int, room: Room) -> None:
    long = held("semaphore", 2, note="x" * 90)._replace(name="tenant:4711:" + "y" * 200 + ":end")
    whole = max(map(len, listing.holdings_table([long])))
    room(columns)
    head, row = listing.holdings_table([long])
    assert max(len(head), len(row)) <= columns
    assert row.startswith("tena")
    name = re.escape(long.name) if columns >= whole else r"tena\S*…\S*end"
    if columns >= 60:
        assert "slot 2 of 3" in row
        assert re.match(name, row), "both ends of a name are left"
    if columns >= 80:
        assert "102" in row
        assert "note" in row


def test_wide_characters_and_accents_take_the_columns_that_a_terminal_gives_them(
    room: Room,
) -> None:
    room(80)
    wide = "\u5ea7\u5e2d" * 3  # six characters in twelve columns
    names = ["seat", wide, "cafe\u0301"]
    rows = listing.holdings_table([held("lock")._replace(name=name) for name in names])
    begins = [row.partition("lock")[0] for row in rows[1:]]
    assert begins == ["seat" + 10 * " ", wide + 2 * " ", "cafe\u0301" + 10 * " "]
    room(40)
    (_, row) = listing.holdings_table([held("lock")._replace(name=wide * 9)])
    assert row.startswith("\u5ea7\u5e2d\u2026\u5e2d"), "eight columns are left for the name"


def test_what_somebody_reads_by_a_program_is_not_shortened() -> None:
    long = held("lock")._replace(name="y" * 500)
    assert "y" * 500 in listing.holdings_table([long])[1]


def test_a_terminal_too_small_for_anything_is_given_the_names(room: Room) -> None:
    room(5)
    assert listing.holdings_table([held("lock")]) == ["NAME", "seat"]


def test_revoke_names_one_holder_and_counts_the_others(program: Program) -> None:
    with program.client() as client:
        leases = [client.semaphore("pool", limit=3).acquire() for _ in range(3)]
        ran = program.run("revoke", "pool", "--reason", "over", "--yes")
        assert re.search(r"revoked 'pool', which was held by \S+ and 2 others for \S+", ran.stderr)
        eventually(lambda: not client.holders("pool"))
        for lease in leases:
            lease.release()
