"""Every engine works under uvloop, the loop that uvicorn runs applications in."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from types import ModuleType

import pytest

from fencelock import OutcomeUnknown, Unavailable, aio
from tests.conformance.variants import VARIANTS
from tests.faults import engines
from tests.faults.network import through_a_proxy

SOON = 20.0
WHILE = 0.2
TIMES = 20
AT_LEAST = 5  # of a server that takes long to say that it cannot be reached
BUSY_S = 0.002  # in which a proxy resets a connection that was made


@pytest.fixture
def uvloop() -> ModuleType:
    """The loop; a package of its own, which the tests do not run without."""
    loop: ModuleType = pytest.importorskip(
        "uvloop", reason="NOT TESTED: no engine was run under uvloop. pip install uvloop"
    )
    return loop


@pytest.mark.parametrize("variant", VARIANTS)
def test_an_engine_contends_cancels_and_releases_under_uvloop(
    variant: str, tmp_path: Path, uvloop: ModuleType
) -> None:
    url, options = VARIANTS[variant](tmp_path)

    async def main() -> None:
        async with (
            asyncio.timeout(SOON),
            aio.connect(url, **options) as one,
            aio.connect(url, **options) as other,
        ):
            name = f"uvloop {variant}"
            held = await one.lock(name, ttl=30).acquire()
            assert await other.lock(name, ttl=30).try_acquire() is None
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(WHILE):  # cancels it
                    await other.lock(name, ttl=30).acquire()
            assert await other.lock(name, ttl=30).try_acquire(timeout=WHILE) is None
            waiting = asyncio.create_task(other.lock(name, ttl=30).acquire(timeout=SOON))
            await held.renew()
            assert await held.release()
            lease = await waiting
            assert lease.fence > held.fence
            assert await lease.release()
            async with one.lock(name, ttl=30):
                pass

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())


@pytest.mark.parametrize("name", engines.suitable(["server"]))
def test_a_server_that_cannot_be_reached_is_said_so_under_uvloop(
    name: str, tmp_path: Path, uvloop: ModuleType
) -> None:
    """uvloop raises RuntimeError for what is written to a connection that was lost.

    Other tasks keep the loop busy, so that it is lost between the steps of whoever connects.
    """

    async def keep_busy() -> None:
        while True:
            time.sleep(BUSY_S)  # noqa: ASYNC251  # the hazard itself
            await asyncio.sleep(0)

    async def main() -> None:
        loop = asyncio.get_running_loop()
        with through_a_proxy(engines.fresh(name, tmp_path)) as (url, _, proxy):
            async with aio.connect(url) as client:
                lease = await client.lock("a", ttl=600).acquire()
                busy, began = asyncio.create_task(keep_busy()), loop.time()
                proxy.cut()
                for number in range(TIMES):
                    if number >= AT_LEAST and loop.time() > began + SOON:
                        break
                    with pytest.raises((Unavailable, OutcomeUnknown)):
                        await client.inspect("a")
                proxy.heal()
                busy.cancel()
                assert await lease.release()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
