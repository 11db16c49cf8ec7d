"""The etcd guard of both flavors: each operation is one transaction over the JSON gateway."""

from __future__ import annotations

import ssl
import time
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias, TypeVar

from ...errors import OutcomeUnknown, Unavailable, UsageError
from ..fence import Claim, Fenced, check_age, claim, crowded_out
from ..runner import run, run_async
from .gateway import Gateway
from .transaction import (
    PREFIX,
    Json,
    Operation,
    delete,
    get,
    guarded,
    is_last,
    look,
    mark_key,
    page,
    put,
    read_only,
    removals,
    seen,
    setting,
    values,
)

__all__ = ["AsyncEtcdGuard", "EtcdGuard"]

T = TypeVar("T")

ATTEMPTS_MAX = 200  # each that fails is another's success

_TXN = "/v3/kv/txn"
_RANGE = "/v3/kv/range"


class _Request(NamedTuple):
    """A POST to the JSON gateway."""

    path: str
    body: Json


_Steps: TypeAlias = Generator[_Request, Json, T]


class _EtcdGuardBase:
    """What both flavors share: the requests of each operation, and how their replies are read."""

    def __init__(self, prefix: str, epoch: int) -> None:
        claim(1, "any", epoch)  # raises if the epoch is invalid
        if not prefix:
            raise UsageError("the keys of the marks need a prefix, to tell them from your own")
        self.prefix = prefix
        self.epoch = epoch

    def _commit(
        self, operations: Iterable[Operation], lease: Fenced | int, name: str | None, reads: bool
    ) -> _Steps[Sequence[Json]]:
        wanted = claim(lease, name, self.epoch, reads, "etcd")
        if wanted.reading:
            return (yield from self._read(tuple(operations), wanted))
        request = guarded(operations, wanted, prefix=self.prefix, stamp=int(time.time()))
        return request.judge((yield _Request(_TXN, request.json())))

    def _read(self, operations: tuple[Operation, ...], wanted: Claim) -> _Steps[Sequence[Json]]:
        """Read the mark, compare, and run the operations if the mark is unchanged; else repeat."""
        key = self._mark_key(wanted.name)
        for _ in range(ATTEMPTS_MAX):
            looked = yield from _range(look(key))
            request = read_only(operations, key, wanted, int(time.time()), looked)
            reply = yield _Request(_TXN, request)
            if reply.get("succeeded"):
                answers: Sequence[Json] = reply.get("responses", [])
                return answers[: len(operations)]
        raise crowded_out("mark", wanted.name, ATTEMPTS_MAX)

    def _mark(self, name: str, reads: bool) -> _Steps[int]:
        return seen((yield from _range(look(self._mark_key(name))))).of(reads)

    def _reset(self, name: str, to: int) -> _Steps[None]:
        mark = claim(to, name, self.epoch).mark if to else 0
        yield _Request(_TXN, setting(self._mark_key(name), mark, int(time.time())))

    def _forget(self, older_than_seconds: float) -> _Steps[int]:
        before = time.time() - check_age(older_than_seconds)
        count, found = 0, list[Json]()
        while True:
            found = (yield from _range(page(self.prefix, found))).get("kvs", [])
            for removal in removals(found, before):
                count += bool((yield _Request(_TXN, removal)).get("succeeded"))
            if is_last(found):
                return count

    def _mark_key(self, name: str) -> bytes:
        return mark_key(self.prefix, claim(1, name).name)


def _range(body: Json) -> _Steps[Json]:
    """Send a request that only reads: without a reply, nothing has happened."""
    try:
        return (yield _Request(_RANGE, body))
    except OutcomeUnknown as error:
        raise Unavailable(f"etcd did not answer, and nothing was changed: {error}") from error


class EtcdGuard(_EtcdGuardBase):
    """Reads and writes keys of etcd for the holder with the highest fence.

    ``endpoints``: one member or several, ``http://`` or ``https://`` (then with ``context``).
    ``headers``: additional headers, such as ``{"Authorization": token}``. ``send``: instead of all
    these, a function of a path and a body that returns the reply. One guard serves many threads.
    """

    def __init__(
        self,
        endpoints: str | Sequence[str] = "http://127.0.0.1:2379",
        *,
        prefix: str = PREFIX,
        epoch: int = 0,
        timeout: float = 5.0,
        headers: Mapping[str, str] | None = None,
        context: ssl.SSLContext | None = None,
        send: Callable[[str, Json], Json] | None = None,
    ) -> None:
        super().__init__(prefix, epoch)
        self._send: Callable[[str, Json], Json] = send or Gateway(
            endpoints, timeout=timeout, headers=headers or {}, context=context
        )

    def enter(
        self, lease: Fenced | int, *keys: str, name: str | None = None, reading: bool = False
    ) -> dict[str, bytes | None]:
        """Raise the mark and read keys in one step, at the start of a tenure.

        ``reading`` says of a bare fence that it is a read lock's; a lease says so itself.
        """
        gets = [get(key) for key in keys]
        answers = self.commit(gets, lease, name=name, reading=reading)
        return dict(zip(keys, values(answers), strict=True))

    def put(
        self, key: str, value: str | bytes, lease: Fenced | int, *, name: str | None = None
    ) -> None:
        """Write a key, or raise StaleFence."""
        self.commit([put(key, value)], lease, name=name)

    def delete(self, key: str, lease: Fenced | int, *, name: str | None = None) -> None:
        """Delete a key, or raise StaleFence. The mark stays."""
        self.commit([delete(key)], lease, name=name)

    def commit(
        self,
        operations: Iterable[Operation],
        lease: Fenced | int,
        *,
        name: str | None = None,
        reading: bool = False,
    ) -> Sequence[Json]:
        """Run all in one transaction, or raise StaleFence; return etcd's responses in order.

        ``name`` is required for a bare fence. OutcomeUnknown: it may have taken effect. For a
        reader all must be gets.
        """
        return self._run(self._commit(operations, lease, name, reading))

    def mark(self, name: str, *, reading: bool = False) -> int:
        """Return the mark of a name, in epoch 0 the highest fence seen; 0 if there is none.

        With ``reading``, the mark of the writers, which a reader must not be below.
        """
        return self._run(self._mark(name, reading))

    def reset(self, name: str, to: int = 0) -> None:
        """Set the mark of a name, even to a smaller fence than it has seen; 0 removes it.

        For a name that has moved to another engine. Holders of a lease of the old engine are
        accepted again: stop them first, or give all guards a new epoch instead.
        """
        self._run(self._reset(name, to))

    def forget(self, older_than_seconds: float) -> int:
        """Remove the marks that were not raised for so many seconds; return how many.

        A holder that was frozen for longer than that is then accepted again. The times are of the
        writers' clocks. Call it rarely, with days and not minutes.
        """
        return self._run(self._forget(older_than_seconds))

    def _run(self, steps: _Steps[T]) -> T:
        return run(steps, lambda request: self._send(*request))


class AsyncEtcdGuard(_EtcdGuardBase):
    """The same for asyncio: every method is awaited.

    ``send`` is an ``async def`` over your own client. Without it each request is sent in a worker
    thread, by the other arguments.
    """

    def __init__(
        self,
        endpoints: str | Sequence[str] = "http://127.0.0.1:2379",
        *,
        prefix: str = PREFIX,
        epoch: int = 0,
        timeout: float = 5.0,
        headers: Mapping[str, str] | None = None,
        context: ssl.SSLContext | None = None,
        send: Callable[[str, Json], Awaitable[Json]] | None = None,
    ) -> None:
        super().__init__(prefix, epoch)
        gateway = Gateway(endpoints, timeout=timeout, headers=headers or {}, context=context)
        self._send = send or _in_a_thread(gateway)

    async def enter(
        self, lease: Fenced | int, *keys: str, name: str | None = None, reading: bool = False
    ) -> dict[str, bytes | None]:
        """Raise the mark and read keys in one step, at the start of a tenure.

        ``reading`` says of a bare fence that it is a read lock's; a lease says so itself.
        """
        gets = [get(key) for key in keys]
        answers = await self.commit(gets, lease, name=name, reading=reading)
        return dict(zip(keys, values(answers), strict=True))

    async def put(
        self, key: str, value: str | bytes, lease: Fenced | int, *, name: str | None = None
    ) -> None:
        """Write a key, or raise StaleFence."""
        await self.commit([put(key, value)], lease, name=name)

    async def delete(self, key: str, lease: Fenced | int, *, name: str | None = None) -> None:
        """Delete a key, or raise StaleFence. The mark stays."""
        await self.commit([delete(key)], lease, name=name)

    async def commit(
        self,
        operations: Iterable[Operation],
        lease: Fenced | int,
        *,
        name: str | None = None,
        reading: bool = False,
    ) -> Sequence[Json]:
        """Run all in one transaction, or raise StaleFence; return etcd's responses in order.

        ``name`` is required for a bare fence. OutcomeUnknown: it may have taken effect. For a
        reader all must be gets.
        """
        return await self._run(self._commit(operations, lease, name, reading))

    async def mark(self, name: str, *, reading: bool = False) -> int:
        """Return the mark of a name, in epoch 0 the highest fence seen; 0 if there is none.

        With ``reading``, the mark of the writers, which a reader must not be below.
        """
        return await self._run(self._mark(name, reading))

    async def reset(self, name: str, to: int = 0) -> None:
        """Set the mark of a name, even to a smaller fence than it has seen; 0 removes it.

        For a name that has moved to another engine. Holders of a lease of the old engine are
        accepted again: stop them first, or give all guards a new epoch instead.
        """
        await self._run(self._reset(name, to))

    async def forget(self, older_than_seconds: float) -> int:
        """Remove the marks that were not raised for so many seconds; return how many.

        A holder that was frozen for longer than that is then accepted again. The times are of the
        writers' clocks. Call it rarely, with days and not minutes.
        """
        return await self._run(self._forget(older_than_seconds))

    async def _run(self, steps: _Steps[T]) -> T:
        return await run_async(steps, lambda request: self._send(*request))


def _in_a_thread(gateway: Gateway) -> Callable[[str, Json], Awaitable[Json]]:
    from asyncio import to_thread

    async def send(path: str, body: Json) -> Json:
        return await to_thread(gateway, path, body)

    return send
