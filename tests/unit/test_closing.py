"""Closing a client while others are about to use it."""

from __future__ import annotations

import asyncio
import gc
import threading
from pathlib import Path

import pytest

import fencelock
from fencelock import aio
from tests.engines.signal_injection import InjectedSignal, SignalInjection
from tests.servers.server import until


@pytest.fixture(params=["memory", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "memory":
        return f"memory://{tmp_path.name}"
    return f"sqlite:///{tmp_path}/locks.db"


def test_closing_a_client_ends_the_waits_of_its_threads(url: str) -> None:
    with fencelock.connect(url) as holder, holder.lock("x") as lease:
        client = fencelock.connect(url)
        raised: list[Exception] = []

        def wait() -> None:
            try:
                client.lock("x", timeout=30).acquire()
            except Exception as error:
                raised.append(error)

        thread = threading.Thread(target=wait)
        thread.start()
        while not holder.inspect("x").waiters:
            assert thread.is_alive()
        client.close()
        thread.join(10)
        assert not thread.is_alive()
        assert isinstance(raised[0], fencelock.UsageError)
        assert "was closed" in str(raised[0])
        assert holder.inspect("x").waiters == ()
        assert lease


def test_closing_a_client_ends_the_waits_of_its_tasks(url: str) -> None:
    async def main() -> None:
        async with aio.connect(url) as holder, holder.lock("x") as lease:
            client = await aio.connect(url)
            wait = asyncio.create_task(client.lock("x", timeout=30).acquire())
            while not (await holder.inspect("x")).waiters:  # noqa: ASYNC110  # no event tells of it
                await asyncio.sleep(0)
            await client.close()
            with pytest.raises(fencelock.UsageError, match="was closed"):
                await asyncio.wait_for(wait, 10)
            assert (await holder.inspect("x")).waiters == ()
            assert lease

    asyncio.run(main())


def test_renewing_with_another_ttl_is_shown_to_others(url: str) -> None:
    with fencelock.connect(url) as client, client.lock("x", ttl=30) as lease:
        lease.renew(ttl=60)
        assert [holding.ttl for holding in client.holders("x")] == [60]


def _drop_a_lease(client: fencelock.Client) -> None:
    client.lock("x").acquire()
    gc.collect()


def test_what_was_dropped_is_released_when_its_client_is_closed(url: str) -> None:
    """A program that ends by an exception drops its leases before anything can release them."""
    client = fencelock.connect(url)
    with pytest.warns(ResourceWarning, match="was dropped without release"):
        _drop_a_lease(client)
    client.close()
    with fencelock.connect(url) as other:
        lease = other.lock("x").try_acquire()
        assert lease is not None
        lease.release()


PATHS = ("/sync.py", "/_client/client.py", "/_client/lease_lifecycle.py", "/_client/keeper.py")


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # coroutines that were not begun
def test_a_signal_in_a_close_leaves_nothing_that_is_renewed_for_nobody(url: str) -> None:
    """And whoever closes again closes."""
    with fencelock.connect(url) as other:

        def close(moment: int, again: bool) -> int:
            client, name = fencelock.connect(url), f"{moment} {again}"
            leases = [client.lock(f"{name} {n}", ttl=60).acquire() for n in "ab"]
            injection = SignalInjection(PATHS, moment)
            try:
                with injection:
                    client.close()
            except InjectedSignal:
                if again or not client._cores.closed:  # it has not begun
                    client.close()
                    assert not client._core.keeper.held()
                    assert client._core.keeper._closing
            else:
                assert injection.moments < moment or not moment
            until(lambda: not other.scan(name), "both locks to be free", within=20)
            assert not any(leases)
            return injection.moments

        for moment in range(1, close(0, again=False) + 1):
            close(moment, again=True)
            close(moment, again=False)
