"""Send one command, once, over the connections of a redis-py client.

The driver retries a command whose reply was lost, by default up to ten times. A guarded operation
need not be idempotent, and the last error would hide that the first attempt may have taken effect.
So a connection is taken from the client's own pool and used without the driver's retries. A cluster
client finds the node and follows redirections by itself: for that, and for a client with a single
connection, ``execute_command`` is used, and a broken connection always means that the outcome is
unknown.
"""

from __future__ import annotations

from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any

from .errors import Broken, breaks
from .script import Script

if TYPE_CHECKING:
    import redis
    import redis.asyncio


class CommandSender:
    """Sends commands over the connections of a blocking client."""

    def __init__(self, client: redis.Redis | redis.RedisCluster) -> None:
        self._client: Any = client
        self._pool = pool_of(client)
        self._words = words_of(self._pool)
        self._broken = breaks()

    def call(self, *command: Any) -> Any:
        """Send one command and return its reply."""
        broken = self._broken
        if self._pool is None:
            try:
                return self._client.execute_command(*command)
            except broken as error:
                raise Broken(error, sent=True) from error
        try:
            connection = self._pool.get_connection(*self._words)
        except broken as error:
            raise Broken(error, sent=False) from error
        try:
            connection.send_command(*command)
            return connection.read_response()
        except broken as error:
            connection.disconnect()
            raise Broken(error, sent=True) from error
        except Exception:
            raise  # an error reply, or a command that could not be encoded
        except BaseException:
            # Its reply must not be read as another's. The driver ensures that while it sends or
            # reads; this is for an interrupt between the two.
            connection.disconnect()
            raise
        finally:
            self._pool.release(connection)

    def run(self, script: Script, keys: list[Any], arguments: list[Any]) -> Any:
        """Run a script by its digest, or by its source if the server does not know it yet."""
        from redis.exceptions import NoScriptError

        try:
            return self.call("EVALSHA", script.digest, *words(keys, arguments))
        except NoScriptError:
            pass
        return self.call("EVAL", script.source, *words(keys, arguments))


class AsyncCommandSender:
    """Sends commands over the connections of a client of ``redis.asyncio``."""

    def __init__(self, client: redis.asyncio.Redis | redis.asyncio.RedisCluster) -> None:
        self._client: Any = client
        self._pool = pool_of(client)
        self._words = words_of(self._pool)
        self._broken = breaks()

    async def call(self, *command: Any) -> Any:
        """Send one command and return its reply."""
        broken = self._broken
        if self._pool is None:
            try:
                return await self._client.execute_command(*command)
            except broken as error:
                raise Broken(error, sent=True) from error
        try:
            connection = await self._pool.get_connection(*self._words)
        except broken as error:
            raise Broken(error, sent=False) from error
        try:
            await connection.send_command(*command)
            return await connection.read_response()
        except broken as error:
            await connection.disconnect(nowait=True)
            raise Broken(error, sent=True) from error
        finally:
            await self._pool.release(connection)

    async def run(self, script: Script, keys: list[Any], arguments: list[Any]) -> Any:
        """Run a script by its digest, or by its source if the server does not know it yet."""
        from redis.exceptions import NoScriptError

        try:
            return await self.call("EVALSHA", script.digest, *words(keys, arguments))
        except NoScriptError:
            pass
        return await self.call("EVAL", script.source, *words(keys, arguments))


def words(keys: list[Any], arguments: list[Any]) -> list[Any]:
    """Return the arguments of EVAL, with numbers as text: hiredis crashes if a signal arrives while
    it encodes a number."""
    given = [len(keys), *keys, *arguments]
    return [str(word) if type(word) in (int, float) else word for word in given]


def pool_of(client: Any) -> Any:
    """Return the pool to take connections from, or None if the client must send by itself."""
    if getattr(client, "connection", None) is not None:
        return None  # a client that has one connection only
    if getattr(client, "single_connection_client", False):
        return None
    return getattr(client, "connection_pool", None)


def words_of(pool: Any) -> tuple[str, ...]:
    """Return the arguments of ``get_connection``: redis-py before 5.3 requires a command name."""
    if pool is None:
        return ()
    first, *_ = signature(pool.get_connection).parameters.values()
    return ("EVALSHA",) if first.default is Parameter.empty else ()
