"""The guard of an HTTP service: middleware that refuses requests with a stale fence.

``FencingMiddleware`` of ``fencelock.guards.http.asgi`` and of ``fencelock.guards.http.wsgi`` wraps
an application. A client sends its fence in the header ``Fencing-Token``: ``fencing_headers`` makes
it; ``httpx_auth`` and ``RequestsAuth`` also raise StaleFence for a refusal.
"""

from __future__ import annotations

from .client import RequestsAuth, fencing_headers, httpx_auth, raise_if_stale
from .marks import AsyncMarks, Marks, MemoryMarks
from .sql_marks import SqlMarks

__all__ = [
    "AsyncMarks",
    "Marks",
    "MemoryMarks",
    "RequestsAuth",
    "SqlMarks",
    "fencing_headers",
    "httpx_auth",
    "raise_if_stale",
]
