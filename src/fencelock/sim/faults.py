"""The single faults of a simulation: pause, resume and crash of a process, and directions to cut.

When a fault happens, and to what, is decided elsewhere: drawn by a test, or written in a document.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..engine import Engine
from .network import Host, Way
from .world import SimWorld


def pause(world: SimWorld, host: Host) -> None:
    """Freeze a process: time goes on, its tasks do not, and messages that arrive wait."""
    world.pause()
    host.is_paused = True


def resume(world: SimWorld, host: Host) -> None:
    """Let a paused process go on; a crashed one stays as it is."""
    if not world.is_crashed:
        world.resume()
        host.wake()


def crash(world: SimWorld, host: Host, engine: Engine | None) -> None:
    """End a process for good. Its machine closes the connections of ``engine``; with None, as after
    a power failure, no connection is closed and no server is told."""
    world.crash()
    host.is_down = True
    if engine is not None:
        engine.close_nowait()


def ways(sources: Iterable[str], targets: Iterable[str]) -> list[Way]:
    """Return the directions from each source to each target."""
    ends = list(targets)
    return [(source, target) for source in sources for target in ends]
