"""What may befall a simulated process, a server or the network, as single acts.

When each comes, and upon whom, is decided elsewhere: drawn by a test, or written in a document.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..engine import Engine
from .network import Host, Way
from .world import SimWorld


def pause(world: SimWorld, host: Host) -> None:
    """Freeze a process: time goes on, its tasks do not, and what arrives waits."""
    world.pause()
    host.is_paused = True


def resume(world: SimWorld, host: Host) -> None:
    """Let a paused process go on; a crashed one stays as it is."""
    if not world.is_crashed:
        world.resume()
        host.wake()


def crash(world: SimWorld, host: Host, engine: Engine | None) -> None:
    """End a process for ever. Its machine closes the connections of an engine; of none if power
    failed, and nobody is told."""
    world.crash()
    host.is_down = True
    if engine is not None:
        engine.close_nowait()


def ways(sources: Iterable[str], targets: Iterable[str]) -> list[Way]:
    """The ways from each of some hosts to each of others."""
    ends = list(targets)
    return [(source, target) for source in sources for target in ends]
