"""Fencelock: one safe way for programs on many machines to take turns.

    import fencelock

    client = fencelock.connect("sqlite:///locks.db")
    with client.lock("seat:1A", ttl=30, timeout=5) as lease:
        book(seat, fence=lease.fence)

``fencelock.aio`` has the same for asyncio. Importing this package imports neither asyncio nor any
driver.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .errors import (
    AcquireTimeout,
    Denied,
    EngineError,
    Expired,
    FencelockError,
    LeaseLost,
    Misconfigured,
    NotAcquired,
    OutcomeUnknown,
    Revoked,
    SessionEnded,
    StaleFence,
    Unavailable,
    Unsupported,
    UsageError,
)
from .model import Holding, Owed, State, Traits, Waiting

if TYPE_CHECKING:
    from . import aio as aio
    from . import etcd as etcd
    from . import observe as observe
    from . import sql as sql
    from . import testing as testing
    from .sync import (
        Barrier,
        Client,
        Election,
        Latch,
        Lease,
        Lock,
        Lost,
        Once,
        RWLock,
        connect,
    )

__version__ = "0.1.0"

__all__ = [
    "AcquireTimeout",
    "Barrier",
    "Client",
    "Denied",
    "Election",
    "EngineError",
    "Expired",
    "FencelockError",
    "Holding",
    "Latch",
    "Lease",
    "LeaseLost",
    "Lock",
    "Lost",
    "Misconfigured",
    "NotAcquired",
    "Once",
    "OutcomeUnknown",
    "Owed",
    "RWLock",
    "Revoked",
    "SessionEnded",
    "StaleFence",
    "State",
    "Traits",
    "Unavailable",
    "Unsupported",
    "UsageError",
    "Waiting",
    "__version__",
    "aio",
    "connect",
    "etcd",
    "observe",
    "sql",
    "testing",
]

_LATER = {"aio", "etcd", "observe", "sql", "testing"}  # modules that cost something to import


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in _LATER:
        return import_module(f"{__name__}.{name}")
    if name in __all__:
        value = getattr(import_module(f"{__name__}.sync"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
