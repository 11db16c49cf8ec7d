"""A guard for keys in etcd: the mark is compared in the transaction that writes them.

    guard = EtcdGuard("http://127.0.0.1:2379")
    with client.lock("config") as lease:
        found = guard.enter(lease, "config/a")          # raises the mark, and reads
        guard.put("config/a", change(found["config/a"]), lease)

It needs no client of etcd, only the JSON gateway that every member has. To send the same
transaction with a client of your own, take it from ``guarded``. When the lock is kept by the
same etcd, ``fencelock.etcd.compare(lease)`` is simpler still and needs no mark.
"""

from __future__ import annotations

from .guard import AsyncEtcdGuard, EtcdGuard
from .transaction import Operation, delete, get, guarded, put

__all__ = ["AsyncEtcdGuard", "EtcdGuard", "Operation", "delete", "get", "guarded", "put"]
