"""The edge between the protocol and a socket, the same for both flavors.

A wire sends requests that are packed already and gives back as many replies as were asked for. It
knows nodes and connections, and neither locks nor scripts. An error reply is a value; no connection
is ``Unavailable``, because nothing was sent, and no answer is ``OutcomeUnknown``.

redis-py's own command path costs more than the round trip itself, so it is used for what it does
best: it resolves, connects, speaks TLS and logs in. Then the wire takes the socket over. hiredis
packs the requests and parses the replies.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, cast

import hiredis

from ...errors import Denied, Misconfigured, Unavailable
from .scripts import Script
from .settings import Node, Settings

if TYPE_CHECKING:
    from ...world import World

Word: TypeAlias = str | bytes  # hiredis crashes where a signal comes while it writes a number
_pack: Callable[[tuple[Word, ...]], bytes] = cast(Any, hiredis).pack_command  # its types are poor
Lane: TypeAlias = Literal["main", "keeper"]


def packed(*words: Word) -> bytes:
    """A request as it goes over the wire."""
    return _pack(words)


def opening(script: Script, keys: int, words: int) -> bytes:
    """How a request to run a script begins, before its keys and words."""
    request = packed("EVALSHA", script.digest, str(keys))
    return b"*%d%b" % (3 + keys + words, request[request.index(b"\r") :])


def packed_words(*words: Word) -> bytes:
    """Words as they stand inside a request: those that are often the same are kept so."""
    request = packed(*words)
    return request[request.index(b"\n") + 1 :]


class Inbox(Protocol):
    """A connection that only listens."""

    broken: str
    """Why it hears nothing any more, or nothing."""

    async def receive(self, seconds: float) -> list[bytes]:
        """Wait for messages; none when time is up or somebody nudged."""
        ...

    def prompt(self, hear: Callable[[bytes], None]) -> None:
        """Say what comes from now on at once, where that is possible, and not by ``receive``."""
        ...

    def nudge(self) -> None:
        """End a ``receive`` that is under way."""
        ...

    def close(self) -> None: ...


class Line(Protocol):
    """The way to one node for what is asked all the time: the fewest steps, one reply."""

    @property
    def direct(self) -> Callable[[bytes, float], Any] | None:
        """What ``ask`` does, where nothing has to be awaited: in a blocking program."""
        ...

    def ask(self, payload: bytes, request_timeout: float) -> Awaitable[Any]:
        """Send one request and return its reply; as ``Wire.call`` in all else."""
        ...


class Wire(Protocol):
    """All connections of one client."""

    def line(self, node: Node) -> Line:
        """The quick way to a node, on its main lane."""
        ...

    async def call(
        self, node: Node, payload: bytes, count: int, request_timeout: float, lane: Lane
    ) -> Sequence[Any]:
        """Send a payload of so many requests to a node and return that many replies."""
        ...

    async def subscribe(self, node: Node, channel: str) -> Inbox:
        """Listen to a channel; returns when the server has said that we do."""
        ...

    def drop(self, node: Node) -> None:
        """Let go of the connections to a node: it is not the right one any more."""
        ...

    async def close(self) -> None: ...

    def close_nowait(self) -> None:
        """Close without waiting, in whatever thread this is."""
        ...


def make_wire(world: World, settings: Settings) -> Wire:
    """The wire for a world; each imports its driver when it is made."""
    if world.flavor == "asyncio":
        from .wire_aio import AioWire

        return AioWire(settings)
    if world.flavor == "sim":
        wire: Wire = cast("Any", world).edge.wire(world, settings)
        return wire
    from .wire_threads import ThreadsWire

    return ThreadsWire(settings, world)


def new_connection(
    driver: Any, retry: object, settings: Settings, node: Node, sentinel: bool = False
) -> Any:
    """redis-py's connection to a node, not made yet, with or without TLS.

    ``retry`` is one that never does: a lock's retries are the protocol's.
    """
    secure = "ssl_cert_reqs" in settings.connection
    kind = driver.SSLConnection if secure else driver.Connection
    chosen = settings.sentinel if sentinel else settings.connection
    given = {key: value for key, value in chosen.items() if value is not None}
    return kind(host=node[0], port=node[1], **given, retry=retry, retry_on_error=[])


def cannot_connect(node: Node, error: BaseException) -> Exception:
    """The error of ours for a connection that could not be made."""
    where = f"{node[0]}:{node[1]}"
    kind = type(error).__name__
    if "Authentication" in kind or "AuthorizationError" in kind or "NoPermission" in kind:
        return Denied(f"{where} refuses the user or the password ({error}); nothing happened")
    if kind == "ResponseError" and ("DB index" in str(error) or "SELECT" in str(error)):
        return Misconfigured(
            f"{where} has no such database ({error}); nothing happened. Choose another number in "
            "the URL, or raise databases in the configuration of the server"
        )
    return Unavailable(
        f"{where} cannot be reached ({error}); nothing happened. See that the server runs and that "
        "host and port are right"
    )


def time_up(node: Node) -> Unavailable:
    """The error of a call whose time is up before there is a connection for it."""
    return Unavailable(
        f"{node[0]}:{node[1]} was not asked: the time was up before a connection was free. "
        "Nothing happened"
    )


CLOSED = "this client is closed; nothing happened"
