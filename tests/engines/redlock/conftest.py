"""Nodes of the test's own, to be killed, frozen, emptied and cut off."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import NamedTuple

import pytest

from tests.faults.flavors import FLAVORS, Lab
from tests.servers.proxy import Proxy
from tests.servers.redlock import Nodes, redlock

QUIET = 0.2  # seconds without a request


@pytest.fixture(params=FLAVORS)
def flavor(request: pytest.FixtureRequest) -> str:
    """Threads or asyncio."""
    return str(request.param)


@pytest.fixture
def nodes() -> Iterator[Nodes]:
    """Three servers that keep nothing on disk."""
    with Nodes() as nodes:
        yield nodes


class Network(NamedTuple):
    """The same three, each behind a proxy."""

    nodes: Nodes
    proxies: Sequence[Proxy]

    @property
    def url(self) -> str:
        return redlock(*(proxy.address for proxy in self.proxies))

    async def count_from_now(self, lab: Lab) -> None:
        """Count anew, once nothing more comes: the last node's share is sent when it may."""
        before: list[int] = []
        while self.requests != before:
            before = self.requests
            await lab.let_pass(QUIET)
        for proxy in self.proxies:
            proxy.count_from_now()

    @property
    def requests(self) -> list[int]:
        return [proxy.requests for proxy in self.proxies]


@pytest.fixture
def network(nodes: Nodes) -> Iterator[Network]:
    with ExitStack() as stack:
        yield Network(nodes, [stack.enter_context(Proxy(node.port)) for node in nodes.nodes])
