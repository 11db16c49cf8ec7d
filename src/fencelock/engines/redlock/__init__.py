"""Redlock: a lock over a majority of independent Redis servers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ...world import World
    from ..redis.scripts import Script
    from ..redis.settings import Settings
    from .fanout import Fanout


def _threads(world: World, settings: Settings, scripts: Sequence[Script]) -> Fanout[Any]:
    from .fanout_threads import ThreadsFanout

    return ThreadsFanout(world, settings, scripts)


def _aio(world: World, settings: Settings, scripts: Sequence[Script]) -> Fanout[Any]:
    from .fanout_aio import AioFanout

    return AioFanout(world, settings, scripts)


FANOUTS: dict[str, Callable[[World, Settings, Sequence[Script]], Fanout[Any]]] = {
    "threads": _threads,
    "asyncio": _aio,
}
"""Makers of a fan-out to nodes that must know these scripts, by the flavor of a world."""
