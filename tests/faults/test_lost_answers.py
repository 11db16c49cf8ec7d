"""The engine did it, and its answer was lost: the outcome is resolved, never guessed."""

from __future__ import annotations

import pytest

from fencelock import LeaseLost, OutcomeUnknown, Unavailable
from fencelock.model import Busy, Grant, Request
from fencelock.testing.faulty import Faults
from tests.faults.flavors import Lab, run
from tests.faults.held import WHATS, What
from tests.faults.sweeps import assert_nothing_is_left


@pytest.mark.parametrize("message", ["request", "reply"])
def test_an_acquire_whose_answer_is_lost_is_granted_once(
    flavor: str,
    url: str,
    what: What,
    faults: Faults,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """H13: the lost request or reply is asked for again, by the same owner."""

    async def scenario(lab: Lab) -> None:
        client, other = await lab.connect(url, faults), await lab.connect(url)
        async with what.company(other) as company:
            ask, seen = client._core.engine.acquire, list[list[int]]()

            async def look_and_ask(request: Request) -> Grant | Busy:
                held = company.holders(await other.inspect("seat"))
                seen.append([holding.fence for holding in held])
                return await ask(request)

            monkeypatch.setattr(client._core.engine, "acquire", look_and_ask)
            lose(faults, message, 1, "acquire")
            lease = await what.of(client, ttl=60).acquire(timeout=0)
            assert len(faults.seen("acquire", "lost")) == 1
            assert seen == [[], [lease.fence] if message == "reply" else []], "it was granted twice"
            (holding,) = company.holders(await other.inspect("seat"))
            assert holding.fence == lease.fence
            assert await what.rival(other).try_acquire() is None
            assert await lease.release() is True
            await assert_nothing_is_left(other, "after the release", what, company)

    run(flavor, scenario)


@pytest.mark.parametrize("message", ["request", "reply"])
@pytest.mark.parametrize("timeout", [0, None])
def test_an_acquire_that_is_never_answered_fails_cleanly(
    flavor: str, url: str, what: What, faults: Faults, message: str, timeout: float | None
) -> None:
    """H13: no answer at all. The attempt is taken back, and the error says that nothing is held."""

    async def scenario(lab: Lab) -> None:
        client, other = await lab.connect(url, faults), await lab.connect(url)
        async with what.company(other) as company:
            lose(faults, message, 1000, "acquire")
            with pytest.raises(Unavailable, match="nothing is held"):
                await what.of(client, ttl=60).acquire(timeout=timeout)
            await assert_nothing_is_left(other, "after the error", what, company)

    run(flavor, scenario)


def test_an_acquire_that_cannot_even_be_taken_back_says_until_when(
    flavor: str, url: str, faults: Faults
) -> None:
    """H13: the answers of acquire and of its undoing are lost. The ttl is the net, and is named."""

    async def scenario(lab: Lab) -> None:
        client, other = await lab.connect(url, faults), await lab.connect(url)
        faults.lose_replies(1000, "acquire")
        faults.lose_requests(1000, "withdraw")
        with pytest.raises(OutcomeUnknown) as caught:
            await client.lock("seat", ttl=0.4).acquire(timeout=0)
        assert caught.value.until == 0.4
        assert caught.value.may_have_happened
        assert len(await other.holders("seat")) == 1
        lease = await other.lock("seat").acquire(timeout=10)
        await lease.release()

    run(flavor, scenario)


@pytest.mark.needs("order", "waiters")
@pytest.mark.needs("place")
def test_a_waiter_whose_answers_are_lost_keeps_its_place(
    flavor: str, url: str, what: What, faults: Faults
) -> None:
    """H13: its first answers are lost, and it stands in the queue once."""

    async def scenario(lab: Lab) -> None:
        client, other = await lab.connect(url, faults), await lab.connect(url)
        crowd = [await what.rival(other).acquire(timeout=0) for _ in range(1 + what.beside)]
        order: list[str] = []

        async def wait(name: str, by: object) -> None:
            wants = what.of if by is client else what.rival
            lock = wants(client if by is client else other, meta={"who": name})
            async with await lock.acquire(timeout=10):
                order.append(name)

        async def lose_two() -> None:
            faults.lose_replies(2, "acquire")
            await wait("first", client)

        first = lab.start(lose_two())
        await lab.until_queued(other, "seat", 1)
        second = lab.start(wait("second", other))
        await lab.until_queued(other, "seat", 2)
        state = await other.inspect("seat")
        assert [waiter.meta["who"] for waiter in state.waiters] == ["first", "second"]
        await lab.until(lambda: len(faults.seen("acquire", "lost")) == 2, "both answers lost")
        await crowd[0].release()
        await first.result()
        await second.result()
        assert order == ["first", "second"]
        for lease in crowd[1:]:
            await lease.release()

    run(flavor, scenario)


@pytest.mark.parametrize("kind", WHATS)
def test_a_waiter_that_asks_again_behind_others_keeps_its_place(
    flavor: str, client_url: str, kind: str, faults: Faults, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H13: the reply to joining the queue is lost, and asking again does not send it to the end."""

    what = WHATS[kind]

    async def scenario(lab: Lab) -> None:
        client, other = await lab.connect(client_url, faults), await lab.connect(client_url)
        crowd = [await what.rival(other).acquire(timeout=0) for _ in range(1 + what.beside)]
        order: list[str] = []

        async def wait(name: str, by: object) -> None:
            wants = what.of if by is client else what.rival
            lock = wants(client if by is client else other, meta={"who": name})
            async with await lock.acquire(timeout=10):
                order.append(name)

        engine, ask = client._core.engine, client._core.engine.acquire
        joined, two_wait = list[Request](), list[bool]()

        async def lose_two(request: Request) -> Grant | Busy:
            if request.queue and not joined:
                joined.append(request)
                faults.lose_replies(2, "acquire")
            elif joined:  # it asks again, once another waits behind it
                await lab.until(lambda: two_wait, "another that waits")
            return await ask(request)

        monkeypatch.setattr(engine, "acquire", lose_two)
        first = lab.start(wait("first", client))
        await lab.until_queued(other, "seat", 1)
        second = lab.start(wait("second", other))
        await lab.until_queued(other, "seat", 2)
        two_wait.append(True)
        await lab.until(lambda: len(faults.seen("acquire", "lost")) == 2, "both answers lost")
        state = await other.inspect("seat")
        assert [waiter.meta["who"] for waiter in state.waiters] == ["first", "second"]
        await crowd[0].release()
        await first.result()
        await second.result()
        assert order == ["first", "second"]
        for lease in crowd[1:]:
            await lease.release()

    run(flavor, scenario)


@pytest.mark.parametrize("message", ["request", "reply"])
def test_a_release_whose_answer_is_lost_is_a_release(
    flavor: str, url: str, what: What, faults: Faults, message: str
) -> None:
    """H14: never "somebody took it": it was released, by us."""

    async def scenario(lab: Lab) -> None:
        told: list[LeaseLost] = []
        client, other = await lab.connect(url, faults), await lab.connect(url)
        async with what.of(client, ttl=60, on_lost=told.append) as lease:
            lose(faults, message, 1, "release")
        assert len(faults.seen("release", "lost")) == 1
        assert lease.reason is None
        assert not told
        taken = await what.rival(other).acquire(timeout=0)

        lose(faults, message, 1, "release")
        lease = await what.of(client, "other", ttl=60).acquire()
        assert await lease.release() is True
        assert await other.holders("other") == []
        await taken.release()

    run(flavor, scenario)


@pytest.mark.needs("long")
def test_a_release_that_is_never_answered_is_unknown(flavor: str, url: str, faults: Faults) -> None:
    """H14: neither "released" nor "not yours": unknown, with the time at which the doubt ends."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(url, faults)
        lease = await client.lock("seat", ttl=7).acquire()
        faults.lose_requests(1000, "release")
        with pytest.raises(OutcomeUnknown, match="frees itself within 7 s") as caught:
            await lease.release()
        assert caught.value.until == 7
        assert not lease
        async with client.lock("other", ttl=7):
            pass  # it ended well: no error makes anybody run it again
        with pytest.raises(RuntimeError, match="of the body") as body:
            async with client.lock("third", ttl=7):
                raise RuntimeError("of the body")
        assert "was not confirmed" in body.value.__notes__[0]
        assert [owed.name for owed in client.owed] == ["seat", "other", "third"]
        faults.heal()
        await lab.until(lambda: not client.owed, "what is owed is done")

    run(flavor, scenario)


@pytest.mark.parametrize("fault", ["outage", "lost requests"])
def test_a_release_that_failed_can_be_tried_again(
    flavor: str, url: str, faults: Faults, fault: str
) -> None:
    """H14: "nothing happened" and "unknown" are not the last word: ``release()`` asks again."""

    async def scenario(lab: Lab) -> None:
        client, other = await lab.connect(url, faults), await lab.connect(url)
        lease = await client.lock("seat", ttl=60).acquire()
        client._core.pending.stop()  # nobody but the caller tries again
        if fault == "outage":
            faults.outage("release")
        else:
            faults.lose_requests(1000, "release")
        with pytest.raises((Unavailable, OutcomeUnknown)):
            await lease.release()
        assert not lease
        assert len(await other.holders("seat")) == 1
        faults.heal()
        assert await lease.release() is True
        assert await lease.release() is False
        assert await other.holders("seat") == []

    run(flavor, scenario)


@pytest.mark.parametrize("message", ["request", "reply"])
def test_a_renewal_whose_answer_is_lost_keeps_the_lease(
    flavor: str, client_url: str, faults: Faults, message: str
) -> None:
    """H15: still held, renewed by the next try, with the same fence."""

    async def scenario(lab: Lab) -> None:
        told: list[LeaseLost] = []
        client = await lab.connect(client_url, faults)
        lease = await client.lock("seat", ttl=1.5, on_lost=told.append).acquire()
        fence = lease.fence
        lose(faults, message, 2, "renew")
        await lab.until(lambda: len(faults.seen("renew", "lost")) == 2, "two lost renewals")
        lease.check()
        await lab.until(lambda: faults.seen("renew", "answered"), "a renewal with an answer")
        await lab.until(lambda: lease._hold.renewals, "a longer lease")
        assert (lease.fence, told) == (fence, [])
        assert await lease.release() is True

    run(flavor, scenario)


def test_an_early_renewal_whose_answer_is_lost_is_the_callers_to_know(
    flavor: str, url: str, what: What, faults: Faults
) -> None:
    """H15: ``renew()`` says unknown, and the lease is what it was before."""

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(url, faults)
        lease = await what.of(client, ttl=60).acquire()
        faults.lose_replies(1, "renew")
        with pytest.raises(OutcomeUnknown):
            await lease.renew()
        lease.check()
        await lease.renew()
        assert await lease.release() is True

    run(flavor, scenario)


def lose(faults: Faults, message: str, count: int, verb: str) -> None:
    (faults.lose_requests if message == "request" else faults.lose_replies)(count, verb)
