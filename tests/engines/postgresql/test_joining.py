"""``mode=lease``: joining a queue takes no lock that a release needs, and yet nobody is missed.

Each case is one interleaving of transactions, made with plain connections that call the functions
themselves and stay open in between.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import psycopg
import pytest

import fencelock
from fencelock.engines.postgresql.statements import LOCK_CLASS
from tests.faults.flavors import SOON
from tests.servers.postgresql import Postgresql

Link = psycopg.Connection[Any]


class Table:
    """A lock, and owners that are known by a letter."""

    def __init__(self, server: Postgresql, table: str, stack: ExitStack) -> None:
        with fencelock.connect(server.url(f"table={table}")):
            pass
        self._server, self._stack, self.table, self.name = server, stack, table, "seat"
        self.plain = self.link()
        self.inbox = f"{table}_h0123456789abcdef"
        self.plain.execute(
            f"SELECT pg_advisory_lock({LOCK_CLASS}, hashtext('{self.inbox}'))".encode()
        )
        self.other = self.link()

    def link(self) -> Link:
        """One more connection; what it waits for comes soon or never."""
        link = psycopg.connect(self._server.conninfo, autocommit=True)
        link.execute(f"SET lock_timeout = '{SOON:.0f}s'".encode())
        return self._stack.enter_context(link)

    def value(self, link: Link, sql: str, *values: object) -> Any:
        row = link.execute(sql.replace("T_", f"{self.table}_").encode(), values).fetchone()
        return None if row is None else row[0]

    def acquire(self, link: Link, owner: str) -> int:
        """Take the lock, or stand in line with the row locked; return the fence or 0."""
        sql = "SELECT r_fence FROM T_acquire(%s, %s, 30, '{}', true, %s, true)"
        return int(self.value(link, sql, self.name, owner, self.inbox))

    def join(self, link: Link, owner: str, again: bool = False) -> bool:
        sql = "SELECT T_join(%s, %s, 30, '{}', %s, %s)"
        return self.value(link, sql, self.name, owner, self.inbox, again) is not None

    def leave(self, link: Link, owner: str) -> int:
        return int(self.value(link, "SELECT T_leave(%s, %s, true)", self.name, owner))

    @property
    def holder(self) -> str:
        return str(self.value(self.other, "SELECT owner FROM T_locks"))

    @property
    def queue(self) -> str:
        sql = "SELECT coalesce(string_agg(owner, '' ORDER BY place), '') FROM T_waiters"
        return str(self.value(self.other, sql))

    def later(self, work: Callable[[], object]) -> threading.Thread:
        """Do in a thread what has to wait for somebody; return once it does."""
        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        sql = (
            "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' "
            "AND position('T_' IN query) > 0 AND pid <> pg_backend_pid()"
        )
        give_up = time.monotonic() + SOON
        while self.value(self.other, sql) is None:
            assert time.monotonic() < give_up, "it did not wait"
            time.sleep(0.005)
        return thread


@pytest.fixture
def seat(server: Postgresql, table: str) -> Iterator[Table]:
    """``a`` holds the lock and ``b`` waits for it."""
    with ExitStack() as stack:
        seat = Table(server, table, stack)
        assert seat.acquire(seat.plain, "a") > 0
        assert seat.acquire(seat.plain, "b") == 0
        yield seat


def test_who_joins_does_not_wait_for_a_release_on_its_way_to_the_disk(seat: Table) -> None:
    releasing = seat.link()
    with releasing.transaction():
        assert seat.leave(releasing, "a") == 3
        assert seat.join(seat.other, "c")  # else it would wait here for what cannot come
    assert (seat.holder, seat.queue) == ("b", "c")


def test_a_release_does_not_wait_for_who_is_joining(seat: Table) -> None:
    joining = seat.link()
    with joining.transaction():
        assert seat.join(joining, "c")
        assert seat.leave(seat.other, "a") == 3
        assert (seat.holder, seat.queue) == ("b", "")
    assert seat.leave(seat.other, "b") == 3
    assert seat.holder == "c"


def test_a_release_that_finds_nobody_waits_for_who_is_joining(seat: Table) -> None:
    """The joiner saw a holder that would hand the lock on: so it must."""
    joining, releasing = seat.link(), seat.link()
    assert seat.leave(seat.other, "b") == 2
    with joining.transaction():
        assert seat.join(joining, "c")
        release = seat.later(lambda: seat.leave(releasing, "a"))
        assert seat.holder == "a"
    release.join(SOON)
    assert (seat.holder, seat.queue) == ("c", "")


def test_a_release_does_not_pass_over_who_joins_anew_with_an_inbox_that_is_heard(
    seat: Table,
) -> None:
    """Its connection had ended, and there is another by now."""
    joining, releasing = seat.link(), seat.link()
    seat.plain.execute(f"UPDATE {seat.table}_waiters SET inbox = '{seat.table}_hdead'".encode())
    with joining.transaction():
        assert seat.join(joining, "b", again=True)
        release = seat.later(lambda: seat.leave(releasing, "a"))
        assert seat.holder == "a"
    release.join(SOON)
    assert (seat.holder, seat.queue) == ("b", "")


def test_nobody_joins_a_queue_that_is_being_given_up(seat: Table) -> None:
    """Nor one that was: who asks with the row locked then gets the lock, and keeps no place."""
    releasing = seat.link()
    assert seat.leave(seat.other, "b") == 2
    with releasing.transaction():
        assert seat.leave(releasing, "a") == 1
        assert not seat.join(seat.other, "c")
    assert not seat.join(seat.other, "c", again=True)
    assert seat.acquire(seat.other, "c") > 0
    assert (seat.holder, seat.queue) == ("c", "")


def test_nobody_joins_where_nobody_is_known_to_wait(server: Postgresql, table: str) -> None:
    """A holder that knows of no queue gives the lock back without looking for one."""
    with ExitStack() as stack:
        seat = Table(server, table, stack)
        assert seat.acquire(seat.plain, "a") > 0
        assert not seat.join(seat.other, "b")
        assert seat.acquire(seat.other, "b") == 0
        assert seat.leave(seat.other, "a") == 3
        assert (seat.holder, seat.queue) == ("b", "")


def test_who_asks_again_while_it_is_handed_the_lock_keeps_no_place(seat: Table) -> None:
    """Else the lock would come back to somebody who has left."""
    releasing, asking = seat.link(), seat.link()
    answers: list[bool] = []
    with releasing.transaction():
        assert seat.leave(releasing, "a") == 3
        asked = seat.later(lambda: answers.append(seat.join(asking, "b", again=True)))
    asked.join(SOON)
    assert answers == [False]
    assert (seat.holder, seat.queue) == ("b", "")


@pytest.mark.parametrize("next_one", ["c", ""])
def test_who_leaves_while_a_release_waits_is_not_handed_the_lock(
    seat: Table, next_one: str
) -> None:
    leaving, releasing = seat.link(), seat.link()
    assert not next_one or seat.join(seat.other, next_one)
    with leaving.transaction():
        assert seat.leave(leaving, "b") == 2
        release = seat.later(lambda: seat.leave(releasing, "a"))
    release.join(SOON)
    assert (seat.holder, seat.queue) == (next_one, "")


def test_the_first_place_is_not_moved_past_somebody_who_is_joining(seat: Table) -> None:
    """Places are drawn before they are seen: a later one may be seen first."""
    joining = seat.link()
    with joining.transaction():
        assert seat.join(joining, "c")
        seat.value(seat.other, "SELECT setval('T_place', 1000)")
        assert seat.join(seat.other, "d")
        assert seat.leave(seat.other, "a") == 3
        assert seat.leave(seat.other, "b") == 3
        assert seat.holder == "d"
    assert seat.join(seat.other, "e")
    assert seat.leave(seat.other, "d") == 3
    assert seat.holder == "c"


def test_the_first_place_is_moved_past_those_who_have_left(seat: Table) -> None:
    seat.value(seat.other, "SELECT setval('T_place', 1000)")
    for owner in "cd":
        assert seat.join(seat.other, owner)
    assert seat.leave(seat.other, "a") == 3
    assert seat.leave(seat.other, "b") == 3
    first = seat.value(seat.other, "SELECT min(place) FROM T_waiters")
    assert seat.value(seat.other, "SELECT turn FROM T_locks") == first == 1002
    assert seat.leave(seat.other, "c") == 3
    assert seat.holder == "d"


@pytest.mark.parametrize("way", ["by itself", "by the function"])
def test_a_fence_does_not_go_back_when_its_row_is_removed_under_who_takes_it(
    seat: Table, server: Postgresql, way: str
) -> None:
    """The clock was years ahead when the row got its fence, and was set back."""
    seat.value(seat.other, "DELETE FROM T_waiters RETURNING 1")
    sql = "UPDATE T_locks SET owner = '', queued = false, fence = %s RETURNING 1"
    seat.value(seat.other, sql, far := 1 << 60)
    removing, fences = seat.link(), list[int]()
    with fencelock.connect(server.url(f"table={seat.table}")) as client:

        def take() -> None:
            if way == "by itself":
                with client.lock(seat.name, timeout=SOON) as lease:
                    fences.append(lease.fence)
            else:
                fences.append(seat.acquire(seat.plain, "c"))

        with removing.transaction():
            seat.value(removing, "SELECT 1 FROM T_locks FOR UPDATE")
            taker = seat.later(take)
            seat.value(removing, "SELECT setval('T_floor', %s)", far)
            seat.value(removing, "DELETE FROM T_locks RETURNING 1")
        taker.join(SOON)
    assert fences[0] > far


def test_a_row_whose_queue_a_crash_has_emptied_is_removed_like_others(seat: Table) -> None:
    seat.value(seat.other, "DELETE FROM T_waiters RETURNING 1")
    seat.value(seat.other, "UPDATE T_locks SET expires_at = now() - interval '1 hour' RETURNING 1")
    seat.value(seat.other, "SELECT T_tidy()::text")
    assert seat.value(seat.other, "SELECT count(*) FROM T_locks") == 0


def test_a_lock_may_be_named_like_an_inbox(server: Postgresql, table: str) -> None:
    """Whoever listens holds an advisory lock on its inbox, which must not keep a queue shut."""
    with ExitStack() as stack:
        seat = Table(server, table, stack)
        seat.name = seat.inbox
        assert seat.acquire(seat.plain, "a") > 0
        assert seat.acquire(seat.other, "b") == 0
        assert seat.join(seat.other, "c")
        for owner in "abc":
            assert seat.holder == owner
            seat.leave(seat.other, owner)
        assert (seat.holder, seat.queue) == ("", "")
