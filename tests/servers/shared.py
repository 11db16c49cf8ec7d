"""Servers that many tests share: started when first asked for, stopped when the tests end.

Each process of a parallel run has its own. A test that stops, freezes or breaks a server starts one
of its own instead.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable
from typing import TypeVar

from tests.servers.group import Group
from tests.servers.server import Server

S = TypeVar("S", bound=Server | Group)

_running: dict[object, Server | Group] = {}
_PID = os.getpid()


def shared(make: Callable[[], S]) -> S:
    """The one server that this function makes."""
    found = _running.get(make)
    if found is None:
        found = make()
        found.__enter__()
        _running[make] = found
    return found  # type: ignore[return-value]  # what `make` made, under its own key


def stop_all() -> None:
    """Stop every shared server that this process has started: a forked child has started none."""
    while _running and os.getpid() == _PID:
        _, server = _running.popitem()
        server.close()


atexit.register(stop_all)
