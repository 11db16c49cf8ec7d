"""Give a blocking client the methods of an asyncio one, so that one check serves both flavors.

What ``fencelock.aio`` awaits can be awaited here; the blocking call is made in the calling thread,
before the coroutine ends. Nothing suspends, so ``drive()`` runs it.
"""

from __future__ import annotations

from inspect import iscoroutinefunction
from typing import Any, cast

from ... import aio, sync

_TWINS: dict[type[object], type[object]] = {
    sync.Client: aio.Client,
    sync.Lock: aio.Lock,
    sync.RWLock: aio.RWLock,
    sync.Lease: aio.Lease,
    sync.Lost: aio.Lost,
}


def async_adapter(client: sync.Client) -> aio.Client:
    """A client whose methods are awaited, over a blocking one."""
    return cast(aio.Client, _AsyncAdapter(client))


class _AsyncAdapter:
    """Wraps a sync Client, Lock, Lease or Lost. Two that wrap the same one are equal."""

    def __init__(self, wrapped: Any) -> None:
        self._wrapped = wrapped

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._wrapped, name)
        if name.startswith("_") or not callable(value):
            return _wrap(value)

        def call(*args: Any, **kwargs: Any) -> Any:
            return _wrap(value(*args, **kwargs))

        async def wait(*args: Any, **kwargs: Any) -> Any:
            return _wrap(value(*args, **kwargs))

        twin = _TWINS[type(self._wrapped)]
        return wait if iscoroutinefunction(getattr(twin, name)) else call

    async def __aenter__(self) -> Any:
        return _wrap(self._wrapped.__enter__())

    async def __aexit__(self, *error: Any) -> None:
        self._wrapped.__exit__(*error)

    def __bool__(self) -> bool:
        return bool(self._wrapped)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _AsyncAdapter) and self._wrapped is other._wrapped

    def __hash__(self) -> int:
        return hash(self._wrapped)

    def __repr__(self) -> str:
        return repr(self._wrapped)


def _wrap(value: Any) -> Any:
    return _AsyncAdapter(value) if type(value) in _TWINS else value
