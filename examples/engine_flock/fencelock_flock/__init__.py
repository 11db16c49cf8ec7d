"""Locks in one JSON file, for the processes of one machine: an engine to learn from.

It passes every conformance check that its traits promise, under threads and in asyncio. For real
work take ``sqlite://``, which does the same faster, wakes its waiters and refuses network file
systems.

``engine.py`` is the recipe, ``file.py`` all that touches the machine.
"""

from .engine import FlockEngine

__all__ = ["FlockEngine"]
