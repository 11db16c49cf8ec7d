"""The guard of files: they are replaced as a whole, and the mark is in a file beside them.

``guarded_replace(path, data, lease)`` and ``guarded_open(path, mode, lease)`` are what most
programs need; ``FileGuard(path)`` has the rest. Readers see the old content or the new, never a mix
of both, with or without the guard.

The guarantee holds between processes of one machine: the mark is read and raised under a lock of
the kernel (``flock``), and so is the replacement. On a network file system, see its manual for
whether such locks work across machines.
"""

from __future__ import annotations

from .guard import FileGuard, forget, guarded_open, guarded_replace

__all__ = ["FileGuard", "forget", "guarded_open", "guarded_replace"]
