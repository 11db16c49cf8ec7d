"""`testing.lose()`: a lease is lost at a word, whatever its client."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

import fencelock
from fencelock import Expired, LeaseLost, Revoked, SessionEnded, UsageError, testing
from tests.unit.conftest import Made


def test_a_lease_is_lost_at_a_word(made: Made) -> None:
    client, clock = made
    told: list[LeaseLost] = []
    lease = client.lock("a", on_lost=told.append).acquire()
    before = clock.now()
    testing.lose(lease, "maintenance")
    assert clock.now() == before
    assert lease.lost.is_set()
    assert lease.reason == "maintenance"
    assert [type(loss) for loss in told] == [Revoked]
    with client.lock("a", timeout=0) as other:  # the lock is free
        assert other.fence == 2
        assert lease.release() is False
        other.check()


@pytest.mark.parametrize(
    ("loss", "kind"), [("revoked", Revoked), ("expired", Expired), ("session", SessionEnded)]
)
def test_a_lease_is_lost_in_each_way(made: Made, loss: Any, kind: type[LeaseLost]) -> None:
    client, _ = made
    with pytest.raises(kind, match="by a test"):
        with client.lock("a") as lease:
            testing.lose(lease, loss=loss)


def test_what_is_over_cannot_be_lost(made: Made) -> None:
    client, clock = made
    released = client.lock("a").acquire()
    released.release()
    expired = client.lock("b", ttl=30).acquire()
    clock.advance(31)
    holder = client.lock("b").acquire()
    for lease in (released, expired):
        with pytest.raises(UsageError, match="over already"):
            testing.lose(lease)
    holder.check()
    holder.release()
    with pytest.raises(UsageError, match="must be one of"):
        testing.lose(holder, loss="stolen")  # type: ignore[call-overload]


@pytest.mark.parametrize("url", ["memory://lose", "sqlite:///{}/locks.db"])
def test_a_lease_of_any_client_can_be_lost(url: str, tmp_path: Path) -> None:
    told: list[LeaseLost] = []
    heard = threading.Event()

    def hear(loss: LeaseLost) -> None:
        told.append(loss)
        heard.set()

    with fencelock.connect(url.format(tmp_path)) as client:
        lease = client.lock("a", on_lost=hear).acquire()
        testing.lose(lease, "maintenance")
        assert lease.reason == "maintenance"
        assert heard.wait(20)
        with client.lock("a", timeout=0):
            assert len(told) == 1
