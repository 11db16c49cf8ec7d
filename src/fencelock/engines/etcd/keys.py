"""Make the keys and values of contenders, and read them. Nothing is sent from here.

A contender's key is ``<prefix><name>/<lease in hex>``, as in the recipe, and ``…-1``, ``…-2`` for
further contenders of the same client. Keys are used again: etcd keeps a deleted key in its index
until the history is compacted, and a name under which every grant had left one would get slower
with each. So a key says nothing about who put it; the value does.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ...model import Meta
from .messages import replies
from .prebuilt_txn import KeyTransactions, NameRequests

KEPT_MAX = 256


class Keys:
    """The keys of one client, and the requests encoded for those in use."""

    def __init__(self, prefix: bytes) -> None:
        self.prefix = prefix
        self._requests: dict[str, NameRequests] = {}
        self._transactions: dict[tuple[bytes, int], KeyTransactions] = {}

    def requests(self, name: str) -> NameRequests:
        """Return the requests about a name."""
        found = self._requests.get(name)
        if found is None:
            if len(self._requests) >= KEPT_MAX:
                self._requests.clear()
            found = self._requests[name] = NameRequests.of(self.prefix + name.encode())
        return found

    def transactions(self, name: str, key: bytes, lease: int) -> KeyTransactions:
        """Return the transactions with this key on this lease."""
        found = self._transactions.get((key, lease))
        if found is None:
            if len(self._transactions) >= KEPT_MAX:
                self._transactions.clear()
            found = self._transactions[key, lease] = KeyTransactions(
                self.requests(name), key, lease
            )
        return found

    def contenders(self, name: str, pairs: Sequence[replies.KeyValue]) -> list[replies.KeyValue]:
        """Who wants this name, first come first.

        Names keep their slashes, so ``a/b`` begins with ``a/``: its keys have one slash more.
        """
        start = len(self.requests(name).lower)
        direct = [pair for pair in pairs if b"/" not in pair.key[start:]]
        return sorted(direct, key=lambda pair: pair.created)

    def name_of(self, pair: replies.KeyValue) -> str | None:
        """The name that a key contends for, or None when it is no lock's: etcd has other users."""
        name, slash, tail = pair.key[len(self.prefix) :].rpartition(b"/")
        theirs = tail == f"{pair.lease:x}".encode()
        if not (slash and name and pair.lease and (theirs or owner_of(pair.value))):
            return None
        return name.decode(errors="replace")

    def revocation(self, owner: str) -> bytes:
        """The key of the reason for a revocation: no name of a lock begins with a zero byte."""
        return self.prefix + b"\0revoked/" + owner.encode()


def value_of(owner: str, since_us: int, meta: str) -> bytes:
    """What a contender of ours says of itself."""
    return f'{{"owner":"{owner}","since_us":{since_us},"meta":{meta}}}'.encode()


def read(value: bytes) -> dict[str, Any]:
    """What a contender says of itself; those of other languages say nothing that we know."""
    try:
        said = json.loads(value)
        if isinstance(said, dict) and {"owner", "since_us", "meta"} <= said.keys():
            return said  # pyright: ignore[reportUnknownVariableType]
    except ValueError:
        pass
    return {"owner": "", "since_us": None, "meta": {}}


def owner_of(value: bytes) -> str:
    return str(read(value)["owner"])


def meta_text(value: bytes) -> str:
    return json.dumps(read(value)["meta"])


def age_and_meta(value: bytes, wall_us: int) -> tuple[float, Meta]:
    said = read(value)
    since = said["since_us"]
    age = max(0.0, (wall_us - since) / 1e6) if isinstance(since, int) else 0.0
    meta: Meta = said["meta"]
    return age, meta
