"""The example of an engine is a whole one: it keeps every promise, and registers as others do."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from examples.engine_flock.fencelock_flock import FlockEngine
from fencelock import engines, errors, sync
from fencelock._client.client import Core
from fencelock.engine import Address
from fencelock.testing import conformance
from fencelock.testing.conformance import Check, Flavor
from fencelock.worlds.threads import ThreadsWorld

PROJECT = Path(__file__).parents[2] / "examples" / "engine_flock"
NOT_PROMISED = {"push", "portable", "shared", "remembers", "observe"}

CASES = [
    pytest.param(check, flavor, id=f"{check}-{flavor}")
    for check in conformance.checks()
    for flavor in conformance.FLAVORS
    if flavor in check.flavors and not NOT_PROMISED & {*check.needs}
]


@pytest.mark.parametrize(("check", "flavor"), CASES)
def test_the_example_keeps_its_promise(check: Check, flavor: Flavor, tmp_path: Path) -> None:
    try:
        conformance.run(lambda: f"flock:///{tmp_path}/locks", flavor, check, engine=FlockEngine)
    except conformance.NotApplicable as error:
        pytest.fail(f"the example promises less than before: {error}")


def test_only_push_is_not_promised() -> None:
    traits = FlockEngine.traits
    assert (traits.fence, traits.fifo, traits.durable, traits.revoke, traits.scan) == (True,) * 5
    assert traits.push is False


def client(folder: Path, **options: object) -> sync.Client:
    world, address = ThreadsWorld(), Address("flock", path=f"/{folder}", options=options)
    return sync.Client(Core(world, lambda: FlockEngine(world, address), sync.Lease))


# Registered, as a package of others would be


@pytest.fixture
def installed(tmp_path: Path) -> dict[str, str]:
    """The environment of a program for which the example is installed, without pip."""
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    about = tmp_path / "site" / f"fencelock_flock-{project['version']}.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Name: {project['name']}\nVersion: {project['version']}\n")
    points = project["entry-points"][engines.GROUP]
    lines = [f"[{engines.GROUP}]", *(f"{scheme} = {where}" for scheme, where in points.items())]
    (about / "entry_points.txt").write_text("\n".join(lines) + "\n")
    paths = [str(about.parent), str(PROJECT), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


def python(code: str, environment: dict[str, str], folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", code],
        env=environment,
        cwd=folder,
        stdout=subprocess.PIPE,
        text=True,
    )


WORKER = """
import fencelock, pathlib
counter = pathlib.Path("counter")
with fencelock.connect("flock:///locks") as client:
    for _ in range(10):
        with client.lock("counter", timeout=60) as lease:
            counter.write_text(f"{int(counter.read_text()) + 1}")
            with open("fences", "a") as fences:
                print(lease.fence, file=fences)
"""


def test_processes_that_find_it_by_its_scheme_exclude_each_other(
    installed: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "counter").write_text("0")
    workers = [python(WORKER, installed, tmp_path) for _ in range(3)]
    for worker in workers:
        worker.communicate(timeout=100)
    assert [worker.returncode for worker in workers] == [0, 0, 0]
    assert (tmp_path / "counter").read_text() == "30"
    fences = [int(line) for line in (tmp_path / "fences").read_text().split()]
    assert fences == sorted(set(fences))
    assert len(fences) == 30


def test_a_killed_process_leaves_the_file_whole_and_the_lock_to_its_ttl(
    installed: dict[str, str], tmp_path: Path
) -> None:
    code = """
import fencelock, sys
with fencelock.connect("flock:///locks").lock("job", ttl=1) as lease:
    print(lease.fence, flush=True)
    sys.stdin.read()
"""
    holder = python(code, installed, tmp_path)
    assert holder.stdout is not None
    with holder:
        fence = int(holder.stdout.readline())
        holder.kill()
    with client(tmp_path / "locks") as rival:
        with rival.lock("job", timeout=30) as lease:
            assert lease.fence > fence


# What can go wrong with this store in particular


def test_a_process_that_is_stopped_in_a_transaction_is_not_waited_for_long(tmp_path: Path) -> None:
    with client(tmp_path, request_timeout=0.1) as ours:
        folder = os.open(tmp_path, os.O_RDONLY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            with pytest.raises(errors.Unavailable, match="busy"):
                ours.lock("a").try_acquire()
        finally:
            os.close(folder)
        with ours.lock("a", timeout=0):
            pass


def test_a_child_forked_in_a_transaction_does_not_keep_the_folder_locked(
    installed: dict[str, str], tmp_path: Path
) -> None:
    code = """
import os, signal
from fencelock.worlds.threads import ThreadsWorld
from fencelock_flock.file import File

file = File("locks", ThreadsWorld(), 1.0)
file.create_folder()
child = file.transact(lambda document: os.fork() or signal.pause())
try:
    file.transact(lambda document: None)
finally:
    os.kill(child, signal.SIGKILL)
"""
    program = python(code, installed, tmp_path)
    program.communicate(timeout=60)
    assert program.returncode == 0


def test_leases_and_waiters_from_before_a_reboot_are_over(tmp_path: Path) -> None:
    later = 1e9  # as on a machine that had run for thirty years before
    record = {"owner": "x", "fence": 7, "ttl": 30.0, "since": later, "expires_at": later + 30.0}
    waiter = {"since": later, "seen_at": later, "meta": "{}"}
    book = {"locks": {"a": {**record, "meta": "{}"}}, "queues": {"a": {"y": waiter}}, "fence": 7}
    (tmp_path / "locks.json").write_text(json.dumps(book))
    with client(tmp_path) as ours:
        assert ours.inspect("a").waiters == ()
        with ours.lock("a", timeout=0) as lease:
            assert lease.fence > 7


def test_nothing_is_kept_for_names_that_are_not_in_use(tmp_path: Path) -> None:
    with client(tmp_path) as ours:
        for number in range(20):
            ours.lock(f"name-{number}").acquire().release()
    kept = json.loads((tmp_path / "locks.json").read_text())
    assert {**kept, "fence": 0} == {"locks": {}, "queues": {}, "revoked": {}, "fence": 0}


def test_what_is_wrong_with_the_folder_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(errors.Misconfigured, match="must name a folder"):
        client(tmp_path / "file" / "below").open()
    with pytest.raises(errors.Misconfigured, match="names no folder"):
        FlockEngine.settled(Address("flock"))


def test_the_safety_it_does_not_have_is_refused_with_advice(tmp_path: Path) -> None:
    with client(tmp_path) as ours:
        with pytest.raises(errors.Unsupported, match="sqlite"):
            ours.lock("a", safety="correctness")


def test_asyncio_finds_it_too(installed: dict[str, str], tmp_path: Path) -> None:
    code = """
import asyncio, fencelock

async def main():
    async with fencelock.aio.connect("flock:///locks") as client:
        async with client.lock("a") as lease:
            print(lease.fence)

asyncio.run(main())
"""
    program = python(code, installed, tmp_path)
    out, _ = program.communicate(timeout=60)
    assert program.returncode == 0
    assert int(out) > 0
