"""Check a silent engine: calls end in time, unknown outcomes are reported, nothing is left."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from .... import aio
from ....errors import AcquireTimeout, OutcomeUnknown
from ....world import GRACE_S
from ...faulty import Faults
from ..check import check, expect, given
from ..context import BRIEF_S, LONG_S, SLOW_S, CheckContext, Running

SECOND_S = 1.0  # a ttl that a busy machine does not outlast, and whose end a check can wait for


@check()
async def an_unanswered_try_is_unknown_and_undone(context: CheckContext) -> None:
    """A try without an answer ends in time, says that it does not know, and is taken back."""
    rival = await context.connect()
    for where in ("before", "after"):
        name, faults = context.name(where), Faults()
        client = await context.connect(faults)
        try:
            faults.hang("acquire", "withdraw", where="before" if where == "before" else "after")
            job = context.start(client.lock(name, ttl=LONG_S).try_acquire)
            await _is_unknown(context, job, client)
        finally:
            faults.heal()
        await _is_undone(context, client)
        why = "the only one that wanted it has taken that back"
        await given(await rival.lock(name).try_acquire(timeout=context.timeout), why).release()


@check()
async def a_waiter_of_a_silent_engine_times_out(context: CheckContext) -> None:
    """A waiter whose time is over while the engine is silent ends, and is not served later."""
    name, faults = context.name(), Faults()
    holder, client = await context.connect(), await context.connect(faults)
    lease = await holder.lock(name, ttl=LONG_S).acquire()
    try:
        for timeout in (SECOND_S, SLOW_S):
            before = context.record.waiting(name)
            job = context.start(client.lock(name, ttl=LONG_S, timeout=timeout).acquire)
            waits = partial(_waits_or_has_ended, context, name, before, job)
            await context.until(waits, f"one that waits must ask for {name!r}")
            faults.hang("acquire", "withdraw", "unwatch")
            await job.end(timeout + GRACE_S + context.timeout)
            if timeout == SLOW_S or not isinstance(job.error, AcquireTimeout):
                await _is_unknown(context, job, client)
                break
            faults.heal()  # on a busy machine its time may have been over before the silence
    finally:
        faults.heal()
    await _is_undone(context, client)
    await lease.release()
    why = "the one that waited has given up, and the engine was told so"
    await given(await holder.lock(name).try_acquire(timeout=context.timeout), why).release()


@check(flavors=("asyncio",))
async def a_cancellation_does_not_wait_for_a_silent_engine(context: CheckContext) -> None:
    """A cancelled waiter ends in time while the engine is silent, and is not served later."""
    name, faults = context.name(), Faults()
    holder, client = await context.connect(), await context.connect(faults)
    lease = await holder.lock(name, ttl=LONG_S).acquire()
    try:
        job = context.start(client.lock(name, ttl=LONG_S).acquire)
        await context.until_waiting(name)
        faults.hang("acquire", "withdraw", "unwatch")
        job.cancel()
        await job.end(GRACE_S + context.timeout)
        expect(isinstance(job.error, asyncio.CancelledError), f"it ended with {job.error!r}")
    finally:
        faults.heal()
    await _is_undone(context, client)
    await lease.release()
    why = "the one that waited was cancelled, and the engine was told so"
    await given(await holder.lock(name).try_acquire(timeout=context.timeout), why).release()


@check()
async def an_unanswered_release_is_unknown_and_done(context: CheckContext) -> None:
    """A release without an answer ends in time, says that it does not know, and goes on."""
    name, faults = context.name(), Faults()
    client, rival = await context.connect(faults), await context.connect()
    lease = await client.lock(name, ttl=LONG_S).acquire()
    try:
        faults.fail(lambda: OutcomeUnknown("the engine is silent"), "release")
        await _is_unknown(context, context.start(lease.release), client)
    finally:
        faults.heal()
    await _is_undone(context, client)
    await given(
        await rival.lock(name).try_acquire(timeout=context.timeout), "its release was confirmed"
    ).release()


@check()
async def a_waiter_survives_a_short_outage(context: CheckContext) -> None:
    """An outage counts from its first failure, however long a waiter has waited before."""
    name, faults = context.name(), Faults()
    holder, client = await context.connect(), await context.connect(faults)
    lease = await holder.lock(name, ttl=LONG_S).acquire()
    context.record.look_in = SECOND_S + BRIEF_S  # it retries by itself only after a whole ttl
    job = context.start(client.lock(name, ttl=SECOND_S, timeout=context.timeout).acquire)
    try:
        await context.until_waiting(name)
        faults.outage("acquire")

        async def failed() -> bool:
            return bool(faults.seen("acquire", "refused")) or job.done()

        await context.until(failed, "a waiter must look now and then")
    finally:
        faults.heal()
    await lease.release()
    await (await job.result()).release()


async def _waits_or_has_ended(
    context: CheckContext, name: str, before: int, job: Running[Any]
) -> bool:
    return context.record.waiting(name) > before or job.done()


async def _is_unknown(
    context: CheckContext, job: Running[Any], client: aio.Client, timeout: float = 0.0
) -> None:
    """Check that a call ends although the engine does not answer, and that ``owed`` shows it.

    It only has to end before the engine answers: speed is not tested.
    """
    await job.end(timeout + GRACE_S + context.timeout)
    expect(
        isinstance(job.error, OutcomeUnknown),
        f"nobody knows what became of it, and it ended with {job.error!r}",
    )
    expect(len(client.owed) == 1, f"one thing is owed, and client.owed is {client.owed!r}")


async def _is_undone(context: CheckContext, client: aio.Client) -> None:
    """Check that the engine confirms what is owed once it answers again."""

    async def confirmed() -> bool:
        return client.owed == ()

    await context.until(confirmed, "what is owed must be confirmed once the engine answers")
