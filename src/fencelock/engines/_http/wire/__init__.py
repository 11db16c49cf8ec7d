"""The connections of one client: the code with bytes and sockets.

``http1.py`` encodes requests and decodes responses. Each flavor has one class of connection, for
one caller at a time (``connection_threads.py``, ``connection_aio.py``); ``pool.py`` keeps a few of
them for each node.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from .connection import Connect

if TYPE_CHECKING:
    from ....world import World


def _threads() -> Connect:
    from .connection_threads import connect_threads

    return connect_threads


def _aio() -> Connect:
    from .connection_aio import connect_aio

    return connect_aio


CONNECTS: dict[str, Callable[[], Connect]] = {"threads": _threads, "asyncio": _aio}
"""The connect functions, by flavor."""


def connect_in(world: World) -> Connect:
    """Return the connect function of this world's flavor."""
    return CONNECTS[world.flavor]()
