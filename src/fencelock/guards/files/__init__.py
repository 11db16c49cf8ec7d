"""The guard of files: they are replaced whole, and the mark lies beside them.

``guarded_replace(path, data, lease)`` and ``guarded_open(path, mode, lease)`` are what most
programs need; ``FileGuard(path)`` has the rest. Readers see the old content or the new, never a
part of both, whether they know of the guard or not.

What is promised holds between processes of one machine: the mark is read and raised under a lock of
the kernel (``flock``), and so is the replacement. On a network file system ask its manual whether
such locks reach other machines.
"""

from __future__ import annotations

from .guard import FileGuard, forget, guarded_open, guarded_replace

__all__ = ["FileGuard", "forget", "guarded_open", "guarded_replace"]
