"""The Redis guard for asyncio. ``guard.py`` has the same methods for blocking programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Unpack

from ..fence import Fenced, check_age
from .errors import translated
from .raw_command import AsyncCommandSender
from .script import forgetting
from .script_call import PREFIX, ScriptCall, ScriptCalls, SetOptions, marks

if TYPE_CHECKING:
    import redis.asyncio

__all__ = ["AsyncRedisGuard"]


class AsyncRedisGuard(ScriptCalls):
    """Guards keys of one Redis: ``await guard.set("seat:1A", "Ann", lease)``.

    ``client`` is a ``redis.asyncio.Redis`` or ``redis.asyncio.RedisCluster``; its connections are
    used. ``epoch`` is incremented when the locks move to another engine. With ``marks_ttl``, a mark
    that was unused for so many seconds is forgotten: that must be longer than any holder can be
    frozen.
    """

    def __init__(
        self,
        client: redis.asyncio.Redis | redis.asyncio.RedisCluster,
        *,
        prefix: str = PREFIX,
        epoch: int = 0,
        marks_ttl: float | None = None,
    ) -> None:
        super().__init__(client, True, prefix, epoch, marks_ttl)
        self._client: Any = client
        self._sender = AsyncCommandSender(client)

    async def enter(
        self, lease: Fenced | int, *, name: str | None = None, reading: bool = False
    ) -> None:
        """Raise the mark at the start of a tenure, before the first read; or raise StaleFence.

        ``reading`` says of a bare fence that it is a read lock's; a lease says so itself.
        """
        await self._run(self._enter(self._claim(lease, name, reading)))

    async def get(
        self,
        key: str | bytes,
        lease: Fenced | int,
        *,
        name: str | None = None,
        reading: bool = False,
    ) -> Any:
        """Read a key and raise the mark, in one step."""
        return await self._run(self._get(key, self._claim(lease, name, reading)))

    async def set(
        self,
        key: str | bytes,
        value: str | bytes | int | float,
        lease: Fenced | int,
        *,
        name: str | None = None,
        **options: Unpack[SetOptions],
    ) -> bool:
        """Write a key, in one step with the check; return False if ``nx`` or ``xx`` did not hold.

        The options are redis-py's: ``ex`` or ``px`` or ``keepttl``, ``nx`` or ``xx``.
        """
        call = self._set(key, value, self._claim(lease, name), **options)
        return await self._run(call) is not None

    async def eval(
        self,
        script: str,
        keys: Sequence[str | bytes],
        args: Sequence[str | bytes | int | float],
        lease: Fenced | int,
        *,
        name: str | None = None,
        reading: bool = False,
    ) -> Any:
        """Run a script of your own, in one step with the check; return its reply.

        With a reader's lease it must only read: that is not checked.
        """
        return await self._run(self._eval(script, keys, args, self._claim(lease, name, reading)))

    async def mark(self, name: str, *, reading: bool = False) -> int:
        """Return the mark of a name, in epoch 0 the highest fence seen; 0 if there is none.

        With ``reading``, the mark of the writers, which a reader must not be below.
        """
        key = self._key(name)
        with translated(None):
            return marks(await self._sender.call("GET", key)).of(reading)

    async def reset(self, name: str, to: int = 0) -> None:
        """Set the mark of a name, even to a smaller fence than it has seen; 0 removes it.

        For a name that has moved to another engine. Holders of a lease of the old engine are
        accepted again: stop them first, or give all guards a new epoch instead.
        """
        await self._run(self._reset(name, to))

    async def forget(self, older_than_seconds: float) -> int:
        """Remove the marks that were not raised for so many seconds; return how many.

        A holder that was frozen for longer than that is then accepted again: choose days, not
        minutes. The time is that of Redis's clock.
        """
        age, count = check_age(older_than_seconds), 0
        with translated(None):
            async for key in self._client.scan_iter(match=self._pattern(), count=1000):
                count += await self._sender.run(forgetting(), [key], [age])
        return count

    async def _run(self, call: ScriptCall) -> Any:
        with translated(call.claim):
            return await self._sender.run(call.script, call.keys, call.arguments)
