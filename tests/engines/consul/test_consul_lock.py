"""``consul lock``, which is HashiCorp's client for Go, and ours exclude each other on one key."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import fencelock
from tests.faults.flavors import SOON
from tests.servers.consul import Consul
from tests.servers.server import until

OUR_LOOPS, OURS = 2, 875
LOOPS, THEIRS = 10, 25
TURNS = OUR_LOOPS * OURS + LOOPS * THEIRS
LONG = 120.0  # seconds: for a process that others overtake
TURN = """
mkdir inside 2>/dev/null || echo clash >>clashes
echo $(( $(cat count) + 1 )) >new && mv new count
rmdir inside
"""


class Command:
    """One ``consul lock`` that holds until it is told to stop."""

    def __init__(self, consul: Consul, name: str, folder: Path) -> None:
        self._held = folder / f"held-{name}"
        wait = f"touch {self._held}; exec cat"
        self._process = subprocess.Popen(
            consul.cli("lock", "-pass-stdin", name, wait),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
        )

    @property
    def holds(self) -> bool:
        return self._held.exists()

    def release(self) -> None:
        self._process.communicate(timeout=SOON)

    def clear(self) -> None:
        self._process.kill()
        self._process.communicate()


@pytest.fixture
def commands() -> Iterator[list[Command]]:
    """Those that a test has started; none is left when it ends."""
    started: list[Command] = []
    yield started
    for command in started:
        command.clear()


def test_consul_lock_keeps_us_out(consul: Consul, tmp_path: Path, commands: list[Command]) -> None:
    commands.append(Command(consul, "theirs", tmp_path))
    until(lambda: commands[0].holds, "consul lock to hold")
    with fencelock.connect(consul.url) as client:
        assert client.lock("theirs/.lock").try_acquire() is None
        (holding,) = client.holders("theirs/.lock")
        assert (holding.ttl, holding.meta["host"]) == (15, "n0")
        assert str(holding.meta["session"]).startswith("Consul lock")
        assert [one.name for one in client.scan("theirs")] == ["theirs/.lock"]
        waiter = threading.Timer(0, commands[0].release)
        waiter.start()
        with client.lock("theirs/.lock", ttl=30).acquire(timeout=SOON) as lease:
            assert lease.fence > holding.fence
        waiter.join()


def test_we_keep_consul_lock_out(consul: Consul, tmp_path: Path, commands: list[Command]) -> None:
    with fencelock.connect(consul.url) as client:
        lease = client.lock("ours/.lock", ttl=30).acquire()
        commands.append(Command(consul, "ours", tmp_path))
        asked = "Consul lock"
        until(lambda: [s for s in consul.ask("GET", "session/list") if asked in s["Name"]], asked)
        assert not commands[0].holds
        lease.check()
        assert lease.release() is True
        until(lambda: commands[0].holds, "consul lock to hold")
        assert client.lock("ours/.lock").try_acquire() is None


def test_a_lock_that_consul_lock_holds_can_be_revoked(
    consul: Consul, tmp_path: Path, commands: list[Command]
) -> None:
    commands.append(Command(consul, "taken", tmp_path))
    until(lambda: commands[0].holds, "consul lock to hold")
    with fencelock.connect(consul.url) as client:
        assert client.revoke("taken/.lock", "maintenance") is True
        with client.lock("taken/.lock", ttl=30).acquire(timeout=SOON):
            assert not client.revoke("taken", "another key")


def test_nobody_is_inside_with_another_over_thousands_of_turns(
    consul: Consul, tmp_path: Path
) -> None:
    """Two threads of ours and ten loops of ``consul lock`` count in a file, in turns.

    One turn of the command alone takes 0.3 s: a process starts, opens a session, runs a shell and
    ends. With ten at once two cores are busy, at 0.1 to 0.2 s for a turn, and more do not help. So
    seven of our turns come after each of its.
    """
    (tmp_path / "count").write_text("0\n")
    ours_to_come = threading.Semaphore(0)

    def ours() -> None:
        with fencelock.connect(consul.url) as client:
            for _ in range(OURS):
                assert ours_to_come.acquire(timeout=LONG)
                with client.lock("turns/.lock", ttl=30, timeout=LONG):
                    take_turn(tmp_path)

    def theirs() -> None:
        for _ in range(THEIRS):
            subprocess.run(
                consul.cli("lock", "turns", TURN),
                cwd=tmp_path,
                check=True,
                capture_output=True,
                timeout=LONG,
            )
            ours_to_come.release(OUR_LOOPS * OURS // (LOOPS * THEIRS))

    threads = [threading.Thread(target=ours) for _ in range(OUR_LOOPS)]
    threads += [threading.Thread(target=theirs) for _ in range(LOOPS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not (tmp_path / "clashes").exists()
    assert int((tmp_path / "count").read_text()) == TURNS


def take_turn(folder: Path) -> None:
    """The same as TURN, without a process for it."""
    try:
        (folder / "inside").mkdir()
    except FileExistsError:
        (folder / "clashes").touch()
        return
    count = int((folder / "count").read_text())
    (folder / "new").write_text(f"{count + 1}\n")
    (folder / "new").rename(folder / "count")
    (folder / "inside").rmdir()


def test_a_key_that_consul_lock_left_behind_is_taken(consul: Consul) -> None:
    """A session that ends by ``release`` leaves the key, without a session."""
    session = consul.ask("PUT", "session/create", {"TTL": "10s", "LockDelay": "0s"})["ID"]
    assert consul.ask("PUT", f"kv/left?acquire={session}", b"curl") is True
    with fencelock.connect(consul.url) as client:
        assert client.lock("left").try_acquire() is None
        assert consul.ask("PUT", f"kv/left?release={session}") is True
        with client.lock("left", ttl=30) as lease:
            assert consul.pair("left")["LockIndex"] == 2
            assert lease.fence == consul.pair("left")["ModifyIndex"]
        assert consul.pair("left") is None


def test_the_data_of_others_is_left_alone(consul: Consul) -> None:
    consul.ask("PUT", "kv/data", b"precious")
    with fencelock.connect(consul.url) as client:
        with pytest.raises(fencelock.Misconfigured, match="is no lock's, and stays as it is"):
            client.lock("data").acquire(timeout=1)
        assert client.holders("data") == []
    assert consul.pair("data")["Value"] == "cHJlY2lvdXM="
