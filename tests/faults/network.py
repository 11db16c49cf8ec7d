"""A network that can be broken between a client and its server."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from tests.servers.proxy import Proxy


class Network(NamedTuple):
    """Two ways to one store."""

    url: str
    """Through the proxy."""
    direct: str
    proxy: Proxy


@contextmanager
def through_a_proxy(server_url: str) -> Iterator[Network]:
    """Put a proxy before the server of a URL."""
    found = re.search(r"127\.0\.0\.1:(\d+)", server_url)
    assert found is not None, f"{server_url} does not say where the server is"
    with Proxy(int(found[1])) as proxy:
        yield Network(server_url.replace(found[0], proxy.address, 1), server_url, proxy)
