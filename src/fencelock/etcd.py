"""Guard writes to etcd with a lease, in the same transaction.

    comparison = fencelock.etcd.compare(lease)

A transaction that has this comparison among its conditions takes effect only while the lease's key
is there with the create revision of its grant: etcd itself refuses what comes too late, and no
other guard is needed. Whatever client the transaction is sent with, it can be written for it: as a
key and a create revision, as the bytes of an ``etcdserverpb.Compare``, or for etcd's JSON gateway.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from .errors import UsageError

if TYPE_CHECKING:
    from . import aio, sync

__all__ = ["Comparison", "compare"]


class Comparison(NamedTuple):
    """True in etcd for as long as a hold lasts: its key has the create revision of its grant."""

    key: bytes
    create_revision: int
    message: bytes
    """A serialized ``etcdserverpb.Compare``, for any stubs: ``Compare.FromString(message)``."""

    def __bytes__(self) -> bytes:
        return self.message

    def json(self) -> dict[str, str]:
        """As a member of ``compare`` in a transaction of the JSON gateway."""
        from base64 import b64encode

        return {
            "result": "EQUAL",
            "target": "CREATE",
            "key": b64encode(self.key).decode(),
            "create_revision": str(self.create_revision),
        }


def compare(lease: sync.Lease | aio.Lease) -> Comparison:
    """The condition under which a transaction of your own may take effect.

    Raise UsageError for a lease that is not etcd's, and LeaseLost for one that is over.
    """
    core, hold = lease._core, lease._hold  # pyright: ignore[reportPrivateUsage]
    made: Any = getattr(core.engine, "comparison", None)
    if made is None:
        raise UsageError(
            f"this lease is held in {core.engine.address.public}, and only one of etcd can be "
            "compared in a transaction of etcd"
        )
    lease.check()
    key, revision, message = made(hold.grant)
    return Comparison(key, revision, message)
