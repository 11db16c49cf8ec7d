"""A blocking client with the face of an asyncio one, so that one check serves both flavors.

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
    sync.Lease: aio.Lease,
    sync.Lost: aio.Lost,
}


def awaited(client: sync.Client) -> aio.Client:
    """The asyncio face of a blocking client."""
    return cast(aio.Client, _Face(client))


class _Face:
    """Stands for a sync Client, Lock, Lease or Lost. Two that stand for the same one are equal."""

    def __init__(self, face: Any) -> None:
        self._face = face

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._face, name)
        if name.startswith("_") or not callable(value):
            return _wrap(value)

        def call(*args: Any, **kwargs: Any) -> Any:
            return _wrap(value(*args, **kwargs))

        async def wait(*args: Any, **kwargs: Any) -> Any:
            return _wrap(value(*args, **kwargs))

        twin = _TWINS[type(self._face)]
        return wait if iscoroutinefunction(getattr(twin, name)) else call

    async def __aenter__(self) -> Any:
        return _wrap(self._face.__enter__())

    async def __aexit__(self, *error: Any) -> None:
        self._face.__exit__(*error)

    def __bool__(self) -> bool:
        return bool(self._face)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Face) and self._face is other._face

    def __hash__(self) -> int:
        return hash(self._face)

    def __repr__(self) -> str:
        return repr(self._face)


def _wrap(value: Any) -> Any:
    return _Face(value) if type(value) in _TWINS else value
