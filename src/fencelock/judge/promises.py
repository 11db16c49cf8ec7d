"""The promises that a run is judged by, and the bounds within which they are kept."""

from __future__ import annotations

from typing import NamedTuple


class Promises(NamedTuple):
    """Promises that hold or not, and bounds in seconds; a bound of None is not judged."""

    exclusive: bool = True
    """Never two holders of a mutex, more units than the limit, nor a holder beside a writer.
    Engines that end leases by a clock that may step promise less."""
    fence: bool = True
    """Fences strictly grow."""
    fifo: bool = False
    """No waiter is overtaken unless it was disturbed."""
    forsakes: bool = False
    """An exception to ``fifo``: a client that let a lease expire may lose its entries in the
    queue."""
    guarded: bool = True
    """The resource refuses old fences, so that no acknowledged update is lost."""
    once: bool = True
    """Work that was done is remembered for its window, and no other work is: where clocks differ by
    less than a window, and no remembered data is lost."""
    remembers: bool = True
    """What a barrier or a latch has remembered is not lost."""
    ttl: float = 0.0
    """The longest time for which the engine keeps a lock for a client that sends nothing."""
    slack: float = 0.0
    """Seconds by which the observer may have seen events too late."""
    told_within: float | None = None
    """Time after the engine has given the lock away in which a running holder learns of it."""
    told_ttls: float = 0.0
    """Added to ``told_within``, in ttls of the lease: for engines that may end a lease early."""
    woken_within: float | None = None
    """Time in which a waiter gets a lock that is free."""
    freed_within: float | None = None
    """Time after the last request of the last holder in which the lock can be acquired."""
    grace: float | None = None
    """Time after its caller's deadline or its cancellation in which a call ends."""
    undone_within: float | None = None
    """Time in which something that a call said had not happened is undone, if it did happen: the
    request may arrive after the one that undoes it."""
