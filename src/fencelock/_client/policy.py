"""Decisions as pure arithmetic over values: when to renew, when to try again, how long to wait.

No function here reads a clock, draws a random number or knows an engine; they are handed in.
"""

from __future__ import annotations

from .validation import TTL_MIN_S

RENEWALS_PER_TTL = 3
GROUPING = 12  # a renewal may come this part of a ttl early, so that many go in one request
RETRY_MIN_S, RETRY_MAX_S = 0.01, 1.0
LOOK_MIN_S, LOOK_MAX_S = 0.001, 3600.0  # engines advise less where nobody looks for a waiter
UNKNOWN_TRIES = 3
RELEASE_S = 5.0  # how long a release waits for an engine that is silent


def renew_at(asked_at: float, ttl: float) -> float:
    """When a lease is due for renewal."""
    return asked_at + ttl / RENEWALS_PER_TTL


def grouped_until(now: float, ttl: float) -> float:
    """Renewals that are due before this go along with one that is due now."""
    return now + ttl / GROUPING


def retry_at(now: float, ttl: float) -> float:
    """When to try again after a renewal that failed: several times within what is left."""
    return now + min(max(ttl / GROUPING, RETRY_MIN_S), RETRY_MAX_S)


def asked_ttl(ttl: float, now: float, hold_until: float | None) -> float:
    """The ttl to ask for: never past the longest hold, never below what an engine takes."""
    if hold_until is None:
        return ttl
    return max(min(ttl, hold_until - now), TTL_MIN_S)


def may_renew(now: float, hold_until: float | None) -> bool:
    """Whether renewing still makes sense before the longest hold ends."""
    return hold_until is None or hold_until - now > TTL_MIN_S


def deadline(now: float, timeout: float | None) -> float | None:
    """Turn the longest wait into a moment."""
    return None if timeout is None else now + timeout


def earlier(one: float | None, other: float) -> float:
    """The earlier of two moments, where one may be never."""
    return other if one is None or other < one else one


def look_at(now: float, look_in: float, chance: float) -> float:
    """When a waiter looks again by itself: as advised, spread so that a crowd comes apart."""
    wait = LOOK_MIN_S if look_in < LOOK_MIN_S else look_in if look_in < LOOK_MAX_S else LOOK_MAX_S
    return now + wait + (wait if wait < 0.05 else 0.05) * chance * 0.2
