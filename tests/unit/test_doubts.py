"""A doubt is never forgotten: after a request without an answer only a proof makes it known."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import fencelock
from fencelock import AcquireTimeout, OutcomeUnknown, Unavailable, observe
from fencelock.testing import faulty
from fencelock.testing.faulty import Faults

SOON = 20.0


def until(condition: Callable[[], object]) -> None:
    pause = threading.Event()
    for _ in range(int(SOON / 0.005)):
        if condition():
            return
        pause.wait(0.005)
    pytest.fail("it was not so in time")


@pytest.fixture
def faults() -> Faults:
    return Faults()


@pytest.fixture
def url(request: pytest.FixtureRequest) -> str:
    return f"memory://{request.node.name}"


@pytest.fixture
def client(url: str, faults: Faults) -> Iterator[fencelock.Client]:
    with faulty.connect(url, faults) as client:
        yield client
        faults.heal()


def when_seen(faults: Faults, verb: str, count: int, then: Callable[[], object]) -> None:
    """Do something, in a thread, as soon as so many calls of a verb were made."""

    def wait() -> None:
        until(lambda: len(faults.seen(verb)) >= count)
        then()

    threading.Thread(target=wait, daemon=True).start()


def outage_after_the_first_acquire(faults: Faults) -> None:
    """The first reply is lost; from then on nothing can be reached."""
    faults.lose_replies(1, "acquire")
    lost = faults.loses

    def loses(verb: str, where: Any) -> bool:
        if lost(verb, where):
            faults.outage()
            return True
        return False

    faults.loses = loses  # type: ignore[method-assign]


def test_unavailable_after_no_answer_is_a_doubt(client: fencelock.Client, faults: Faults) -> None:
    """H82: the first request had no answer, and the repeats cannot connect."""
    outage_after_the_first_acquire(faults)
    with pytest.raises(OutcomeUnknown, match="may still be granted"):
        client.lock("x", ttl=30).acquire()
    assert [(owed.name, owed.what) for owed in client.owed] == [("x", "withdraw")]
    faults.heal()
    until(lambda: not client.owed)
    assert client.holders("x") == []


def test_the_same_under_asyncio(url: str, faults: Faults) -> None:
    """H82."""

    async def main() -> None:
        async with await faulty.connect_aio(url, faults) as client:
            outage_after_the_first_acquire(faults)
            with pytest.raises(OutcomeUnknown):
                await client.lock("x", ttl=30).acquire()
            assert len(client.owed) == 1
            faults.heal()
            await asyncio.to_thread(until, lambda: not client.owed)
            assert await client.holders("x") == []

    asyncio.run(asyncio.wait_for(main(), SOON))


def test_a_doubt_that_was_taken_back_is_none(client: fencelock.Client, faults: Faults) -> None:
    faults.lose_replies(10, "acquire")
    with pytest.raises(Unavailable, match="taken back and nothing is held"):
        client.lock("x", ttl=30).acquire()
    assert client.holders("x") == []
    assert client.owed == ()


def test_a_timeout_whose_withdrawal_was_not_confirmed_is_a_doubt(
    client: fencelock.Client, faults: Faults, url: str
) -> None:
    """H82: the queue entry is still there, and would be handed the lock later."""
    with fencelock.connect(url) as other:
        holder = other.lock("x", ttl=60).acquire()
        faults.outage("withdraw")
        with pytest.raises(OutcomeUnknown, match="taken back"):
            client.lock("x", ttl=30).acquire(timeout=0.05)
        assert len(other.inspect("x").waiters) == 1
        faults.heal()
        until(lambda: not client.owed)
        assert other.inspect("x").waiters == ()
        holder.release()
        assert other.holders("x") == []


def test_a_timeout_with_everything_answered_is_a_timeout(
    client: fencelock.Client, url: str
) -> None:
    with fencelock.connect(url) as other, other.lock("x"):
        with pytest.raises(AcquireTimeout):
            client.lock("x").acquire(timeout=0.05)
        assert client.lock("x").try_acquire() is None
        assert client.owed == ()


def test_a_waiter_outlives_a_short_outage_however_long_it_has_waited(
    client: fencelock.Client, faults: Faults, url: str
) -> None:
    """H84: an outage counts from its first failure, not from the last question of our own."""
    with fencelock.connect(url) as other:
        holder, got = other.lock("x", ttl=60).acquire(), list[fencelock.Lease]()
        lock = client.lock("x", ttl=0.2)
        thread = threading.Thread(target=lambda: got.append(lock.acquire(timeout=SOON)))
        thread.start()
        until(lambda: len(faults.seen("acquire")) >= 2)
        began = faults.calls[0].began_at
        until(lambda: faults.calls[-1].began_at > began + 0.5)  # longer than the ttl
        refused = len(faults.seen("acquire", "refused"))
        faults.outage()
        until(lambda: len(faults.seen("acquire", "refused")) > refused)
        faults.heal()
        holder.release()
        thread.join(SOON)
        assert got, "the waiter gave up"
        got[0].release()


def test_a_waiter_gives_up_when_an_outage_lasts_for_a_ttl(
    client: fencelock.Client, faults: Faults, url: str
) -> None:
    with fencelock.connect(url) as other, other.lock("x", ttl=60):
        when_seen(faults, "acquire", 2, faults.outage)
        with pytest.raises(OutcomeUnknown, match="outage"):
            client.lock("x", ttl=0.2).acquire(timeout=SOON)
        assert len(client.owed) == 1


# Releases


def test_a_release_that_was_not_confirmed_goes_on(
    client: fencelock.Client, faults: Faults, url: str
) -> None:
    lease = client.lock("x", ttl=30).acquire()
    faults.outage("release")
    with pytest.raises(OutcomeUnknown, match="goes on in the background"):
        lease.release()
    assert [(owed.name, owed.what) for owed in client.owed] == [("x", "release")]
    faults.heal()
    until(lambda: not client.owed)
    assert client.holders("x") == []
    assert lease.release() is False


class Hit(Exception):
    """What a signal handler raises."""


@pytest.mark.parametrize("error", [Hit("of a handler"), RuntimeError("can't start new thread")])
def test_a_release_whose_job_could_not_begin_is_owed_until_it_can(
    client: fencelock.Client,
    faults: Faults,
    url: str,
    error: Exception,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """No thread left is a warning; the exception of a signal handler is the caller's."""

    def keep(*_: object) -> None:
        raise error

    lease = client.lock("x", ttl=30).acquire()
    faults.outage("release")
    with monkeypatch.context() as patch:
        patch.setattr(client._core.pending._world, "keep", keep)
        with pytest.raises(Hit if isinstance(error, Hit) else OutcomeUnknown):
            lease.release()
    assert ("not tried again yet" in caplog.text) is isinstance(error, RuntimeError)
    assert [(owed.name, owed.what) for owed in client.owed] == [("x", "release")]
    faults.heal()
    with fencelock.connect(url) as other:
        client.close()
        assert other.holders("x") == []


def test_a_good_body_is_not_run_again_because_of_its_release(
    client: fencelock.Client, faults: Faults, caplog: pytest.LogCaptureFixture
) -> None:
    """H82: an error here would be retried by whoever retries on an engine's errors."""
    events = list[observe.Event]()
    unsubscribe = observe.subscribe(events.append)
    try:
        with client.lock("x", ttl=30):
            faults.outage("release")
        with client.lock("y", ttl=30) as lease:
            faults.heal()
            faults.lose_replies(10, "release")
            assert lease
    finally:
        unsubscribe()
        faults.heal()
    assert [event.name for event in events if event.kind == "release_failed"] == ["x", "y"]
    assert "has ended well" in caplog.text
    until(lambda: not client.owed)
    assert client.scan() == []


def test_a_body_that_failed_keeps_its_error(client: fencelock.Client, faults: Faults) -> None:
    with pytest.raises(KeyError) as caught, client.lock("x", ttl=30):
        faults.outage("release")
        raise KeyError("mine")
    assert any("not confirmed" in note for note in caught.value.__notes__)


def test_closing_waits_for_what_is_owed(url: str, faults: Faults) -> None:
    with fencelock.connect(url) as other:
        client = faulty.connect(url, faults)
        lease = client.lock("x", ttl=30).acquire()
        faults.outage("release")
        with pytest.raises(OutcomeUnknown):
            lease.release()
        threading.Timer(0.3, faults.heal).start()
        client.close()
        assert other.holders("x") == []


def test_closing_says_what_it_could_not_take_back(
    url: str, faults: Faults, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fencelock._client.client.CLOSE_S", 0.2)
    client = faulty.connect(url, faults)
    lease = client.lock("x", ttl=30).acquire()
    faults.outage("release")
    with pytest.raises(OutcomeUnknown):
        lease.release()
    client.close()
    assert "were not confirmed when the client was closed ('x')" in caplog.text
    with fencelock.connect(url) as other:
        other.revoke("x", "the test is over")
