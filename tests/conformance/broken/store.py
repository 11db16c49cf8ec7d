"""What the broken engines change behind the back of the one that they are made of."""

from __future__ import annotations

from fencelock.engines.memory import Store
from fencelock.engines.units import Name, Record, Waiter


def mutex_of(store: Store, name: str) -> Name | None:
    """The mutex of a name, while it is in use."""
    return store.names.get(("lock", name))


def record_of(store: Store, name: str) -> Record | None:
    """The record of its holder."""
    mutex = mutex_of(store, name)
    return None if mutex is None else next(iter(mutex.records.values()), None)


def queue_of(store: Store, name: str) -> dict[str, Waiter]:
    """Its queue, which may be changed."""
    mutex = mutex_of(store, name)
    return {} if mutex is None else mutex.queue
