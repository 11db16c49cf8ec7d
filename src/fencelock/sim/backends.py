"""What every simulated backend can tell: its servers, the engines that reach them, what is kept.

The engines are the package's own, unchanged; only what they reach is simulated. The linearizable
store is in `store.py`, one Redis and several under Redlock are in `redis.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

from ..engine import Engine
from .network import Host, Network
from .world import SimWorld


class Held(NamedTuple):
    """What a server keeps for one of several holders of a name."""

    units: int
    slot: int | None
    until: float
    """Until when, in the time of the simulation, unless that is changed."""


class Backend(ABC):
    """The servers of one run, and the engines that reach them."""

    fifo = True
    is_tiered = False
    """Whether its servers reach each other, and can be cut off from each other."""
    looks_within = 1.0
    """How soon a waiter finds a lock that came free without a word."""

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
        """How long a client waits for an answer."""
        self.kind = kind
        """What is looked at: a lock, a semaphore or a rwlock."""
        self.name = name
        self.hosts: list[Any] = self._hosts() if hosts is None else hosts
        """What can be frozen, restarted and cut off."""

    @abstractmethod
    def _hosts(self) -> list[Any]:
        """Start the servers."""

    def besides(self, name: str) -> Backend:
        """The same servers, for whoever looks at another name."""
        return type(self)(self.network, self.request_timeout, self.kind, name, self.hosts)

    @abstractmethod
    def engine(self, world: SimWorld, host: Host) -> Engine:
        """A new engine for a client."""

    @abstractmethod
    def owners(self) -> list[str]:
        """For whom each server keeps the lock at this moment, or nothing."""

    def holder(self) -> str:
        """The owner that a majority of the servers keeps the lock for, or nothing."""
        (owner,) = self.owners()
        return owner

    def holders(self) -> dict[str, Held]:
        """For whom a name of several holders is kept at this moment, notified or claimed."""
        return {}

    def kept_until(self) -> float:
        """Until when the lock is kept for its holder, unless that is changed; 0 if that cannot be
        told."""
        return 0.0

    @abstractmethod
    def queue(self) -> Sequence[str]:
        """The owners in the queue."""

    @abstractmethod
    def revoked(self) -> Collection[str]:
        """Owners from whom somebody took the lock away."""

    def owner(self, owner: str) -> str:
        """By what the servers know an owner of a client."""
        return owner

    def watch(self, changed: Callable[[], object]) -> None:
        """Have this called whenever a server has served something that may have changed what it
        keeps."""
        for host in self.hosts:
            host.watchers.append(changed)
