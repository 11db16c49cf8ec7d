"""The interface of a simulated backend: its servers, the engines for them, the state of the lock.

The engines are the package's own, unchanged; only the servers are simulated. The linearizable
store is in `store.py`; the tests add one Redis and several under Redlock.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

from ..engine import Engine
from .network import Host, Network
from .world import SimWorld


class Held(NamedTuple):
    """A server's record of one of several holders of a name."""

    units: int
    slot: int | None
    until: float
    """When it expires, in the time of the simulation, unless it is changed."""


class Backend(ABC):
    """The servers of one run, and the engines that reach them."""

    fifo = True
    is_tiered = False
    """Whether its servers reach each other, and can be cut off from each other."""
    detection_bound_s = 1.0
    """Seconds within which a waiter finds a lock that came free without a notification."""

    def __init__(
        self,
        network: Network,
        request_timeout: float,
        kind: str = "lock",
        name: str = "seat",
        hosts: list[Any] | None = None,
    ) -> None:
        self.network = network
        self.request_timeout = request_timeout
        """Seconds that a client waits for a reply."""
        self.kind = kind
        """The kind of the name that is observed: a lock, a semaphore or a rwlock."""
        self.name = name
        self.hosts: list[Any] = self._hosts() if hosts is None else hosts
        """The servers, which can be frozen, restarted and cut off."""

    @abstractmethod
    def _hosts(self) -> list[Any]:
        """Start the servers."""

    def observing(self, name: str) -> Backend:
        """Return a backend that observes another name in the same servers."""
        return type(self)(self.network, self.request_timeout, self.kind, name, self.hosts)

    @abstractmethod
    def engine(self, world: SimWorld, host: Host) -> Engine:
        """Create an engine for a client."""

    @abstractmethod
    def owners(self) -> list[str]:
        """Return the owner for whom each server keeps the lock now, or an empty string."""

    def holder(self) -> str:
        """Return the owner for whom a majority of servers keeps the lock, or an empty string."""
        (owner,) = self.owners()
        return owner

    def holders(self) -> dict[str, Held]:
        """Return the current records of a name with several holders, by owner, notified or
        claimed."""
        return {}

    def kept_until(self) -> float:
        """Return until when the lock is kept for its holder, unless changed; 0 if unknown."""
        return 0.0

    @abstractmethod
    def queue(self) -> Sequence[str]:
        """Return the owners in the queue."""

    @abstractmethod
    def revoked(self) -> Collection[str]:
        """Return the owners whose lease was revoked."""

    def owner(self, owner: str) -> str:
        """Return the name by which the servers know a client's owner."""
        return owner

    def watch(self, changed: Callable[[], object]) -> None:
        """Call a function whenever a server has served a request that may have changed its data."""
        for host in self.hosts:
            host.watchers.append(changed)
