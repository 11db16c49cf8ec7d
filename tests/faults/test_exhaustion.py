"""A process or a machine that has run out of something: descriptors, memory, threads, disk."""

from __future__ import annotations

import errno
import itertools
import resource
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fencelock import Expired, LeaseLost, observe
from fencelock.testing.faulty import Faults
from tests.faults import disk
from tests.faults.crew import Actor, Crew, Refused
from tests.faults.flavors import Lab, make_due, make_end, run

ERRORS: dict[str, Callable[[], Exception]] = {
    "EMFILE": lambda: OSError(errno.EMFILE, "Too many open files"),
    "ENOMEM": lambda: MemoryError("no memory"),
    "a bug": lambda: ZeroDivisionError("a defect of an engine"),
}


@pytest.mark.parametrize("error", ERRORS)
def test_any_error_of_a_renewal_is_a_failed_renewal_and_no_more(
    flavor: str, client_url: str, faults: Faults, error: str
) -> None:
    """H29: the keeper survives errors that no engine should raise, and tries again."""

    async def scenario(lab: Lab) -> None:
        told: list[LeaseLost] = []
        client = await lab.connect(client_url, faults)
        lease = await client.lock("seat", ttl=60, on_lost=told.append).acquire()
        faults.fail(ERRORS[error], "renew")
        make_due(lease)
        await lab.until(lambda: len(faults.seen("renew", "refused")) == 2, "two failed renewals")
        faults.heal()
        await lab.until(lambda: faults.seen("renew", "answered"), "a renewal that works again")
        lease.check()
        assert not told
        assert await lease.release() is True

    run(flavor, scenario)


def test_a_renewal_that_keeps_failing_ends_in_a_loss_that_says_why(
    flavor: str, client_url: str, faults: Faults
) -> None:
    """H29: lost at the holder's own deadline, with the operating system's reason."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(client_url, faults)
        lease = await client.lock("seat", ttl=60).acquire()
        faults.fail(ERRORS["EMFILE"], "renew")
        make_due(lease)
        await lab.until(lambda: lease._hold.failure, "a failed renewal")
        make_end(lease)
        assert await lease.lost.wait(timeout=10)
        with pytest.raises(Expired, match="Too many open files"):
            lease.check()
        faults.heal()

    run(flavor, scenario)


def test_a_process_without_free_descriptors_goes_on_renewing(
    flavor: str, shared_url: str, crew: Crew
) -> None:
    """H29: the limit of a live process is set to what it uses: all that renewing needs is open.

    It is the first number that is free, so that nothing can be opened. A lower one would do more:
    ``poll`` refuses to look at more descriptors than the limit.
    """
    if not hasattr(resource, "prlimit"):
        pytest.skip("setting the limits of a live process needs Linux (prlimit)")
    holder = crew.actor(flavor, shared_url)
    holder.acquire("seat", ttl=60)
    wait_for_renewals(holder, 1)
    _, hard = resource.prlimit(holder.pid, resource.RLIMIT_NOFILE)
    used = {int(number.name) for number in Path(f"/proc/{holder.pid}/fd").iterdir()}
    limit = next(number for number in itertools.count() if number not in used)
    resource.prlimit(holder.pid, resource.RLIMIT_NOFILE, (limit, hard))
    wait_for_renewals(holder, 3)
    assert not holder.has_said(event="lost")
    resource.prlimit(holder.pid, resource.RLIMIT_NOFILE, (hard, hard))
    assert holder.ask("release", name="seat") is True


def test_a_process_that_cannot_reach_its_file_for_want_of_descriptors_loses_the_lease_in_time(
    flavor: str, file_url: str, database: Path, crew: Crew
) -> None:
    """H29: the file was replaced and cannot be opened: failed renewals, then lost, no silence."""
    if not hasattr(resource, "prlimit"):
        pytest.skip("setting the limits of a live process needs Linux (prlimit)")
    holder = crew.actor(flavor, file_url)
    holder.acquire("seat", ttl=6)
    _, hard = resource.prlimit(holder.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(holder.pid, resource.RLIMIT_NOFILE, (3, hard))
    database.rename(database.with_suffix(".old"))
    assert "could not be renewed" in holder.lose("seat")["reason"]
    resource.prlimit(holder.pid, resource.RLIMIT_NOFILE, (hard, hard))
    assert holder.acquire("seat")["held"]


def wait_for_renewals(actor: Actor, count: int) -> None:
    pause = threading.Event()
    for _ in range(1000):
        actor.ask("make_due", name="seat")
        status = actor.ask("status", name="seat")
        assert status["held"], status["reason"]
        if status["renewals"] >= count:
            return
        pause.wait(0.01)
    raise AssertionError("the lease was not renewed")


def test_a_keeper_that_gets_no_thread_tries_again(
    client_url: str, faults: Faults, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H29, blocking: no thread for a renewal is a failed renewal."""
    failed = threading.Event()

    def listen(event: observe.Event) -> None:
        if event.kind == "renew_failed":
            failed.set()

    unsubscribe = observe.subscribe(listen)

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(client_url, faults)
        lease = await client.lock("seat", ttl=60).acquire()
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", refuse_to_start)
            make_due(lease)
            assert failed.wait(10)
        await lab.until(lambda: faults.seen("renew", "answered"), "a renewal that works again")
        lease.check()
        await lease.release()

    try:
        run("sync", scenario)
    finally:
        unsubscribe()


def test_a_lease_that_nobody_could_renew_is_not_given_out(
    client_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H29, blocking: no thread for the keeper itself: acquire fails, and nothing is held."""

    async def scenario(lab: Lab) -> None:
        client, other = await lab.connect(client_url), await lab.connect(client_url)
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", refuse_to_start)
            patch.setattr("_thread.start_new_thread", refuse_to_start)
            with pytest.raises(RuntimeError, match="new thread"):
                await client.lock("seat", ttl=60).acquire()
        assert await other.holders("seat") == []
        lease = await client.lock("seat", ttl=60).acquire(timeout=0)
        await lease.release()

    run("sync", scenario)


def refuse_to_start(*_: object) -> None:
    raise RuntimeError("can't start new thread")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of one megabyte."""
    with disk.small_disk(tmp_path / "disk") as place:
        yield place


def use_up(actor: Actor) -> None:
    """Take locks until there is no room for another: SQLite has set some aside before."""
    for number in range(400):
        actor.acquire(f"other:{number}", ttl=60)


def test_a_full_disk_is_said_clearly_and_changes_nothing(
    flavor: str, small_disk: Path, crew: Crew
) -> None:
    """H74: the request fails, the lock's state is as it was, and all goes on when there is room."""
    url = f"sqlite:///{small_disk / 'locks.db'}"
    holder, other = crew.actor(flavor, url), crew.actor(flavor, url)
    held = holder.acquire("seat", ttl=60)
    filler = disk.fill(small_disk)
    with pytest.raises(Refused, match=r"^Unavailable: .* is full; nothing happened. Make room"):
        use_up(other)
    with pytest.raises(Refused, match=r"AcquireTimeout|is full"):
        other.acquire("seat")
    assert holder.ask("inspect_only", name="seat") == [held["fence"]]
    filler.unlink()
    with pytest.raises(Refused, match="AcquireTimeout"):
        other.acquire("seat")
    assert holder.ask("status", name="seat")["held"]
    assert holder.ask("release", name="seat") is True
    assert other.acquire("seat")["fence"] > held["fence"]


def test_a_lease_survives_a_disk_that_is_full_for_a_while(
    flavor: str, small_disk: Path, crew: Crew
) -> None:
    """H74: renewals fail while there is no room, and are tried again."""
    url = f"sqlite:///{small_disk / 'locks.db'}"
    holder, other = crew.actor(flavor, url), crew.actor(flavor, url)
    holder.acquire("seat", ttl=60)
    filler = disk.fill(small_disk)
    with pytest.raises(Refused, match="is full"):
        use_up(other)
    with pytest.raises(Refused, match="is full"):
        holder.ask("renew", name="seat")
    filler.unlink()
    wait_for_renewals(holder, holder.ask("status", name="seat")["renewals"] + 1)
    assert not holder.has_said(event="lost")


def test_a_full_disk_refuses_a_new_file_cleanly(flavor: str, small_disk: Path) -> None:
    """H74: not even the tables fit: an error of ours, and a later try succeeds."""
    from fencelock import Unavailable

    filler = disk.fill(small_disk)

    async def scenario(lab: Lab) -> None:
        url = f"sqlite:///{small_disk / 'locks.db'}"
        with pytest.raises(Unavailable, match="full"):
            _ = await lab.connect(url)
        filler.unlink()
        client = await lab.connect(url)
        async with client.lock("seat") as lease:
            lease.check()

    run(flavor, scenario)
