"""Every engine works under uvloop, the loop that uvicorn runs applications in."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import ModuleType

import pytest

from fencelock import aio
from tests.conformance.variants import VARIANTS

SOON = 20.0
WHILE = 0.2


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
