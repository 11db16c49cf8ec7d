"""Every error a user of fencelock can meet, and nothing else.

    FencelockError
    ├─ NotAcquired          definite no             ├─ AcquireTimeout (also TimeoutError)
    ├─ LeaseLost            had it, have it no more ├─ Expired  ├─ Revoked  ├─ SessionEnded
    ├─ StaleFence           the guard refused
    ├─ OutcomeUnknown       may have happened
    ├─ EngineError          nothing happened        ├─ Unavailable  ├─ Unsupported
    │                                               ├─ Misconfigured ── Denied
    └─ UsageError           the caller's mistake (also ValueError)

The tree answers two questions before the message is read: whose turn is it to act, and may the
request have taken effect. ``may_have_happened`` says the latter for every class. The first line of
a class's docstring is its default message. Facts are attributes, so that code need not parse text;
all errors survive pickling, so they cross process pools whole.
"""

from __future__ import annotations

from typing import ClassVar, Literal

__all__ = [
    "AcquireTimeout",
    "Denied",
    "EngineError",
    "Expired",
    "FencelockError",
    "LeaseLost",
    "Misconfigured",
    "NotAcquired",
    "OutcomeUnknown",
    "Revoked",
    "SessionEnded",
    "StaleFence",
    "Unavailable",
    "Unsupported",
    "UsageError",
]


class FencelockError(Exception):
    """Something went wrong in fencelock."""

    may_have_happened: ClassVar[bool] = False
    """True when the request that failed may still have taken effect in the engine."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or (type(self).__doc__ or "").partition("\n")[0])


class NotAcquired(FencelockError):
    """The lock is held by another and was not acquired."""

    def __init__(self, message: str | None = None, *, name: str = "") -> None:
        super().__init__(message)
        self.name = name


class AcquireTimeout(NotAcquired, TimeoutError):
    """The lock was not acquired within the timeout."""

    def __init__(
        self, message: str | None = None, *, name: str = "", timeout: float | None = None
    ) -> None:
        super().__init__(message, name=name)
        self.timeout = timeout


class LeaseLost(FencelockError):
    """The lease is no longer ours: another may hold the lock now.

    Stop what the lock protects. A guard at the resource refuses what is still under way.
    """

    def __init__(
        self,
        message: str | None = None,
        *,
        name: str = "",
        fence: int | None = None,
        reason: str = "",
    ) -> None:
        super().__init__(message)
        self.name = name
        self.fence = fence
        self.reason = reason


class Expired(LeaseLost):
    """The lease ran out before it was renewed."""


class Revoked(LeaseLost):
    """An administrator took the lease away, or its record was removed."""


class SessionEnded(LeaseLost):
    """The session that carried the lease has ended."""


class StaleFence(FencelockError):
    """The resource has seen a higher fence and refuses this one."""

    def __init__(
        self,
        message: str | None = None,
        *,
        name: str = "",
        offered: int = 0,
        highest: int = 0,
        seen: Literal["read", "write"] = "write",
    ) -> None:
        reader = "a reader with " if seen == "read" else ""
        super().__init__(
            message
            or f"{name!r} has seen {reader}fence {highest} and refuses the older {offered}: "
            "another holder has taken over, so stop and do not retry with this lease"
        )
        self.name = name
        self.offered = offered
        self.highest = highest
        self.seen = seen
        """Which mark refused: that of the readers or that of the writers, which all others are."""


class OutcomeUnknown(FencelockError):
    """The engine did not answer: the request may or may not have taken effect."""

    may_have_happened = True

    def __init__(self, message: str | None = None, *, until: float | None = None) -> None:
        super().__init__(message)
        self.until = until
        """Seconds after which the doubt has ended by itself, where that is known."""


class EngineError(FencelockError):
    """The engine could not do it; nothing happened."""


class Unavailable(EngineError):
    """The engine cannot be reached or cannot serve now; nothing happened. Try again later."""


class Misconfigured(EngineError):
    """The engine or its address is set up wrongly; nothing happened."""


class Denied(Misconfigured):
    """The engine's access control refused us; nothing happened."""


class Unsupported(EngineError):
    """This engine does not offer that; nothing happened."""


class UsageError(FencelockError, ValueError):
    """The call is wrong; nothing was sent."""
