"""Each metric is moved by what really happens, in both flavors, over real engines."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from fencelock import (
    AcquireTimeout,
    Expired,
    OutcomeUnknown,
    Revoked,
    Unavailable,
    UsageError,
    aio,
    sync,
)
from fencelock.observe import Event
from fencelock.telemetry import METRICS, Registry
from fencelock.testing.faulty import Faults
from tests.faults.flavors import Lab, make_end, run
from tests.servers.redis import Redis

ACQUIRE, HELD, WAITING = "fencelock_acquire_total", "fencelock_held", "fencelock_waiting"
WAIT_S, HOLD_S = "fencelock_acquire_wait_seconds", "fencelock_hold_seconds"
LOST, ENGINE_S, UP = (
    "fencelock_lease_lost_total",
    "fencelock_engine_seconds",
    "fencelock_engine_up",
)


def scheme_of(url: str) -> str:
    return url.partition(":")[0]


def outcomes(registry: Registry) -> dict[str, float]:
    """How often an acquire ended in each way."""
    (family,) = (one for one in registry.collect() if one.name == ACQUIRE)
    found: dict[str, float] = {}
    for sample in family.samples:
        if sample.value:
            found[sample.labels[2]] = found.get(sample.labels[2], 0) + sample.value
    return found


def test_a_grant_is_counted_and_timed_and_held_until_its_release(
    flavor: str, url: str, registry: Registry
) -> None:
    async def scenario(lab: Lab) -> None:
        client = await lab.connect(url)
        labels = {"engine": scheme_of(url), "group": "order:*"}
        leases = [await client.lock(f"order:{n}").acquire() for n in (1, 2, 3)]
        assert registry.value(ACQUIRE, **labels, outcome="granted") == 3
        assert registry.value(WAIT_S, **labels) == 3
        assert registry.value(HELD, **labels) == 3
        assert registry.value(HOLD_S, **labels) == 0
        for lease in leases:
            await lease.release()
            await lease.release()  # for the second time: nothing happens
        assert registry.value(HELD, **labels) == 0
        assert registry.value(HOLD_S, **labels) == 3
        for verb in ("acquire", "release"):
            assert registry.value(ENGINE_S, engine=scheme_of(url), verb=verb) == 3
            assert registry.value(UP, engine=scheme_of(url), verb=verb) == 1

    run(flavor, scenario)
    assert outcomes(registry) == {"granted": 3}
    assert registry.value(WAITING) == 0


def test_a_refusal_is_busy_when_nobody_waited_and_a_timeout_when_somebody_did(
    flavor: str, url: str, registry: Registry, events: list[Event]
) -> None:
    async def scenario(lab: Lab) -> None:
        holder, other = await lab.connect(url), await lab.connect(url)
        lease = await holder.lock("seat", meta={"job": "booking"}).acquire()
        assert await other.lock("seat").try_acquire() is None
        assert outcomes(registry) == {"granted": 1, "busy": 1}
        with pytest.raises(AcquireTimeout):
            await other.lock("seat").acquire(timeout=0.05)
        assert outcomes(registry) == {"granted": 1, "busy": 1, "timeout": 1}
        assert registry.value(WAITING) == 0
        await lease.release()

    run(flavor, scenario)
    busy, timeout = (event for event in events if event.kind == "refused")
    assert (busy.outcome, busy.waited, timeout.outcome, timeout.waited) == (
        "busy",
        False,
        "timeout",
        True,
    )
    assert timeout.seconds is not None
    assert timeout.seconds >= 0.05
    assert "booking" in busy.blocker
    assert "booking" in timeout.blocker
    (waiting,) = (event for event in events if event.kind == "waiting")
    assert (waiting.name, waiting.engine, waiting.position) == ("seat", scheme_of(url), 0)


def test_whoever_waits_is_counted_until_it_is_granted(
    flavor: str, url: str, registry: Registry, events: list[Event]
) -> None:
    async def scenario(lab: Lab) -> None:
        holder, other = await lab.connect(url), await lab.connect(url)
        lease = await holder.lock("seat").acquire()
        jobs = [lab.start(other.lock("seat").acquire(timeout=60)) for _ in range(2)]
        await lab.until_queued(holder, "seat", 2)
        labels = {"engine": scheme_of(url), "group": "seat"}  # they may not know of it yet
        await lab.until(lambda: registry.value(WAITING, **labels) == 2)
        await lease.release()
        await lab.until(lambda: any(job.done() for job in jobs))
        assert registry.value(WAITING) == 1
        first = next(job for job in jobs if job.done())
        await (await first.result()).release()
        (second,) = (job for job in jobs if job is not first)
        await (await second.result()).release()

    run(flavor, scenario)
    assert registry.value(WAITING) == 0
    assert registry.value(HELD) == 0
    assert outcomes(registry) == {"granted": 3}
    assert [event.waited for event in events if event.kind == "acquired"] == [False, True, True]


def test_an_engine_that_cannot_serve_is_counted_and_is_up_again_when_it_answers(
    flavor: str, url: str, registry: Registry, faults: Faults
) -> None:
    async def scenario(lab: Lab) -> None:
        client = await lab.connect(url, faults)
        faults.outage("acquire")
        with pytest.raises(Unavailable):
            await client.lock("seat").acquire(timeout=0)
        assert outcomes(registry) == {"unavailable": 1}
        assert registry.value(UP, verb="acquire") == 0
        assert registry.value(ENGINE_S, verb="acquire") == 1
        faults.heal()
        await client.inspect("seat")
        assert registry.value(UP, verb="acquire") == 1

    run(flavor, scenario)


def test_a_server_that_was_killed_makes_acquires_unavailable(
    flavor: str, registry: Registry
) -> None:
    with Redis() as server:

        async def scenario(lab: Lab) -> None:
            client = await lab.connect(server.url)
            await (await client.lock("seat").acquire()).release()
            server.kill()
            with pytest.raises((Unavailable, OutcomeUnknown)):
                await client.lock("seat").acquire(timeout=1)
            with pytest.raises(Unavailable):
                await client.lock("seat").acquire(timeout=0)
            assert registry.value(ACQUIRE, engine="redis", outcome="unavailable") >= 1
            assert registry.value(UP, engine="redis", verb="acquire") == 0

        run(flavor, scenario)


def test_an_engine_that_was_never_reached_makes_acquires_unavailable(
    flavor: str, registry: Registry
) -> None:
    with Redis() as server:
        url = server.url
    if flavor == "sync":
        client = sync.connect(url)
        with pytest.raises(Unavailable):
            client.lock("seat", group="seats").acquire(timeout=0)
        client.close()
    else:

        async def main() -> None:
            client = aio.connect(url)
            with pytest.raises(Unavailable):
                await client.lock("seat", group="seats").acquire(timeout=0)
            await client.close()

        asyncio.run(main())
    assert registry.value(ACQUIRE, group="seats", outcome="unavailable") == 1
    assert registry.value(UP, engine="redis", verb="open") == 0


def test_an_answer_that_was_lost_and_could_not_be_taken_back_is_unknown(
    flavor: str, url: str, registry: Registry, faults: Faults
) -> None:
    async def scenario(lab: Lab) -> None:
        client = await lab.connect(url, faults)
        faults.lose_replies(1000, "acquire")
        faults.lose_requests(1000, "withdraw")
        with pytest.raises(OutcomeUnknown):
            await client.lock("seat", ttl=20).acquire(timeout=0)
        assert outcomes(registry) == {"unknown": 1}
        assert registry.value(UP, verb="acquire") == 0
        assert registry.value(HELD) == 0
        faults.heal()

    run(flavor, scenario)


def test_a_lost_answer_that_was_asked_for_again_is_a_grant(
    flavor: str, url: str, registry: Registry, faults: Faults
) -> None:
    async def scenario(lab: Lab) -> None:
        client = await lab.connect(url, faults)
        faults.lose_replies(1, "acquire")
        lease = await client.lock("seat", ttl=60).acquire(timeout=5)
        assert outcomes(registry) == {"granted": 1}
        assert registry.value(ENGINE_S, verb="acquire") == 2
        await lease.release()

    run(flavor, scenario)


def test_a_client_that_is_closed_cancels_those_who_wait(
    flavor: str, url: str, registry: Registry
) -> None:
    async def scenario(lab: Lab) -> None:
        holder, other = await lab.connect(url), await lab.connect(url)
        lease = await holder.lock("seat").acquire()
        job = lab.start(other.lock("seat").acquire(timeout=60))
        await lab.until_queued(holder, "seat", 1)
        await lab.until(lambda: registry.value(WAITING) == 1)
        await other.close()
        with pytest.raises(UsageError):
            await job.result()
        assert outcomes(registry) == {"granted": 1, "cancelled": 1}
        assert registry.value(WAITING) == 0
        await lease.release()

    run(flavor, scenario)


def test_a_task_that_is_cancelled_while_it_waits_is_counted_so(
    url: str, registry: Registry
) -> None:
    async def main() -> None:
        async with aio.connect(url) as client:
            async with client.lock("seat"):
                task = asyncio.create_task(client.lock("seat").acquire())
                while not registry.value(WAITING):  # noqa: ASYNC110  # nobody sets an event
                    await asyncio.sleep(0.002)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                assert registry.value(WAITING) == 0

    asyncio.run(main())
    assert outcomes(registry) == {"granted": 1, "cancelled": 1}


def test_a_lease_that_runs_out_is_lost_by_expiry_and_held_no_more(
    flavor: str, url: str, registry: Registry
) -> None:
    async def scenario(lab: Lab) -> None:
        client = await lab.connect(url)
        lease = await client.lock("seat", ttl=30, renew=False).acquire()
        make_end(lease)
        await lab.until(lease.lost.is_set)
        with pytest.raises(Expired):
            lease.check()
        await lab.until(lambda: registry.value(LOST, group="seat", loss="expired") == 1)
        assert registry.value(HELD) == 0
        assert registry.value(HOLD_S, group="seat") == 1
        await lease.release()
        assert registry.value(HOLD_S, group="seat") == 1

    run(flavor, scenario)


def test_a_lease_that_is_revoked_is_lost_so_and_the_revoker_tells_of_it(
    flavor: str, url: str, registry: Registry, events: list[Event]
) -> None:
    async def scenario(lab: Lab) -> None:
        client, admin = await lab.connect(url), await lab.connect(url)
        lease = await client.lock("seat", ttl=60).acquire()
        assert await admin.revoke("seat", "it hangs")
        assert not await admin.revoke("seat", "again")
        with pytest.raises(Revoked):
            await lease.renew()
        await lab.until(lambda: registry.value(LOST, group="seat", loss="revoked") == 1)
        assert registry.value(HELD) == 0

    run(flavor, scenario)
    (revoked,) = (event for event in events if event.kind == "revoked")
    assert (revoked.name, revoked.detail, revoked.engine) == ("seat", "it hangs", scheme_of(url))


def test_a_loss_that_only_the_release_finds_is_counted_once(
    flavor: str, url: str, registry: Registry
) -> None:
    async def scenario(lab: Lab) -> None:
        client, admin = await lab.connect(url), await lab.connect(url)
        lease = await client.lock("seat", ttl=60, renew=False).acquire()
        assert await admin.revoke("seat", "it hangs")
        assert not await lease.release()
        assert registry.value(LOST, group="seat") == 1
        assert registry.value(HELD) == 0
        assert registry.value(HOLD_S) == 1

    run(flavor, scenario)


def test_a_renewal_tells_what_was_left_of_the_lease(
    flavor: str, url: str, registry: Registry, events: list[Event]
) -> None:
    async def scenario(lab: Lab) -> None:
        client = await lab.connect(url)
        lease = await client.lock("seat", ttl=60).acquire()
        await lab.until_renewed(lease)
        await lab.until_renewed(lease)
        engine = scheme_of(url)
        await lab.until(lambda: registry.value("fencelock_renewals_total", engine=engine) == 2)
        assert registry.value("fencelock_renewal_slack_seconds", engine=engine) == 2
        assert registry.value(ENGINE_S, engine=engine, verb="renew") == 2
        await lease.release()

    run(flavor, scenario)
    renewed = [event for event in events if event.kind == "renewed"]
    assert [event.renewals for event in renewed] == [1, 2]
    assert all(event.slack is not None and 0 < event.slack < 60 for event in renewed)


def test_a_lease_that_is_dropped_is_held_no_more(flavor: str, url: str, registry: Registry) -> None:
    async def scenario(lab: Lab) -> None:
        client = await lab.connect(url)
        lease = await client.lock("seat", ttl=60).acquire()
        assert registry.value(HELD) == 1
        with pytest.warns(ResourceWarning, match="dropped without release"):  # noqa: PT031
            del lease
            gc.collect()
        await lab.until(lambda: registry.value(HELD) == 0)

    run(flavor, scenario)


def test_a_lock_whose_release_is_not_confirmed_is_held_no_more(
    flavor: str, url: str, registry: Registry, faults: Faults
) -> None:
    async def scenario(lab: Lab) -> None:
        client = await lab.connect(url, faults)
        lease = await client.lock("seat", ttl=20).acquire()
        faults.outage("release")
        with pytest.raises(OutcomeUnknown):
            await lease.release()
        assert registry.value(HELD) == 0
        assert registry.value(HOLD_S) == 1
        assert registry.value(UP, verb="release") == 0
        faults.heal()
        await lease.release()
        assert registry.value(HOLD_S) == 1

    run(flavor, scenario)


def test_a_lease_that_is_handed_over_is_held_by_who_takes_it_over(
    registry: Registry, tmp_path: Any
) -> None:
    with (
        sync.connect(f"sqlite:///{tmp_path}/a.db") as one,
        sync.connect(f"sqlite:///{tmp_path}/a.db") as other,
    ):
        token = one.lock("seat", ttl=60).acquire().hand_over()
        assert registry.value(HELD) == 0
        lease = other.take_over(token)
        assert registry.value(HELD) == 1
        lease.release()
    assert registry.value(HELD) == 0
    assert outcomes(registry) == {"granted": 1}


def test_recipes_are_counted_like_locks(flavor: str, url: str, registry: Registry) -> None:
    async def scenario(lab: Lab) -> None:
        client, other = await lab.connect(url), await lab.connect(url)
        async with client.locks("b", "a", group="several"):
            assert registry.value(HELD, group="several") == 2
            assert await other.locks("a", "c", group="several").try_acquire() is None
            async with client.semaphore("pool:1", limit=1):
                assert registry.value(HELD, group="pool:*") == 1
                assert await other.semaphore("pool:1", limit=1).try_acquire() is None
            async with client.rwlock("catalog").read():
                assert await other.rwlock("catalog").write().try_acquire() is None
        assert registry.value(ACQUIRE, group="several", outcome="granted") == 2
        assert registry.value(ACQUIRE, group="several", outcome="busy") >= 1
        assert registry.value(ACQUIRE, group="pool:*", outcome="busy") == 1
        assert registry.value(ACQUIRE, group="catalog", outcome="busy") == 1

    run(flavor, scenario)
    assert registry.value(HELD) == 0


def test_no_name_and_no_unknown_outcome_is_a_label(
    flavor: str, url: str, registry: Registry
) -> None:
    async def scenario(lab: Lab) -> None:
        client = await lab.connect(url)
        for name in ("user:4711", "user:550e8400-e29b-41d4-a716-446655440000", "user:deadbeef01"):
            async with client.lock(name):
                pass

    run(flavor, scenario)
    text = registry.text()
    for secret in ("user:4711", "550e8400", "deadbeef01"):
        assert secret not in text
    assert f'{{engine="{scheme_of(url)}",group="user:*",outcome="granted"}} 3' in text
    for family in registry.collect():
        assert all(len(sample.labels) == len(METRICS[family.name].labels) for sample in family[2])
