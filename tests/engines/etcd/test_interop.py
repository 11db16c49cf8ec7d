"""``etcdctl lock``, which is Go's ``concurrency.Mutex``, and ours stand in one queue."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator

import pytest

import fencelock
from tests.faults.flavors import SOON, Job, Lab, run
from tests.servers.etcd import Etcd
from tests.servers.server import until


class Ctl:
    """One ``etcdctl lock NAME`` that holds until it is told to stop."""

    def __init__(self, etcd: Etcd, name: str) -> None:
        self._process = subprocess.Popen(
            etcd.ctl_command("lock", "--ttl", "60", name),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._name = name

    def wait_held(self) -> None:
        assert self._process.stdout is not None
        assert self._process.stdout.readline().startswith(f"{self._name}/")

    def release(self) -> None:
        """Interrupt it, so that it gives the lock back."""
        self._process.send_signal(signal.SIGINT)
        self._process.communicate(timeout=SOON)

    def clear(self) -> None:
        self._process.kill()
        self._process.communicate()


@pytest.fixture
def ctls() -> Iterator[list[Ctl]]:
    """Those that a test has started; none is left when it ends."""
    started: list[Ctl] = []
    yield started
    for ctl in started:
        ctl.clear()


@pytest.fixture(params=["{}", "/locks/{}", "{}/", "jobs/{}/nightly"])
def name(request: pytest.FixtureRequest, prefix: str) -> str:
    """Names as Go programs like them: slashes are a part of them."""
    return str(request.param).format(prefix)


def queued(etcd: Etcd, name: str) -> int:
    """How many stand under a name, the holder included."""
    return len(etcd.keys(f"{name}/"))


def test_etcdctl_keeps_us_out(etcd: Etcd, name: str, ctls: list[Ctl]) -> None:
    ctls.append(Ctl(etcd, name))
    ctls[0].wait_held()
    with fencelock.connect(etcd.url) as client:
        assert client.lock(name).try_acquire() is None
        (holding,) = client.holders(name)
        assert (holding.ttl, holding.meta) == (60, {})
        ctls[0].release()
        with client.lock(name).acquire(timeout=SOON) as lease:
            assert lease.fence > holding.fence


def test_we_keep_etcdctl_out(etcd: Etcd, name: str, ctls: list[Ctl]) -> None:
    with fencelock.connect(etcd.url) as client:
        lease = client.lock(name).acquire()
        ctls.append(Ctl(etcd, name))
        until(lambda: queued(etcd, name) == 2, "etcdctl in the queue")
        assert len(client.inspect(name).waiters) == 1
        assert [holding.fence for holding in client.holders(name)] == [lease.fence]
        lease.check()
        lease.release()
        ctls[0].wait_held()
        assert client.lock(name).try_acquire() is None


def test_both_are_served_in_one_order(
    flavor: str, etcd: Etcd, prefix: str, ctls: list[Ctl]
) -> None:
    """A queue of ours and theirs, ours by turns first and second."""

    async def scenario(lab: Lab) -> None:
        client, name, order = await lab.connect(etcd.url), prefix, list[str]()

        async def take_turn(number: int) -> None:
            async with client.lock(name, ttl=60, timeout=SOON):
                order.append(f"ours {number}")

        holder = await client.lock(name, ttl=60).acquire()
        jobs: list[Job[None]] = []
        for number in range(3):
            jobs.append(lab.start(take_turn(number)))
            await lab.until(lambda: queued(etcd, name) == 2 + 2 * number, "ours in the queue")  # noqa: B023
            ctls.append(Ctl(etcd, name))
            await lab.until(lambda: queued(etcd, name) == 3 + 2 * number, "theirs in the queue")  # noqa: B023
        await holder.release()
        for number, job in enumerate(jobs):
            await job.result()
            assert order == [f"ours {n}" for n in range(number + 1)]
            ctls[number].wait_held()  # while it holds, the next of ours waits
            ctls[number].release()

    run(flavor, scenario)


def test_a_dead_etcdctl_frees_the_lock_for_us(etcd: Etcd, prefix: str, ctls: list[Ctl]) -> None:
    with fencelock.connect(etcd.url) as client:
        ctl = Ctl(etcd, prefix)
        ctls.append(ctl)
        ctl.wait_held()
        (key,) = etcd.keys(f"{prefix}/")
        ctl.clear()
        etcd.ctl("lease", "revoke", key.rpartition("/")[2])  # what its ttl of 60 s does later
        client.lock(prefix).acquire(timeout=SOON).release()


def test_names_below_ours_are_other_locks(etcd: Etcd, prefix: str) -> None:
    """``a/b`` is not ``a``, though its keys begin with ``a/``."""
    with fencelock.connect(etcd.url) as client:
        below = client.lock(f"{prefix}/below").acquire()
        with client.lock(prefix).acquire(timeout=0) as lease:
            assert client.lock(prefix).try_acquire() is None
            assert client.lock(prefix).try_acquire(timeout=0.05) is None
            assert [holding.fence for holding in client.holders(prefix)] == [lease.fence]
        lease = client.lock(prefix).acquire(timeout=SOON)
        assert [holding.name for holding in client.scan(prefix)] == [prefix, f"{prefix}/below"]
        lease.release()
        below.release()
    assert etcd.keys(prefix) == []
