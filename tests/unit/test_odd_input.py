"""What callers pass by mistake is refused in our words, before anything is sent to an engine."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

import fencelock
from fencelock import FencelockError, Misconfigured, UsageError, aio, engines
from fencelock.testing import faulty
from fencelock.testing.faulty import Faults

NAN, INF = float("nan"), float("inf")

NAMES: dict[str, object] = {
    "NUL": "seat\0",
    "newline": "seat\n",
    "tab": "\tseat",
    "escape": "seat\x1b[31m",
    "delete": "seat\x7f",
    "C1 control": "seat\x85",
    "lone surrogate": "seat\ud800",
    "surrogate escape": b"seat\xff".decode("utf-8", "surrogateescape"),
    "empty": "",
    "513 bytes": "x" * 513,
    "257 characters of 2 bytes": "é" * 257,
    "129 characters of 4 bytes": "𝄞" * 129,
    "bytes": b"seat",
    "None": None,
    "number": 7,
    "list": ["seat"],
}
TTLS: dict[str, object] = {
    "zero": 0,
    "negative": -1,
    "too short": 0.049,
    "NaN": NAN,
    "infinite": INF,
    "minus infinite": -INF,
    "None": None,
    "a year": 365 * 86400,
    "True": True,
    "text": "5",
    "timedelta": timedelta(seconds=5),
    "10**400": 10**400,
    "Decimal": Decimal(5),
    "Fraction": Fraction(5, 2),
    "complex": 5j,
}
TIMEOUTS: dict[str, object] = {
    "negative": -0.001,
    "NaN": NAN,
    "minus infinite": -INF,
    "False": False,
    "text": "5",
    "timedelta": timedelta(seconds=5),
    "10**400": 10**400,
}
OTHERS: dict[str, object] = {
    "renew is a word": ("renew", "no"),
    "renew is a number": ("renew", 1),
    "max_hold is zero": ("max_hold", 0),
    "max_hold is infinite": ("max_hold", INF),
    "max_hold is text": ("max_hold", "60"),
    "on_lost is no function": ("on_lost", "stop"),
    "reentrant is None": ("reentrant", None),
    "safety is unknown": ("safety", "paranoid"),
    "safety is True": ("safety", True),
    "meta is a list": ("meta", ["who", "me"]),
    "meta has a numbered key": ("meta", {1: "me"}),
    "meta has a nested value": ("meta", {"who": {"name": "me"}}),
    "meta has NaN": ("meta", {"load": NAN}),
    "meta is too long": ("meta", {"who": "x" * 5000}),
}

REASONS: dict[str, object] = {"empty": "", "blank": "  ", "None": None, "a novel": "x" * 10_000}

Misuse = Callable[[Any], Any]  # of a client: what it returns may have to be awaited


def each(what: str, values: dict[str, object], use: Callable[[Any, Any], Any]) -> dict[str, Misuse]:
    """One misuse for each odd value."""

    def of(value: object) -> Misuse:
        return lambda client: use(client, value)

    return {f"{what}: {name}": of(value) for name, value in values.items()}


MISUSES: dict[str, Misuse] = {
    **each("name", NAMES, lambda client, name: client.lock(name).acquire()),
    **each("ttl", TTLS, lambda client, ttl: client.lock("seat", ttl=ttl).acquire()),
    **each("timeout", TIMEOUTS, lambda client, s: client.lock("seat", timeout=s).acquire()),
    **each("acquire", TIMEOUTS, lambda client, s: client.lock("seat").acquire(timeout=s)),
    **each("try_acquire", TIMEOUTS, lambda client, s: client.lock("seat").try_acquire(timeout=s)),
    **each("option", OTHERS, lambda client, o: client.lock("seat", **{o[0]: o[1]}).acquire()),
    **each("inspect", NAMES, lambda client, name: client.inspect(name)),
    **each("holders", NAMES, lambda client, name: client.holders(name)),
    **each("scan", {**NAMES, "empty": None}, lambda client, name: client.scan(name)),
    **each("revoke", NAMES, lambda client, name: client.revoke(name, "why not")),
    **each("reason", REASONS, lambda client, reason: client.revoke("seat", reason)),
    "busy is unknown": lambda client: client.locked("seat", busy="wait"),
    "ttl of a decorator": lambda client: client.locked("seat", ttl=0),
}


@pytest.mark.parametrize("misuse", MISUSES)
def test_a_misuse_is_refused_before_anything_is_sent(misuse: str) -> None:
    """H28, blocking: ValueError of our tree, and the engine has seen no call."""
    faults = Faults()
    with faulty.connect("memory://odd", faults) as client:
        faults.calls.clear()
        with pytest.raises(UsageError) as caught:
            MISUSES[misuse](client)
        assert faults.calls == []
    assert isinstance(caught.value, ValueError)
    assert not caught.value.may_have_happened
    assert len(str(caught.value)) < 400, "the message repeats what was passed at full length"


@pytest.mark.parametrize("misuse", MISUSES)
def test_a_misuse_is_refused_before_anything_is_awaited(misuse: str) -> None:
    """H28, asyncio: the same."""

    async def main() -> None:
        faults = Faults()
        async with await faulty.connect_aio("memory://odd", faults) as client:
            faults.calls.clear()
            with pytest.raises(UsageError):
                await MISUSES[misuse](client)
            assert faults.calls == []

    asyncio.run(main())


@pytest.mark.parametrize("ttl", [what for what in TTLS if what != "None"])
def test_an_odd_ttl_of_an_early_renewal_is_refused_and_the_lease_goes_on(ttl: str) -> None:
    """H28: nothing was sent, so nothing has changed."""
    faults = Faults()
    with faulty.connect("memory://odd", faults) as client, client.lock("seat", ttl=20) as lease:
        with pytest.raises(UsageError):
            lease.renew(ttl=TTLS[ttl])  # type: ignore[arg-type]
        assert not faults.seen("renew")
        assert lease.ttl == 20
        lease.check()


@pytest.mark.parametrize("timeout", TIMEOUTS)
def test_an_odd_wait_for_a_loss_is_refused(timeout: str) -> None:
    """H28: ``lost.wait`` has a timeout too."""
    with fencelock.connect("memory://odd") as client, client.lock("seat") as lease:
        with pytest.raises(UsageError):
            lease.lost.wait(timeout=TIMEOUTS[timeout])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "name",
    ["x" * 512, "é" * 256, "𝄞" * 128, " ", "a/b:c{}?#%", "'; DROP TABLE locks; --", "\u202e"],
)
def test_an_unusual_name_is_locked_as_it_is(name: str, tmp_path: Any) -> None:
    """H28: whatever is allowed comes back unchanged, from each engine."""
    for url in ("memory://odd", f"sqlite:///{tmp_path}/locks.db"):
        with fencelock.connect(url) as client, client.lock(name) as lease:
            assert lease.name == name
            assert [held.name for held in client.scan()] == [name]
            assert client.lock(name).try_acquire() is None


def test_names_that_only_look_the_same_are_two_locks(tmp_path: Any) -> None:
    """H28: no case folding, no normalizing, no trimming, on any engine."""
    names = ["seat", "Seat", "seat ", " seat", "se\u0301at", "séat", "seat%", "seat_"]
    for url in ("memory://odd", f"sqlite:///{tmp_path}/locks.db"):
        with fencelock.connect(url) as client:
            leases = [client.lock(name).acquire(timeout=0) for name in names]
            assert len(client.scan()) == len(names)
            assert [held.name for held in client.scan("seat")] == sorted(
                name for name in names if name.startswith("seat")
            )
            for lease in leases:
                lease.release()


@pytest.mark.parametrize("failure", ["1 / 0", "raise OSError('no such library')", "import no_such"])
def test_an_engine_of_others_that_cannot_be_imported_is_named(
    failure: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broken package of others must not look like a defect of ours."""
    tmp_path.joinpath("broken_engine.py").write_text(failure + "\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(engines.TABLE, "broken", "broken_engine:Engine")
    with pytest.raises(Misconfigured, match="broken://"):
        fencelock.connect("broken://somewhere").open()
    sys.modules.pop("broken_engine", None)


def test_a_client_that_is_closed_says_so() -> None:
    """Whatever is asked of it."""
    client = fencelock.connect("memory://odd")
    lock = client.lock("seat")
    client.close()
    client.close()
    for call in (lock.acquire, lock.try_acquire, lambda: client.inspect("seat"), client.scan):
        with pytest.raises(UsageError, match="closed: connect again"):
            call()


def test_an_async_client_outside_of_any_loop_is_refused() -> None:
    """``asyncio.run`` is what is missing."""
    connecting = aio.connect("memory://odd")
    with pytest.raises((FencelockError, RuntimeError)):
        connecting.__await__().send(None)


def test_what_is_no_text_or_no_json_is_refused_in_our_words() -> None:
    with fencelock.connect("memory://odd") as client:
        with pytest.raises(UsageError, match="by must be a str"):
            client.latch("latch", 2).count_down(by=5)  # type: ignore[arg-type]
        for token in (None, b"fl1.x", 7):
            with pytest.raises(UsageError, match="pass what hand_over"):
                client.take_over(token)  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="meta cannot be written as JSON"):
            client.lock("seat", meta={"n": 10**5000})


def test_what_is_no_text_or_no_json_is_refused_in_our_words_in_a_task() -> None:
    async def main() -> None:
        async with aio.connect("memory://odd") as client:
            with pytest.raises(UsageError, match="by must be a str"):
                await client.latch("latch", 2).count_down(by=5)  # type: ignore[arg-type]
            for token in (None, b"fl1.x", 7):
                with pytest.raises(UsageError, match="pass what hand_over"):
                    await client.take_over(token)  # type: ignore[arg-type]
            with pytest.raises(UsageError, match="meta cannot be written as JSON"):
                client.lock("seat", meta={"n": 10**5000})

    asyncio.run(main())
