"""The S3 guard of both flavors: each method runs the steps of one operation."""

from __future__ import annotations

from typing import Any, TypeVar

from ...errors import UsageError
from ..aws import watch, watched
from ..fence import Claim, Fenced, check_age, claim
from ..runner import run, run_async
from . import operations
from .operations import Call, Pause, Steps

__all__ = ["AsyncS3Guard", "S3Guard"]

T = TypeVar("T")


class _S3GuardBase:
    """What both flavors share: the steps of each operation, and their arguments."""

    def __init__(self, client: Any, bucket: str, *, epoch: int = 0) -> None:
        claim(1, "any", epoch)  # raises if the epoch is invalid
        self.bucket = bucket
        self.epoch = epoch
        self._client = client
        watch(client)

    def _claim(self, lease: Fenced | int, name: str | None, reading: bool = False) -> Claim:
        return claim(lease, name, self.epoch, reading, "s3")

    def _putting(self, key: str, data: bytes, wanted: Claim, more: dict[str, Any]) -> Steps[None]:
        if not isinstance(data, bytes | bytearray):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UsageError(f"an object's data is bytes, not {type(data).__name__}")
        return operations.put(key, bytes(data), wanted.to_write(), more)

    def _resetting(self, key: str, to: int) -> Steps[None]:
        return operations.reset(key, claim(to, "any", self.epoch).mark if to else 0)

    def _forgetting(self, older_than_seconds: float, prefix: str) -> Steps[int]:
        return operations.forget(prefix, operations.old(check_age(older_than_seconds)))

    @property
    def _where(self) -> str:
        return f"the bucket {self.bucket!r}"


class S3Guard(_S3GuardBase):
    """Reads and writes objects of a bucket for the holder with the highest fence.

    ``client`` is boto3's client of S3, for any store that speaks its protocol.
    """

    def enter(
        self, key: str, lease: Fenced | int, *, name: str | None = None, reading: bool = False
    ) -> bytes | None:
        """Raise the mark and read the data in one step, at the start of a tenure.

        The object is rewritten for that, with the same data. None: there is no data, and only the
        mark was written. ``reading`` says of a bare fence that it is a read lock's; a lease says so
        itself.
        """
        return self._do(operations.enter(key, self._claim(lease, name, reading)))

    def put(
        self, key: str, data: bytes, lease: Fenced | int, *, name: str | None = None, **more: Any
    ) -> None:
        """Write the data, or raise StaleFence. ``more`` is as for ``put_object``."""
        self._do(self._putting(key, data, self._claim(lease, name), more))

    def delete(self, key: str, lease: Fenced | int, *, name: str | None = None) -> None:
        """Delete the data, or raise StaleFence. The mark stays until it is forgotten."""
        self._do(operations.put(key, None, self._claim(lease, name).to_write(), {}))

    def read(self, key: str) -> bytes | None:
        """Return the data without checking a fence; None if there is none."""
        return self._do(operations.look(key, whole=True)).envelope.data

    def mark(self, key: str, *, reading: bool = False) -> int:
        """Return the mark of an object, in epoch 0 the highest fence seen; 0 if there is none.

        With ``reading``, the mark of the writers, which a reader must not be below.
        """
        return self._do(operations.look(key, whole=False)).marks.of(reading)

    def reset(self, key: str, to: int = 0) -> None:
        """Set the mark of an object, even to a smaller fence than it has seen.

        For a name that has moved to another engine. Holders of a lease of the old engine are
        accepted again: stop them first, or give all guards a new epoch instead.
        """
        self._do(self._resetting(key, to))

    def forget(self, older_than_seconds: float, prefix: str = "") -> int:
        """Remove the marks of objects that were deleted so many seconds ago; return how many.

        A holder that was frozen for longer than that is then accepted again. The times of objects
        are of the store's clock, and are compared with ours. Call it rarely, with days, not
        minutes.
        """
        return self._do(self._forgetting(older_than_seconds, prefix))

    def probe(self, key: str = "fencelock-probe") -> None:
        """Raise Misconfigured if this store would let an old writer pass. It writes that key."""
        self._do(operations.probe(key))

    def _do(self, steps: Steps[T]) -> T:
        with watched(self._where):
            return run(steps, self._send)

    def _send(self, step: Call | Pause) -> Any:
        if isinstance(step, Pause):
            from time import sleep

            sleep(step.seconds)
            return None
        reply = getattr(self._client, step.method)(Bucket=self.bucket, **step.request)
        return {**reply, "Body": reply["Body"].read()} if "Body" in reply else reply


class AsyncS3Guard(_S3GuardBase):
    """The same for asyncio, over the client of aiobotocore: every method is awaited."""

    async def enter(
        self, key: str, lease: Fenced | int, *, name: str | None = None, reading: bool = False
    ) -> bytes | None:
        """Raise the mark and read the data in one step, at the start of a tenure.

        The object is rewritten for that, with the same data. None: there is no data, and only the
        mark was written. ``reading`` says of a bare fence that it is a read lock's; a lease says so
        itself.
        """
        return await self._do(operations.enter(key, self._claim(lease, name, reading)))

    async def put(
        self, key: str, data: bytes, lease: Fenced | int, *, name: str | None = None, **more: Any
    ) -> None:
        """Write the data, or raise StaleFence. ``more`` is as for ``put_object``."""
        await self._do(self._putting(key, data, self._claim(lease, name), more))

    async def delete(self, key: str, lease: Fenced | int, *, name: str | None = None) -> None:
        """Delete the data, or raise StaleFence. The mark stays until it is forgotten."""
        await self._do(operations.put(key, None, self._claim(lease, name).to_write(), {}))

    async def read(self, key: str) -> bytes | None:
        """Return the data without checking a fence; None if there is none."""
        return (await self._do(operations.look(key, whole=True))).envelope.data

    async def mark(self, key: str, *, reading: bool = False) -> int:
        """Return the mark of an object, in epoch 0 the highest fence seen; 0 if there is none.

        With ``reading``, the mark of the writers, which a reader must not be below.
        """
        return (await self._do(operations.look(key, whole=False))).marks.of(reading)

    async def reset(self, key: str, to: int = 0) -> None:
        """Set the mark of an object, even to a smaller fence than it has seen.

        For a name that has moved to another engine. Holders of a lease of the old engine are
        accepted again: stop them first, or give all guards a new epoch instead.
        """
        await self._do(self._resetting(key, to))

    async def forget(self, older_than_seconds: float, prefix: str = "") -> int:
        """Remove the marks of objects that were deleted so many seconds ago; return how many.

        A holder that was frozen for longer than that is then accepted again. The times of objects
        are of the store's clock, and are compared with ours. Call it rarely, with days, not
        minutes.
        """
        return await self._do(self._forgetting(older_than_seconds, prefix))

    async def probe(self, key: str = "fencelock-probe") -> None:
        """Raise Misconfigured if this store would let an old writer pass. It writes that key."""
        await self._do(operations.probe(key))

    async def _do(self, steps: Steps[T]) -> T:
        with watched(self._where):
            return await run_async(steps, self._send)

    async def _send(self, step: Call | Pause) -> Any:
        if isinstance(step, Pause):
            from asyncio import sleep

            await sleep(step.seconds)
            return None
        reply = await getattr(self._client, step.method)(Bucket=self.bucket, **step.request)
        if "Body" not in reply:
            return reply
        async with reply["Body"] as body:
            return {**reply, "Body": await body.read()}
