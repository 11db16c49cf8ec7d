"""The floor for Firestore: create and delete a document by hand, with Google's own client.

No renewal, no waiting, no dead holders, no errors handled: what anybody would write first.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

from bench.contestant import Lock, Session
from bench.firestore_server import OnFirestore

FIELDS = {"owner": "0123456789abcdef0123456789abcdef", "ttl": 30.0}


class RawFirestore(OnFirestore):
    """One create, and one delete with the time of that update as its condition."""

    name = "firestore create by hand"
    works = frozenset({"pair"})
    yardstick = works
    needs = ("google.cloud.firestore",)

    def connect(self, *, traced: bool = False) -> Session:
        return _Session(self.place)


class _Session(Session):
    def __init__(self, address: str) -> None:
        os.environ["FIRESTORE_EMULATOR_HOST"] = address
        firestore: Any = import_module("google.cloud.firestore")
        self._client = firestore.Client(project="bench")

    def lock(self, name: str) -> Lock:
        return _Document(self._client, self._client.collection("by-hand").document(name))

    def close(self) -> None:
        self._client.close()


class _Document(Lock):
    def __init__(self, client: Any, document: Any) -> None:
        self._client = client
        self._document = document
        self._option: Any = None

    def acquire(self) -> int:
        done = self._document.create(FIELDS, retry=None, timeout=5.0)
        self._option = self._client.write_option(last_update_time=done.update_time)
        return int(done.update_time.timestamp() * 1e6)

    def release(self) -> None:
        self._document.delete(self._option, retry=None, timeout=5.0)
