"""Tools to test programs that use locks, and engines that implement them.

A client whose clock is moved by hand shows what a program does when its lease is lost, at once and
the same way every time:

    >>> from fencelock import testing
    >>> client, clock = testing.client()
    >>> lease = client.lock("report", ttl=30).acquire()
    >>> clock.run(3600)             # an hour passes, and the lease is renewed as it should be
    >>> bool(lease)
    True
    >>> clock.advance(31)           # the process is frozen for longer than the ttl
    >>> lease.lost.is_set()
    True
    >>> lease.check()
    Traceback (most recent call last):
    ...
    fencelock.errors.Expired: the lease on 'report' (fence 1) is lost: it was not renewed ...
    >>> client.close()

For asyncio it is ``client, clock = await testing.aio_client()`` and ``await clock.advance(31)``.
``testing.lose(lease)`` takes a lease away from its holder, with any client.

``testing.Faults``, in pytest the fixture ``faults``, injects what can go wrong.
``testing.conformance`` checks engines, and ``testing.faulty`` is an engine that fails on demand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import conformance as conformance
    from . import faulty as faulty
    from .clients import AioClock, Clock, aio_client, client, lose
    from .faults import Faults

__all__ = ["AioClock", "Clock", "Faults", "aio_client", "client", "conformance", "faulty", "lose"]

_MODULES = {"Faults": "faults", "conformance": "conformance", "faulty": "faulty"}


def __getattr__(name: str) -> Any:
    """Import a public name on its first use: the plugin loads this package in every pytest run."""
    from importlib import import_module

    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(f"{__name__}.{_MODULES.get(name, 'clients')}")
    globals()[name] = (
        module if name == module.__name__.rpartition(".")[2] else getattr(module, name)
    )
    return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
