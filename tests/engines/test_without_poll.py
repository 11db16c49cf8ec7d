"""A program without ``select.poll``: on Windows, and where eventlet has removed it."""

from __future__ import annotations

import select
from pathlib import Path

import pytest

from fencelock.errors import AcquireTimeout
from tests.faults.flavors import SOON, Lab, run
from tests.servers.shared import shared
from tests.servers.zookeeper import ZooKeeper


@pytest.mark.parametrize("engine", ["sqlite", "zookeeper"])
def test_a_waiter_gets_the_lock_without_poll(
    engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = f"sqlite:///{tmp_path}/locks.db?push=yes" if engine == "sqlite" else None
    url = there or shared(ZooKeeper).fresh_url()
    monkeypatch.delattr(select, "poll")

    async def scenario(lab: Lab) -> None:
        holder, waiter = await lab.connect(url), await lab.connect(url)
        lease = await holder.lock("seat", ttl=SOON).acquire()
        with pytest.raises(AcquireTimeout):
            await waiter.lock("seat", ttl=SOON, timeout=0).acquire()
        waits = lab.start(waiter.lock("seat", ttl=SOON, timeout=SOON).acquire())
        await lab.until_queued(holder, "seat", 1)
        await lease.release()
        theirs = await waits.result(within=SOON)
        assert theirs.fence > lease.fence
        await theirs.release()

    run("sync", scenario)
