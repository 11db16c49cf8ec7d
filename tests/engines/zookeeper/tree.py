"""Where a lock is in the tree of nodes, and ways to it that can be cut."""

from __future__ import annotations

from typing import Any

from kazoo.exceptions import NoNodeError

from tests.servers.proxy import Proxy


def through(proxy: Proxy, url: str) -> str:
    """The same root, by way of a proxy."""
    return f"zookeeper://{proxy.address}/{url.rpartition('/')[2]}"


def folder(url: str, name: str) -> str:
    return f"/{url.rpartition('/')[2]}/{name}"


def contenders(kazoo: Any, url: str, name: str) -> list[str]:
    """Who holds a name or wants it. The server removes a folder that is empty, when it likes."""
    try:
        return list(kazoo.get_children(folder(url, name)))
    except NoNodeError:
        return []
