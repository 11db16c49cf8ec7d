"""A guard for nodes of ZooKeeper, over the kazoo client that the program has.

    guard = ZooKeeperGuard(zk)
    with client.lock("config") as lease:
        found = guard.enter(lease, "/config")           # raises the mark, and reads
        guard.set("/config", change(found["/config"]), lease)

The mark of a name is the data of a node of its own. Every guarded operation writes that node, on
the condition that it still has the version that was read, in one transaction with the caller's
operations. So any change between the read and the transaction makes the transaction fail, and it is
retried: no fence is compared with an old mark, and no older holder changes what was read.

A leading 0 says that the highest mark is a reader's. The mark of the writers is then in a second
node, which only readers write, in one transaction with the first: a program that knows no readers
does not need it, and writes the first without the 0.

kazoo is for threads. In asyncio, call the guard through ``asyncio.to_thread``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import quote

from ..errors import Denied, EngineError, OutcomeUnknown, Unavailable, UsageError
from .fence import Claim, Fenced, MarkPair, check_age, claim, crowded_out

__all__ = ["ROOT", "ZooKeeperGuard"]

ROOT = "/fencelock/marks"
ATTEMPTS_MAX = 200  # each that fails is another's success

# kazoo's errors are recognized by their names, so that this module does not import it.
_NO_ANSWER = {
    "ConnectionClosedError",
    "ConnectionLoss",
    "KazooTimeoutError",
    "OperationTimeoutError",
    "SessionExpiredError",
    "TimeoutError",
}
_FOLLOWS = {"RolledBackError", "RuntimeInconsistency"}  # caused by another operation's failure


class _Seen(NamedTuple):
    """A mark, as read; without a version if its node does not exist."""

    mark: int = 0
    version: int | None = None
    of_reader: bool = False


class ZooKeeperGuard:
    """Reads and writes nodes for the holder with the highest fence.

    ``client`` is a started KazooClient, which the caller owns. ``root`` is the parent node of the
    marks; ``request_timeout`` is how many seconds a reply may take.
    """

    def __init__(
        self, client: Any, root: str = ROOT, *, epoch: int = 0, request_timeout: float = 10.0
    ) -> None:
        claim(1, "any", epoch)  # raises if the epoch is invalid
        if not hasattr(client, "transaction"):
            raise UsageError(f"this guard takes a started KazooClient, not {client!r:.200}")
        if not root.startswith("/") or root == "/":
            raise UsageError(f"the marks need a path of their own, such as {ROOT}, not {root!r}")
        self.root = root.rstrip("/")
        self._written_root = f"{self.root}-written"
        self.epoch = epoch
        self._client = client
        self._request_timeout = request_timeout

    def enter(
        self, lease: Fenced | int, *paths: str, name: str | None = None, reading: bool = False
    ) -> dict[str, bytes | None]:
        """Raise the mark and read nodes in one step, at the start of a tenure.

        Return the data of each path; None if there is no node. ``reading`` says of a bare fence
        that it is a read lock's; a lease says so itself.
        """
        found: dict[str, bytes | None] = {}

        def read(_: object) -> None:
            found.update({path: (self._read(path) or (None,))[0] for path in paths})

        self.commit(read, lease, name=name, reading=reading)
        return found

    def set(self, path: str, data: bytes, lease: Fenced | int, *, name: str | None = None) -> None:
        """Write an existing node, or raise StaleFence."""
        self.commit(lambda transaction: transaction.set_data(path, data), lease, name=name)

    def create(
        self, path: str, data: bytes, lease: Fenced | int, *, name: str | None = None
    ) -> None:
        """Create a node, or raise StaleFence."""
        self.commit(lambda transaction: transaction.create(path, data), lease, name=name)

    def delete(self, path: str, lease: Fenced | int, *, name: str | None = None) -> None:
        """Delete a node, or raise StaleFence. The mark stays."""
        self.commit(lambda transaction: transaction.delete(path), lease, name=name)

    def commit(
        self,
        fill: Callable[[Any], object],
        lease: Fenced | int,
        *,
        name: str | None = None,
        reading: bool = False,
    ) -> Sequence[Any]:
        """Commit what ``fill`` adds to a kazoo transaction, and return its results; or StaleFence.

        ``fill`` may be called again, with a new transaction, and must read what it needs each time.
        If ZooKeeper refuses one of its operations, kazoo's own error for that is raised, and
        nothing was done. OutcomeUnknown: it may have been done. For a reader it must add only
        version checks.
        """
        wanted = claim(lease, name, self.epoch, reading, "zookeeper")
        for _ in range(ATTEMPTS_MAX):
            transaction = self._begin_reading(wanted) if wanted.reading else self._begin(wanted)
            ours = len(transaction.operations)
            fill(transaction)
            if any(
                _name(operation) != "CheckVersion" for operation in transaction.operations[ours:]
            ):
                wanted.to_write()
            results: list[Any] = self._ask(transaction.commit_async, changes=True)
            mine, theirs = results[:ours], results[ours:]
            if not any(isinstance(result, Exception) for result in mine):
                return theirs
            _raise_what_failed(mine, theirs)
        raise crowded_out("mark", wanted.name, ATTEMPTS_MAX)

    def mark(self, name: str, *, reading: bool = False) -> int:
        """Return the mark of a name, in epoch 0 the highest fence seen; 0 if there is none.

        With ``reading``, the mark of the writers, which a reader must not be below.
        """
        self._ask(lambda: self._client.sync_async(self.root), changes=False)
        seen = self._look(self._path(name))
        return self._pair(name, seen)[0].of(reading) if reading else seen.mark

    def reset(self, name: str, to: int = 0) -> None:
        """Set the mark of a name, even to a smaller fence than it has seen; 0 removes it.

        For a name that has moved to another engine. Holders of a lease of the old engine are
        accepted again: stop them first, or give all guards a new epoch instead.
        """
        path = self._path(name)
        if not to:
            self._remove(path, -1)
            self._remove(self._path(name, self._written_root), -1)
            return
        data = _written(claim(to, name, self.epoch).mark)
        if self._if_there(partial(self._client.set_async, value=data), path, changes=True) is None:
            self._ask(lambda: self._client.create_async(path, data, makepath=True), changes=True)

    def forget(self, older_than_seconds: float) -> int:
        """Remove the marks that were not raised for so many seconds; return how many.

        A holder that was frozen for longer than that is then accepted again. The times of nodes are
        of ZooKeeper's clock, and are compared with ours. Call it rarely, with days, not minutes.
        """
        before_ms = (time.time() - check_age(older_than_seconds)) * 1000
        count = 0
        for child in self._children():
            found = self._read(f"{self.root}/{child}")
            if found is not None and found[1].mtime < before_ms:
                count += self._remove(f"{self.root}/{child}", found[1].version)
                self._remove(f"{self._written_root}/{child}", -1)  # useless without the other
        return count

    def _begin(self, wanted: Claim) -> Any:
        """Begin a transaction that raises the mark, on condition that it is the one read here."""
        path = self._path(wanted.name)
        seen = self._look(path)
        if seen.mark > wanted.mark:
            raise wanted.stale(seen.mark, "read" if seen.of_reader else "write")
        transaction = self._client.transaction()
        self._write(transaction, path, _written(wanted.mark), seen.version)
        return transaction

    def _begin_reading(self, wanted: Claim) -> Any:
        """Begin the same for a reader, which keeps the mark of the writers in the second node."""
        path, second = self._path(wanted.name), self._path(wanted.name, self._written_root)
        seen = self._look(path)
        marks, version = self._pair(wanted.name, seen)
        after = marks.admit(wanted)
        transaction = self._client.transaction()
        if after == marks and seen.version is not None:
            transaction.check(path, seen.version)  # so that readers do not conflict
            return transaction
        zero = b"0" * (after.highest > after.written)
        self._write(transaction, path, zero + _written(after.highest), seen.version)
        self._write(transaction, second, _written(after.written), version)
        return transaction

    def _write(self, transaction: Any, path: str, data: bytes, version: int | None) -> None:
        """Add a write of a node that has this version, or a create if there is none."""
        if version is not None:
            transaction.set_data(path, data, version)
            return
        folder = path.rpartition("/")[0]
        self._ask(lambda: self._client.ensure_path_async(folder), changes=False)
        transaction.create(path, data)

    def _pair(self, name: str, seen: _Seen) -> tuple[MarkPair, int | None]:
        """Return both marks and the second node's version; without that, both are the highest."""
        found = self._look(self._path(name, self._written_root))
        known = seen.of_reader and found.version is not None
        return MarkPair(seen.mark, found.mark if known else seen.mark), found.version

    def _path(self, name: str, root: str = "") -> str:
        checked = claim(1, name).name
        try:
            node = quote(checked, safe="")
        except UnicodeEncodeError as error:
            raise UsageError(
                f"what is guarded has a name of valid Unicode, not {name!r}"
            ) from error
        return f"{root or self.root}/{node if node.strip('.') else node.replace('.', '%2E')}"

    def _look(self, path: str) -> _Seen:
        found = self._read(path)
        if found is None:
            return _Seen()
        data, stat = found
        if not data.isdigit():
            raise EngineError(
                f"{path} holds {data!r}, which no guard wrote; nothing was done: remove that node, "
                "or give the guard a root of its own"
            )
        return _Seen(int(data), stat.version, data.startswith(b"0") and int(data) > 0)

    def _read(self, path: str) -> tuple[bytes, Any] | None:
        found: tuple[bytes, Any] | None = self._if_there(self._client.get_async, path)
        return found

    def _children(self) -> Sequence[str]:
        return self._if_there(self._client.get_children_async, self.root) or ()

    def _remove(self, path: str, version: int) -> bool:
        """Delete a node; return whether it existed, in that version."""
        try:
            self._ask(lambda: self._client.delete_async(path, version), changes=True)
        except Exception as error:
            if _name(error) in {"NoNodeError", "BadVersionError"}:
                return False
            raise
        return True

    def _if_there(self, call: Callable[[str], Any], path: str, *, changes: bool = False) -> Any:
        """Return the reply, or None if there is no such node."""
        try:
            return self._ask(lambda: call(path), changes=changes)
        except Exception as error:
            if _name(error) == "NoNodeError":
                return None
            raise

    def _ask(self, send: Callable[[], Any], *, changes: bool) -> Any:
        """Send a request and return its reply; map the errors without a reply to ours."""
        if not self._client.connected:
            raise Unavailable("kazoo is not connected to ZooKeeper, so nothing was done")
        try:
            return send().get(timeout=self._request_timeout)
        except Exception as error:
            if _name(error) == "NoAuthError":
                raise Denied("ZooKeeper refused access, so nothing was done") from error
            if _name(error) not in _NO_ANSWER:
                raise
            if changes:
                raise OutcomeUnknown(
                    f"ZooKeeper did not answer ({error!r}): the change may have taken effect; read "
                    "before you repeat it"
                ) from error
            raise Unavailable(f"ZooKeeper did not answer ({error!r}); nothing was done") from error


def _raise_what_failed(mine: Sequence[object], theirs: Sequence[object]) -> None:
    """Raise the error of the caller's own operations; return if only the mark had changed."""
    for error in theirs:
        if isinstance(error, Exception) and _name(error) not in _FOLLOWS:
            raise error
    for error in mine:
        if isinstance(error, Exception) and _name(error) == "NoAuthError":
            raise Denied("ZooKeeper does not let us write the mark, so nothing was done") from error


def _name(error: object) -> str:
    return type(error).__name__


def _written(mark: int) -> bytes:
    return str(mark).encode()
