"""Check the options of a lock against what its engine promises, and what its caller holds."""

from __future__ import annotations

from collections.abc import Iterable

from ..engine import Engine
from ..errors import Unsupported, UsageError
from ..model import Traits
from .hold_state import HoldState
from .lock_options import Linger, LockSpec


def check(engine: Engine, traits: Traits, spec: LockSpec) -> None:
    """Raise Unsupported for what the engine cannot promise, and name one that could."""
    url = engine.address.public
    if spec.share is not None and not traits.shared:
        raise Unsupported(
            f"{url} has no locks that several can hold, and a {spec.share.kind} was asked for: "
            "use sqlite, redis, etcd, zookeeper, or postgresql and mysql with mode=lease"
        )
    if spec.linger is not None:
        _check_linger(engine, traits, spec.linger, spec.ttl)
    if spec.key is not None and not engine.takes_keys:
        raise Unsupported(
            f"{url} locks by name only, and key={spec.key} was given: leave it out, or use "
            "postgresql with mode=advisory"
        )
    if spec.safety == "correctness" and traits.safety != "correctness":
        raise Unsupported(
            f'{url} promises efficiency only, and safety="correctness" was demanded: '
            f"{traits.advice or 'use sqlite, postgresql, etcd or zookeeper'}"
        )


def _check_linger(engine: Engine, traits: Traits, linger: Linger, ttl: float) -> None:
    """Refuse min_hold and delay where the lock ends with its holder or the holder's connection."""
    url = engine.address.public
    if linger.min_hold and not (traits.portable or traits.scope == "process"):
        raise Unsupported(
            f"{url} frees a lock when its holder exits, and min_hold was given: use sqlite, "
            "redis, etcd, zookeeper, or postgresql and mysql with mode=lease"
        )
    if linger.delay and engine.session_bound:
        raise Unsupported(
            f"{url} frees a lock when its holder's connection ends, and delay was given: use "
            "mode=lease, or another engine"
        )
    _check_longest(url, traits, linger, ttl)


def _check_longest(url: str, traits: Traits, linger: Linger, ttl: float) -> None:
    """Refuse a min_hold or delay that is longer than the engine keeps a lock that nobody renews.

    Beside its delay a lease needs its ttl, or half of that longest time if that is less.
    """
    longest = traits.ttl_max
    if longest is None:
        return
    option = ""
    if linger.min_hold > longest:
        option = f"min_hold={linger.min_hold:g}"
    elif linger.delay and linger.delay + min(ttl, longest / 2) > longest:
        option = f"delay={linger.delay:g}"
    if option:
        raise Unsupported(
            f"{url} keeps a lock that nobody renews for {longest:g} s at most, and {option} was "
            f"given: {traits.advice or 'ask for less'}"
        )


def refuse_upgrade(who: object, holds: Iterable[HoldState], name: str) -> None:
    """Refuse to wait for a write lock under a read lock of the same thread or task."""
    for hold in holds:
        reader = hold.reader if hold.grant.name == name else None
        if reader is not None and reader() is who and hold.role == "read":
            raise UsageError(
                f"this thread or task reads under {name!r}, and would wait for itself to write:"
                " release the read lock first, and look again at what it read"
            )
