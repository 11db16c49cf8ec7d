"""What connections can do in each flavor, how requests are packed, and how redis-py connects.

A connection sends requests that are packed already and returns as many replies as they have. It
knows servers, and neither locks nor scripts. An error reply is a value; a failure to connect is
``Unavailable``, because nothing was sent, and a missing reply is ``OutcomeUnknown``.

redis-py's own command path costs more than the round trip itself, so it is used for what it does
best: it resolves, connects, does TLS and authenticates. Then we take the socket over. hiredis packs
the requests and parses the replies.
"""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, cast

import hiredis

from ....errors import Denied, Misconfigured, Unavailable
from ..scripts import Script
from ..settings import Node, Settings, where

Word: TypeAlias = str | bytes  # hiredis crashes where a signal comes while it writes a number
_pack: Callable[[tuple[Word, ...]], bytes] = cast(Any, hiredis).pack_command  # its types are poor
Purpose: TypeAlias = Literal["main", "keeper"]  # each has a connection of its own


def packed(*words: Word) -> bytes:
    """Pack one request."""
    return _pack(words)


class ScriptCall(NamedTuple):
    """A script, with its keys and arguments."""

    script: Script
    keys: Sequence[str]
    words: Sequence[Word]

    def packed(self) -> bytes:
        """Pack it for a server that knows the script."""
        script, keys, words = self
        return packed("EVALSHA", script.digest, str(len(keys)), *keys, *words)

    def packed_whole(self) -> bytes:
        """Pack it for any server, with the source of the script."""
        script, keys, words = self
        return packed("EVAL", script.source, str(len(keys)), *keys, *words)


PING = packed("PING")


def packed_head(script: Script, keys: int, words: int) -> bytes:
    """Pack the head of a request that runs a script: all before its keys and arguments."""
    request = packed("EVALSHA", script.digest, str(keys))
    return b"*%d%b" % (3 + keys + words, request[request.index(b"\r") :])


def packed_words(*words: Word) -> bytes:
    """Pack a part of a request: these arguments as they stand inside it."""
    request = packed(*words)
    return request[request.index(b"\n") + 1 :]


class Subscription(Protocol):
    """A connection that only receives the messages of one channel."""

    broken: str
    """Why no more messages come; empty while the connection lives."""
    unanswered: bool
    """Whether nothing has come since the last ``ping``."""

    def ping(self) -> None:
        """Send a PING, as a subscriber may: its reply proves that messages would come, too."""
        ...

    async def receive(self, seconds: float) -> list[bytes]:
        """Wait for messages; return none when time is up or the wait was interrupted."""
        ...

    def on_message(self, handle: Callable[[bytes], None]) -> None:
        """Pass messages to a callback as they come, where that is possible, not by ``receive``."""
        ...

    def interrupt(self) -> None:
        """End a ``receive`` that is under way."""
        ...

    def close(self) -> None: ...


class FastPath(Protocol):
    """Requests of one reply to one server, in the fewest steps: the hot path of a single server."""

    @property
    def direct(self) -> Callable[[bytes, float], Any] | None:
        """The same as ``request`` without an await, for a blocking program; None in asyncio."""
        ...

    def request(self, payload: bytes, request_timeout: float) -> Awaitable[Any]:
        """Send one request and return its reply; in all else as ``Pool.request``."""
        ...


class Pool(Protocol):
    """All connections of one client: one for each server and purpose, made when it is needed."""

    def fast_path(self, node: Node) -> FastPath:
        """The main connection to a server, for requests of one reply."""
        ...

    async def request(
        self, node: Node, payload: bytes, count: int, request_timeout: float, purpose: Purpose
    ) -> Sequence[Any]:
        """Send a payload of so many requests to a server and return that many replies."""
        ...

    async def subscribe(self, node: Node, channel: str) -> Subscription:
        """Subscribe to a channel; return when the server has confirmed it."""
        ...

    def drop(self, node: Node) -> None:
        """Close the connections to a server: it is not the right one any more."""
        ...

    async def close(self) -> None: ...

    def close_nowait(self) -> None:
        """Close without waiting; any thread may call this."""
        ...


# A peer that has vanished is noticed by the kernel, whatever the system's settings are.
KEEPALIVE = {
    getattr(socket, name): seconds
    for name, seconds in {"TCP_KEEPIDLE": 5, "TCP_KEEPINTVL": 2, "TCP_KEEPCNT": 3}.items()
    if hasattr(socket, name)
}


def new_connection(
    driver: Any, retry: object, settings: Settings, node: Node, sentinel: bool = False
) -> Any:
    """Return redis-py's connection object for a server, not connected yet, with or without TLS.

    ``retry`` is one that never retries: the protocol retries by itself.
    """
    secure = "ssl_cert_reqs" in settings.connection
    kind = driver.SSLConnection if secure else driver.Connection
    chosen = settings.sentinel if sentinel else settings.connection
    given = {key: value for key, value in chosen.items() if value is not None}
    given["socket_keepalive_options"] = KEEPALIVE
    return kind(host=node[0], port=node[1], **given, retry=retry, retry_on_error=[])


def cannot_connect(node: Node, error: BaseException) -> Exception:
    """Map the error of a connection that could not be made."""
    kind = type(error).__name__
    if "Authentication" in kind or "AuthorizationError" in kind or "NoPermission" in kind:
        return Denied(f"{where(node)} refuses the user or the password ({error}); nothing happened")
    if kind == "ResponseError" and ("DB index" in str(error) or "SELECT" in str(error)):
        return Misconfigured(
            f"{where(node)} has no such database ({error}); nothing happened. Choose another "
            "number in the URL, or raise databases in the configuration of the server"
        )
    return Unavailable(
        f"{where(node)} cannot be reached ({error}); nothing happened. See that the server runs "
        "and that host and port are right"
    )


def time_up(node: Node) -> Unavailable:
    """Return the error of a request whose time was up before a connection was free."""
    return Unavailable(
        f"{where(node)} was not asked: the time was up before a connection was free. "
        "Nothing happened"
    )


CLOSED = "this client is closed; nothing happened"
