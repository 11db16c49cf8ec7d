"""The file of the embedded engine while others stop, open, delete or replace it."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import fencelock
from fencelock import LeaseLost, Misconfigured
from fencelock.engines.sqlite.wire import file as lock_file
from fencelock.engines.sqlite.wire.mounts import refuse_network
from tests.faults.crew import Actor, Crew, Refused
from tests.faults.flavors import Lab, make_due, run


def test_a_holder_stopped_in_its_section_blocks_no_other_name(
    flavor: str, database: Path, file_url: str, crew: Crew
) -> None:
    """H71: no transaction is ever the lock: who holds one name keeps nobody from another."""
    frozen, other = crew.actor(flavor, file_url), crew.actor(flavor, file_url)
    frozen.acquire("seat", ttl=60)
    freeze_between_writes(frozen, database)
    for number in range(5):
        assert other.acquire(f"other:{number}")["held"]
        assert other.ask("release", name=f"other:{number}") is True
    with pytest.raises(Refused, match="AcquireTimeout"):
        other.acquire("seat")
    frozen.thaw()
    assert frozen.ask("status", name="seat")["held"]


def test_processes_stopped_between_two_writes_let_others_in(
    flavor: str, database: Path, file_url: str, crew: Crew
) -> None:
    """H71: a waiter stopped in the queue, and a holder stopped: all other names go on."""
    holder, waiter, other = (crew.actor(flavor, file_url) for _ in range(3))
    holder.acquire("seat", ttl=60)
    waiting = waiter.queue("seat", 1)
    freeze_between_writes(waiter, database)
    freeze_between_writes(holder, database)
    assert other.acquire("other")["held"]
    waiter.thaw()
    holder.thaw()
    assert holder.ask("release", name="seat") is True
    assert waiting.result()["held"]


def freeze_between_writes(actor: Actor, path: Path) -> None:
    """Stop a process. One that is stopped in the midst of a write keeps SQLite's lock: go on, and
    stop it later."""
    connection = sqlite3.connect(path, timeout=0, isolation_level=None)
    for _ in range(1000):
        actor.freeze()
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            actor.thaw()
            continue
        connection.execute("ROLLBACK")
        connection.close()
        return
    pytest.fail("it writes all the time")


def touch(path: Path) -> None:
    path.read_bytes()


def connect_again(path: Path) -> None:
    with fencelock.connect(f"sqlite:///{path}"):
        pass


def look_with_sqlite(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("SELECT COUNT(*) FROM locks").fetchall()
    connection.close()


def back_up(path: Path) -> None:
    shutil.copy(path, path.with_suffix(".copy"))


TOUCHES = {touch.__name__: touch, connect_again.__name__: connect_again,
           look_with_sqlite.__name__: look_with_sqlite, back_up.__name__: back_up}  # fmt: skip


@pytest.mark.parametrize("how", TOUCHES)
def test_opening_and_closing_the_file_in_the_holders_process_changes_nothing(
    flavor: str, database: Path, file_url: str, how: str
) -> None:
    """H72: that drops all POSIX locks of a process on a file, SQLite's among them.

    Another process that comes and goes must not remove the WAL from under us: what we acquire next
    would be seen by nobody.
    """

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(file_url)
        first = await client.lock("first").acquire()
        TOUCHES[how](database)
        assert seen_by_another_process(file_url) == ["first"]
        second = await client.lock("second").acquire()
        assert seen_by_another_process(file_url) == ["first", "second"]
        await first.renew()
        assert await first.release() is True
        assert seen_by_another_process(file_url) == ["second"]
        assert await second.release() is True

    run(flavor, scenario)
    check_integrity(database)


def seen_by_another_process(url: str) -> list[str]:
    code = (
        "import fencelock, sys\n"
        "with fencelock.connect(sys.argv[1]) as client:\n"
        "    print(*[held.name for held in client.scan()])\n"
    )
    run = subprocess.run([sys.executable, "-c", code, url], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return run.stdout.split()


def check_integrity(database: Path) -> None:
    connection = sqlite3.connect(database)
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    connection.close()


def test_the_last_client_to_leave_leaves_one_file(flavor: str, database: Path) -> None:
    """H72: what keeps the WAL in place while we work lets go of it in the end."""

    async def scenario(lab: Lab) -> None:
        one, two = [await lab.connect(f"sqlite:///{database}") for _ in range(2)]
        lease = await one.lock("seat").acquire()
        assert await two.lock("seat").try_acquire(timeout=0.01) is None
        await lease.release()

    run(flavor, scenario)
    left = {path.name for path in database.parent.iterdir() if path.is_file()}
    assert left == {"locks.db"}


MOUNTS = """\
22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw
31 27 0:44 / /home rw,relatime shared:5 - nfs4 server:/home rw,vers=4.2
32 31 0:45 / /home/local rw,relatime - xfs /dev/sdb1 rw
33 27 0:46 / /mnt/with\\040space rw - cifs //server/share rw
34 27 0:47 / /mnt/back\\134slash rw - fuse.sshfs host: rw
35 27 0:48 / /data rw - ext4 /dev/sdc1 rw
36 27 0:49 / /data rw - nfs server:/data rw
37 27 0:50 / /over rw - nfs server:/over rw
38 27 0:51 / /over rw - ext4 /dev/sdd1 rw
39 27 0:52 / /home2 rw - ext4 /dev/sde1 rw
a line that makes no sense
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/home/me/locks.db", "nfs4"),
        ("/home/localx/locks.db", "nfs4"),
        ("/mnt/with space/locks.db", "cifs"),
        ("/mnt/back\\slash/locks.db", "fuse.sshfs"),
        ("/data/locks.db", "nfs"),
    ],
)
def test_a_network_file_system_is_refused(path: str, kind: str) -> None:
    """H73: judged by the last mount over the deepest folder above the file."""
    with pytest.raises(Misconfigured, match=rf"network file system \({kind} ") as caught:
        refuse_network(path, MOUNTS)
    assert "use a local path" in str(caught.value)


@pytest.mark.parametrize(
    "path",
    ["/tmp/locks.db", "/home/local/locks.db", "/home2/locks.db", "/over/locks.db", "/homelocks.db"],
)
def test_a_local_file_system_is_not_refused(path: str) -> None:
    """H73: a neighbor's name that merely begins the same is another folder."""
    refuse_network(path, MOUNTS)
    refuse_network(path, "")


def test_a_file_on_a_network_file_system_is_not_even_made(
    flavor: str, database: Path, file_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H73: the refusal comes before the file."""
    mounts = f"36 27 0:49 / {database.parent} rw - nfs server:/data rw\n"
    monkeypatch.setattr(lock_file, "mounts", lambda: mounts)

    async def scenario(lab: Lab) -> None:
        with pytest.raises(Misconfigured, match="network file system"):
            await (await lab.connect(file_url)).holders("seat")

    run(flavor, scenario)
    assert list(database.parent.iterdir()) == []


def test_a_link_into_a_network_file_system_is_followed(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H73: what counts is where the file lies, not how it is called."""
    real = database.parent / "real"
    real.mkdir()
    database.parent.joinpath("link").symlink_to(real)
    mounts = f"36 27 0:49 / {real} rw - nfs server:/data rw\n"
    monkeypatch.setattr(lock_file, "mounts", lambda: mounts)
    with pytest.raises(Misconfigured, match="network file system"):
        fencelock.connect(f"sqlite:///{database.parent}/link/locks.db").open()


def delete_all(database: Path) -> None:
    for path in database.parent.glob("locks.db*"):
        if path.is_file():
            path.unlink()


def delete_the_database_only(database: Path) -> None:
    database.unlink()


def move_away(database: Path) -> None:
    for path in list(database.parent.glob("locks.db*")):
        if path.is_file():
            path.rename(path.with_name("old-" + path.name))


def replace_by_a_new_one(database: Path) -> None:
    fresh = database.with_name("fresh.db")
    with fencelock.connect(f"sqlite:///{fresh}"):
        pass
    delete_all(database)
    fresh.replace(database)


REMOVALS: dict[str, Callable[[Path], None]] = {
    removal.__name__: removal
    for removal in (delete_all, delete_the_database_only, move_away, replace_by_a_new_one)
}


@pytest.mark.parametrize("removal", REMOVALS)
def test_a_holder_learns_that_its_file_is_gone(
    flavor: str, database: Path, file_url: str, removal: str
) -> None:
    """H06: deleted or replaced: its next renewal finds no record, and newcomers work."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(file_url)
        lease = await client.lock("seat", ttl=60).acquire()
        REMOVALS[removal](database)

        def told() -> bool:  # the engine looks at its file now and then
            make_due(lease)
            return lease.lost.is_set()

        await lab.until(told, "the holder to be told")
        with pytest.raises(LeaseLost, match="gone from the file"):
            lease.check()
        again = await client.lock("seat").acquire(timeout=10)
        newcomer = await lab.connect(file_url)
        assert [held.fence for held in await newcomer.holders("seat")] == [again.fence]
        assert again.fence > lease.fence
        assert await again.release() is True
        taken = await newcomer.lock("seat").acquire(timeout=0)
        assert await client.lock("seat").try_acquire() is None
        await taken.release()

    run(flavor, scenario)
    check_integrity(database)


@pytest.mark.parametrize("removal", REMOVALS)
def test_newcomers_and_old_clients_meet_in_the_new_file(
    flavor: str, database: Path, file_url: str, crew: Crew, removal: str
) -> None:
    """H06: with real processes: a holder, an idle client, and one that comes afterwards."""
    holder, idle = crew.actor(flavor, file_url), crew.actor(flavor, file_url)
    idle.acquire("other")
    held = holder.acquire("seat", ttl=1.2)
    REMOVALS[removal](database)
    newcomer = crew.actor(flavor, file_url)
    taken = newcomer.acquire("seat")
    holder.hear(event="lost", name="seat")
    assert taken["fence"] > held["fence"]
    for client in (holder, idle):
        with pytest.raises(Refused, match="AcquireTimeout"):
            client.acquire("seat")
    assert newcomer.ask("release", name="seat") is True
    assert idle.acquire("seat")["fence"] > taken["fence"]


def test_a_waiter_queues_again_when_its_file_is_gone(
    flavor: str, database: Path, file_url: str, crew: Crew
) -> None:
    """H06: its place in the queue is gone with the file; it does not wait for ever."""
    holder, waiter = crew.actor(flavor, file_url), crew.actor(flavor, file_url)
    held = holder.acquire("seat", ttl=1.2)
    waiting = waiter.queue("seat", 1, ttl=60)
    delete_all(database)
    assert waiting.result(within=20)["fence"] > held["fence"]
    holder.hear(event="lost", name="seat")
