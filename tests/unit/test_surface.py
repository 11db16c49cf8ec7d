"""What ``import fencelock`` gives: its names, its types, and what may be shown or carried away."""

from __future__ import annotations

import copy
import pickle
import re
import subprocess
import sys
from typing import Any

import pytest

import fencelock
from fencelock import aio, sync


def test_everything_exported_is_there_and_listed() -> None:
    assert len(set(fencelock.__all__)) == len(fencelock.__all__)
    assert fencelock.__all__ == sorted(fencelock.__all__)
    for name in fencelock.__all__:
        assert name in dir(fencelock)
        assert getattr(fencelock, name) is not None


def test_the_blocking_flavor_is_the_one_without_a_prefix() -> None:
    for name in sync.__all__:
        assert getattr(fencelock, name) is getattr(sync, name)
        assert getattr(fencelock, name) is not getattr(fencelock.aio, name)
    assert fencelock.aio is aio


def test_a_name_that_is_not_there_is_said_so() -> None:
    with pytest.raises(AttributeError, match="module 'fencelock' has no attribute 'Mutex'"):
        fencelock.Mutex  # noqa: B018


def test_star_import_gives_what_is_listed() -> None:
    code = "from fencelock import *; print(connect.__name__, Lease.__name__, aio.__name__)"
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False
    )
    assert run.stdout.split() == ["connect", "Lease", "fencelock.aio"], run.stderr


def test_the_version_is_that_of_the_package() -> None:
    from importlib.metadata import version

    assert fencelock.__version__ == version("fencelock")


# Types


def test_connect_gives_a_client_that_makes_locks_that_make_leases() -> None:
    with fencelock.connect("memory://faces") as client:
        assert type(client) is fencelock.Client
        lock = client.lock("a")
        assert type(lock) is fencelock.Lock
        with lock as lease:
            assert type(lease) is fencelock.Lease
            assert type(lease.lost) is fencelock.Lost
        assert isinstance(client.inspect("a"), fencelock.State)
        assert isinstance(client.traits, fencelock.Traits)


def test_connecting_with_asyncio_can_be_awaited_or_entered() -> None:
    import asyncio

    async def main() -> None:
        client = await fencelock.aio.connect("memory://faces")
        assert type(client) is fencelock.aio.Client
        async with client:
            lock = client.lock("a")
            assert type(lock) is fencelock.aio.Lock
            async with lock as lease:
                assert type(lease) is fencelock.aio.Lease
                assert type(lease.lost) is fencelock.aio.Lost
        async with fencelock.aio.connect("memory://faces") as other:
            assert type(other) is fencelock.aio.Client

    asyncio.run(main())


def test_a_wrong_url_is_told_before_anything_is_awaited() -> None:
    with pytest.raises(fencelock.Misconfigured):
        _ = fencelock.aio.connect("nothing://")


@pytest.mark.parametrize(("flavor", "prefix"), [(sync, "fencelock"), (aio, "fencelock.aio")])
def test_a_repr_names_the_class_as_a_user_writes_it(flavor: Any, prefix: str) -> None:
    import asyncio

    async def main() -> tuple[object, ...]:
        if flavor is sync:
            with sync.connect("memory://faces") as client:
                with client.lock("a", ttl=5) as lease:
                    return repr(client), repr(client.lock("a", ttl=5)), repr(lease), lease.fence
        async with aio.connect("memory://faces") as other:
            async with other.lock("a", ttl=5) as held:
                return repr(other), repr(other.lock("a", ttl=5)), repr(held), held.fence

    client, lock, lease, fence = asyncio.run(main())
    assert client == f"<{prefix}.Client memory://faces>"
    assert lock == f"<{prefix}.Lock 'a' ttl=5>"
    assert re.fullmatch(
        rf"<{re.escape(prefix)}\.Lease 'a' fence={fence} [\d.]+ s left>", str(lease)
    )


# Pickling


def test_live_objects_do_not_travel_to_other_processes() -> None:
    """H17: a lease that could be copied would be held twice."""
    with fencelock.connect("memory://faces") as client, client.lock("a") as lease:
        for thing in (client, client.lock("a"), lease, lease.lost):
            with pytest.raises(TypeError):
                pickle.dumps(thing)


def test_what_is_listed_travels() -> None:
    with fencelock.connect("memory://faces") as client, client.lock("a"):
        state = client.inspect("a")
        assert pickle.loads(pickle.dumps(state)) == state
        assert pickle.loads(pickle.dumps(client.traits)) == client.traits


def test_the_owner_id_is_in_nothing_that_is_shown() -> None:
    with fencelock.connect("memory://faces") as client:
        lease = client.lock("a").acquire()
        owner = lease._hold.grant.owner
        assert len(owner) == 32
        shown = [client, lease, lease.meta, client.inspect("a"), client.scan(), lease.lost]
        assert not [thing for thing in shown if owner in repr(thing) or owner in str(thing)]
        client.revoke("a", "maintenance")
        with pytest.raises(fencelock.LeaseLost) as caught:
            lease.renew()
        assert owner not in repr(caught.value)
        assert owner not in repr(lease)


def test_a_lease_is_neither_copied_nor_pickled() -> None:
    """The collection of a copy would end the renewal of the one that is in use."""
    with fencelock.connect("memory://copies") as client, client.lock("x") as lease:
        for duplicate in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match="cannot be copied"):
                duplicate(lease)
        assert lease


@pytest.mark.parametrize("name", ["aio", "etcd", "observe", "sql", "testing"])
def test_a_module_is_there_after_importing_the_package(name: str) -> None:
    """It is loaded when it is first named, and not before."""
    code = f"""
import sys, fencelock
loaded = set(sys.modules)
module = fencelock.{name}
assert module.__name__ == "fencelock.{name}" and "{name}" in dir(fencelock)
assert "{name}" == "observe" or "fencelock.{name}" not in loaded
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
