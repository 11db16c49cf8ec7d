"""Check that wrong calls are refused before anything is sent."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from .... import aio
from ...._client.validation import META_BYTES_MAX
from ....errors import Unsupported, UsageError
from ..check import check, expect, given, refused
from ..context import LONG_S, CheckContext

NAN, INFINITE = float("nan"), float("inf")

NAMES: tuple[object, ...] = (
    "", "two\nlines", "nul\0", "\x7f", "\x85", "x" * 513, "é" * 257, "\ud800", None, b"bytes", 7,
)  # fmt: skip

OPTIONS: dict[str, tuple[object, ...]] = {
    "ttl": (0, -1, 0.001, 1e9, INFINITE, NAN, None, "30", True),
    "timeout": (-1, -0.001, NAN, "5", True),
    "max_hold": (0, -1, INFINITE, NAN, "60", True),
    "renew": (None, 0, "no"),
    "reentrant": (None, 1, "yes"),
    "on_lost": ("print", 7),
    "safety": ("maximal", 1),
    "meta": (
        "text",
        "",
        0,
        [],
        ["a"],
        {1: "x"},
        {"k": object()},
        {"k": [1]},
        {"k": NAN},
        {"k": INFINITE},
    ),
}


async def _describe(client: aio.Client, name: Any, **options: Any) -> None:
    client.lock(name, **options)


@check()
async def wrong_calls_are_refused_unsent(context: CheckContext) -> None:
    """A bad name, ttl, timeout, switch or meta raises UsageError before the engine is asked."""
    client = await context.connect()
    lock = client.lock(context.name())
    wrong: dict[str, Callable[[], Awaitable[object]]] = {
        "scan with a control character": partial(client.scan, "a\nb"),
        "revoke without a reason": partial(client.revoke, context.name(), " "),
    }
    for name in NAMES:
        bad: Any = name
        wrong[f"lock({bad!r})"] = partial(_describe, client, bad)
        wrong[f"holders({bad!r})"] = partial(client.holders, bad)
        wrong[f"revoke({bad!r})"] = partial(client.revoke, bad, "why")
    for option, values in OPTIONS.items():
        for value in values:
            wrong[f"{option}={value!r}"] = partial(
                _describe, client, context.name(), **{option: value}
            )
    for timeout in OPTIONS["timeout"]:
        bad = timeout
        wrong[f"acquire(timeout={bad!r})"] = partial(lock.acquire, timeout=bad)
        wrong[f"try_acquire(timeout={bad!r})"] = partial(lock.try_acquire, timeout=bad)
    before = context.record.calls
    for what, call in wrong.items():
        await refused(UsageError, call(), what)
    expect(context.record.calls == before, "the engine was asked although the call was wrong")


@check()
async def a_wrong_ttl_does_not_touch_a_lease(context: CheckContext) -> None:
    """``renew`` refuses a bad ttl, and the lease stays as it was."""
    client = await context.connect()
    lease = await client.lock(context.name(), ttl=LONG_S).acquire()
    before = context.record.calls
    for value in OPTIONS["ttl"]:
        bad: Any = value
        if bad is not None:
            await refused(UsageError, lease.renew(ttl=bad), f"renew(ttl={bad!r})")
    expect(context.record.calls == before, "the engine was asked although the call was wrong")
    lease.check()
    await lease.release()


@check()
async def meta_has_a_limit(context: CheckContext) -> None:
    """Meta that an engine could not carry is refused unsent; what is allowed arrives whole."""
    client = await context.connect()
    before = context.record.calls
    try:
        client.lock(context.name(), meta={"note": "x" * META_BYTES_MAX})
    except UsageError:
        pass
    else:
        expect(False, "a lock with too much meta was not refused when it was described")
    expect(context.record.calls == before, "the engine was asked although meta is too long")
    note = "x" * (META_BYTES_MAX - len('{"note": ""}'))
    async with client.lock(context.name(), meta={"note": note}) as lease:
        expect(lease.meta.get("note") == note, "meta was cut short")
        (shown,) = await client.holders(context.name())
        expect(shown.meta.get("note") == note, "meta was cut short on its way")


@check()
async def safety_is_promised_or_refused(context: CheckContext) -> None:
    """``safety="correctness"`` is refused at once by an engine that promises efficiency only."""
    client = await context.connect()
    await given(await client.lock(context.name(), safety="efficiency").try_acquire()).release()
    if client.traits.safety == "correctness":
        await given(await client.lock(context.name(), safety="correctness").try_acquire()).release()
        expect(client.traits.fence, "correctness without fences cannot be promised")
    else:
        demand = _describe(client, context.name(), safety="correctness")
        await refused(Unsupported, demand, 'safety="correctness"')
