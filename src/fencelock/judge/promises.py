"""Name the promises that a run is judged by, and the bounds within which they are kept."""

from __future__ import annotations

from typing import NamedTuple


class Promises(NamedTuple):
    """A bound of None means that this is not judged."""

    exclusive: bool = True
    """Never two holders, nor more than there are units, nor one beside a writer. Engines that end
    leases by a clock that may step promise less."""
    fence: bool = True
    """Fences strictly grow."""
    fifo: bool = False
    """A waiter that is never disturbed is overtaken by nobody."""
    forsakes: bool = False
    """But a client that let a lease end without a word may lose its entries in the queue."""
    guarded: bool = True
    """The resource refuses old fences, so that no acknowledged update is lost."""
    once: bool = True
    """Work that was done is remembered for its window, and no other is: where clocks are apart by
    less than a window, and nothing that was remembered is lost."""
    remembers: bool = True
    """What a barrier or a latch has remembered is not lost."""
    ttl: float = 0.0
    """The longest time for which the engine keeps a lock for a client that sends nothing."""
    slack: float = 0.0
    """Seconds by which the observer may have seen things too late."""
    told_within: float | None = None
    """A holder that runs learns of its loss so soon after the engine has given the lock away."""
    told_ttls: float = 0.0
    """And so many ttls of its lease later, where the engine may take a lease away early."""
    woken_within: float | None = None
    """A waiter gets a lock that is free so soon."""
    freed_within: float | None = None
    """The lock can be acquired so soon after the last request of its last holder."""
    grace: float | None = None
    """A call ends so soon after its caller's deadline or its cancellation."""
    undone_within: float | None = None
    """What is said not to have happened has not, or is undone so soon: a request may overtake the
    one that takes it back."""
