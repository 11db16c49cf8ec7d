"""Decisions as pure arithmetic over values: when to renew, when to retry, how long to wait.

No function here reads a clock, draws a random number or knows an engine; they are handed in.
"""

from __future__ import annotations

from .validation import TTL_MIN_S

RENEWALS_PER_TTL = 3
GROUPING = 12  # a renewal may be early by the ttl divided by this, so that many share a request
RETRY_MIN_S, RETRY_MAX_S = 0.01, 1.0
LOOK_MIN_S, LOOK_MAX_S = 0.001, 3600.0  # engines advise less where nobody looks for a waiter
UNKNOWN_TRIES = 3
RELEASE_S = 5.0  # how long a release waits for a silent engine


def renew_at(asked_at: float, ttl: float) -> float:
    """Return when a lease is due for renewal."""
    return asked_at + ttl / RENEWALS_PER_TTL


def grouped_until(now: float, ttl: float) -> float:
    """Return the moment before which a renewal must be due to go along with one that is due now."""
    return now + ttl / GROUPING


def retry_at(now: float, ttl: float) -> float:
    """Return when to retry a renewal that failed: several times within what is left of the ttl."""
    return now + min(max(ttl / GROUPING, RETRY_MIN_S), RETRY_MAX_S)


def asked_ttl(ttl: float, now: float, hold_until: float | None) -> float:
    """Return the ttl to request: not past the end of max_hold, not below what an engine takes."""
    if hold_until is None:
        return ttl
    return max(min(ttl, hold_until - now), TTL_MIN_S)


def may_renew(now: float, hold_until: float | None) -> bool:
    """Return whether renewing still makes sense before max_hold ends."""
    return hold_until is None or hold_until - now > TTL_MIN_S


def deadline(now: float, timeout: float | None) -> float | None:
    """Return the moment at which a timeout ends; None without one."""
    return None if timeout is None else now + timeout


def earlier(one: float | None, other: float) -> float:
    """Return the earlier of two moments; None stands for never."""
    return other if one is None or other < one else one


def look_at(now: float, look_in: float, chance: float) -> float:
    """Return when a waiter looks again by itself: as advised, with jitter to spread a crowd."""
    wait = LOOK_MIN_S if look_in < LOOK_MIN_S else look_in if look_in < LOOK_MAX_S else LOOK_MAX_S
    return now + wait + (wait if wait < 0.05 else 0.05) * chance * 0.2
