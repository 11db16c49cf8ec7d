"""A client that is dropped without being closed leaves no thread, task, descriptor, connection."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conformance.variants import VARIANTS
from tests.faults.flavors import FLAVORS, SOON, Lab, run

MINE = ("etcd", "zookeeper")


def _left(flavor: str) -> tuple[int, int, int]:
    gc.collect()
    tasks = len(asyncio.all_tasks()) if flavor == "asyncio" else 0
    return threading.active_count(), len(os.listdir("/proc/self/fd")), tasks


def _no_more_than(flavor: str, before: tuple[int, int, int]) -> Callable[[], bool]:
    return lambda: all(now <= then for now, then in zip(_left(flavor), before, strict=True))


@pytest.mark.parametrize("flavor", FLAVORS)
@pytest.mark.parametrize("engine", MINE)
def test_a_client_that_is_dropped_leaves_nothing_open(
    flavor: str, engine: str, tmp_path: Path
) -> None:
    url, options = VARIANTS[engine](tmp_path)

    async def use(lab: Lab) -> None:
        """Hold a lock, wait for one, and go away."""
        one, other = await lab.connect(url, **options), await lab.connect(url, **options)
        lab.forget(one)
        lab.forget(other)
        held = await one.lock("held", ttl=30).acquire()
        assert await other.lock("held", ttl=30).try_acquire(timeout=0.1) is None
        assert held

    async def scenario(lab: Lab) -> None:
        before = _left(lab.flavor)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)  # of the lease that was dropped
            await use(lab)
            await lab.until(_no_more_than(lab.flavor, before), "the end of all that was open", SOON)

    run(flavor, scenario)
