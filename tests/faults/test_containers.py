"""Containers that share the file of the embedded engine, and the machine that starts again."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import fencelock
from fencelock import AcquireTimeout, Misconfigured
from tests.faults.crew import Crew, Refused
from tests.servers.clock import Clock

BOOT_ID = "/proc/sys/kernel/random/boot_id"


def in_a_mount_namespace(source: Path, target: str | Path) -> list[str]:
    """The command that runs another where a file is mounted over another file, or skip."""
    if shutil.which("unshare") is None:
        pytest.skip("mount namespaces need unshare (util-linux)")
    script = 'mount --bind "$0" "$1" && shift && exec "$@"'
    refusals: list[str] = []
    for options in (["-m"], ["-Urm"]):  # as root, or as the root of a user namespace
        wrapper = ["unshare", *options, "sh", "-c", script, str(source), str(target)]
        probe = subprocess.run([*wrapper, "true"], capture_output=True, text=True)
        if not probe.returncode:
            return wrapper
        refusals.append(probe.stderr.strip())
    pytest.skip(f"mount namespaces are not permitted here (root?): {refusals}")


def test_a_container_with_a_boot_id_of_its_own_shares_the_locks(
    flavor: str, file_url: str, tmp_path: Path, crew: Crew
) -> None:
    """H27: systemd-nspawn, LXC and Incus mount a random boot id; the machine is the same.

    Leases live on when a container connects, those of processes that have ended included.
    """
    foreign = tmp_path / "boot_id"
    foreign.write_text("00000000-1111-4222-8333-444444444444\n")
    outside = crew.actor(flavor, file_url)
    gone = crew.actor(flavor, file_url)
    outside.acquire("seat", ttl=60)
    held = gone.acquire("left behind", ttl=60)
    gone.kill()
    waiting = outside.queue("left behind", 1, ttl=60)
    inside = crew.actor(flavor, file_url, wrapper=in_a_mount_namespace(foreign, BOOT_ID))
    for name in ("seat", "left behind"):
        with pytest.raises(Refused, match="AcquireTimeout"):
            inside.acquire(name)
    assert inside.ask("inspect", name="left behind") == {"holders": 1, "waiters": 1}
    late = crew.actor(flavor, file_url)
    with pytest.raises(Refused, match="AcquireTimeout"):
        late.acquire("seat")
    assert outside.ask("release", name="seat") is True
    assert inside.acquire("seat", ttl=60)["fence"] > held["fence"]
    with pytest.raises(Refused, match="AcquireTimeout"):
        crew.actor(flavor, file_url).acquire("seat")
    assert not waiting.given()


def test_a_start_of_the_machine_ends_the_leases_of_earlier_ones(
    flavor: str, file_url: str, tmp_path: Path, crew: Crew
) -> None:
    """H27: the boot clock begins again, so whatever was written ahead of it is over."""
    before, after = Clock(tmp_path), Clock(tmp_path)
    before.set(boot=100_000.0)
    dead = crew.actor(flavor, file_url, environment=before.environment)
    held = dead.acquire("seat", ttl=600)
    waiting = dead.queue("seat", 1, ttl=600)
    dead.kill()
    assert not waiting.given()
    after.set(boot=0.0)
    fresh = crew.actor(flavor, file_url, environment=after.environment)
    assert fresh.ask("inspect", name="seat") == {"holders": 0, "waiters": 0}
    assert fresh.acquire("seat")["fence"] > held["fence"]


def test_a_lease_that_may_be_of_this_boot_is_left_until_its_ttl_has_passed(
    file_url: str, tmp_path: Path, crew: Crew
) -> None:
    """H27: nobody can tell whose it is, so it ends as that of a killed process does."""
    dead = crew.actor("sync", file_url)
    held = dead.acquire("seat", ttl=2)
    dead.kill()
    with fencelock.connect(file_url) as client:
        with pytest.raises(AcquireTimeout):
            client.lock("seat").acquire(timeout=0)
        with client.lock("seat", timeout=10) as lease:
            assert lease.fence > held["fence"]


CONNECT = """
import sys, fencelock
try:
    fencelock.connect(sys.argv[1]).lock("seat").acquire(timeout=0)
except fencelock.FencelockError as error:
    print(type(error).__name__, error)
else:
    print("granted")
"""


def test_a_file_that_is_mounted_by_itself_is_refused(
    file_url: str, database: Path, tmp_path: Path
) -> None:
    """H73: ``docker run -v ./locks.db:/data/locks.db``: two paths would have two logs."""
    with fencelock.connect(file_url) as client, client.lock("seat", ttl=60):
        for mounted in (tmp_path / "inside" / "locks.db", tmp_path / "locks2.db"):
            mounted.parent.mkdir(exist_ok=True)
            mounted.touch()
            wrapper = in_a_mount_namespace(database, mounted)
            command = [*wrapper, sys.executable, "-c", CONNECT, f"sqlite:///{mounted}"]
            told = subprocess.run(command, capture_output=True, text=True)
            assert told.stdout.startswith("Misconfigured"), told
            assert f"mount its folder, {mounted.parent}, instead" in told.stdout
            assert not mounted.with_name(mounted.name + "-wal").exists()


def test_a_folder_that_is_mounted_elsewhere_shares_the_locks(
    file_url: str, database: Path, tmp_path: Path
) -> None:
    """H73: as the message advises."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    wrapper = in_a_mount_namespace(tmp_path, elsewhere)
    command = [*wrapper, sys.executable, "-c", CONNECT, f"sqlite:///{elsewhere}/locks.db"]
    with fencelock.connect(file_url) as client:
        with client.lock("seat", ttl=60):
            told = subprocess.run(command, capture_output=True, text=True)
            assert told.stdout.startswith("AcquireTimeout"), told
        told = subprocess.run(command, capture_output=True, text=True)
        assert told.stdout == "granted\n", told


def test_a_file_with_hard_links_is_refused_by_every_name(file_url: str, database: Path) -> None:
    """H73: each name would have a log of its own. Removing the other name mends it."""
    with fencelock.connect(file_url):
        pass
    other = database.with_name("other.db")
    other.hardlink_to(database)
    for path in (database, other):
        with pytest.raises(Misconfigured, match=r"has 2 hard links.*remove the other names"):
            fencelock.connect(f"sqlite:///{path}").open()
    other.unlink()
    with fencelock.connect(file_url) as client:
        client.lock("seat").acquire().release()


def test_a_hard_link_made_while_the_file_is_open_lets_nobody_in_twice(
    file_url: str, database: Path
) -> None:
    """H73: by a back-up, say: whoever has the file goes on, and nobody opens it by either name."""
    other = database.with_name("other.db")
    with fencelock.connect(file_url) as client, client.lock("seat", ttl=60) as lease:
        other.hardlink_to(database)
        for path in (database, other):
            with pytest.raises(Misconfigured, match="hard links"):
                fencelock.connect(f"sqlite:///{path}").open()
        lease.renew()
        client.lock("another").acquire().release()


def symlink_to_the_file(database: Path) -> str:
    database.with_name("link.db").symlink_to(database)
    return f"{database.parent}/link.db"


def symlink_to_the_folder(database: Path) -> str:
    link = database.parent / "folder"
    link.symlink_to(database.parent)
    return f"{link}/locks.db"


def link_of_a_link(database: Path) -> str:
    database.with_name("second.db").symlink_to(symlink_to_the_file(database))
    return f"{symlink_to_the_folder(database)[: -len('locks.db')]}second.db"


def two_slashes(database: Path) -> str:
    return f"/{database.parent}//locks.db"


def dots(database: Path) -> str:
    (database.parent / "x").mkdir()
    return f"{database.parent}/./x/../locks.db"


def relative(database: Path) -> str:
    return os.path.relpath(database)


def percent_encoded(database: Path) -> str:
    return f"{database.parent}/%6cocks.db"


def through_a_descriptor(database: Path) -> str:
    descriptor = os.open(database.parent, os.O_RDONLY)
    return f"/proc/self/fd/{descriptor}/locks.db"


WAYS: dict[str, Callable[[Path], str]] = {
    way.__name__: way
    for way in (
        symlink_to_the_file,
        symlink_to_the_folder,
        link_of_a_link,
        two_slashes,
        dots,
        relative,
        percent_encoded,
        through_a_descriptor,
    )
}


@pytest.mark.parametrize("way", WAYS)
def test_every_way_to_write_a_path_leads_to_the_same_locks(
    way: str, file_url: str, database: Path
) -> None:
    """H73: and to the same log: nothing lies beside a link."""
    with fencelock.connect(file_url) as client, client.lock("seat", ttl=60):
        path = WAYS[way](database)
        with fencelock.connect(f"sqlite:///{path}") as other:
            with pytest.raises(AcquireTimeout):
                other.lock("seat").acquire(timeout=0)
            with other.lock("another", ttl=60), pytest.raises(AcquireTimeout):
                client.lock("another").acquire(timeout=0)
        logs = {found.name for found in database.parent.glob("*-wal")}
        assert logs == {"locks.db-wal"}


def test_a_path_that_becomes_a_link_is_not_followed(
    file_url: str, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H73: the file behind it has sockets, and a log, beside another path."""
    monkeypatch.setattr("fencelock.engines.sqlite.wire.database.TRUST_S", 0.0)
    with fencelock.connect(file_url) as client:
        elsewhere = database.with_name("elsewhere.db")
        with fencelock.connect(f"sqlite:///{elsewhere}"):
            pass
        for path in database.parent.glob("locks.db*"):
            path.unlink()
        database.symlink_to(elsewhere)
        with pytest.raises(Misconfigured, match=r"has become a link to .*connect again"):
            client.lock("seat").acquire()
        with fencelock.connect(file_url) as again:
            again.lock("seat").acquire().release()
