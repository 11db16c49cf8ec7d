"""Hazelcast's own client, in both flavors: its connections and messages, and not its recipes.

The FencedLock of the client takes the calling thread, or task, for the owner, has one session that
it renews by itself, and does not tell when that ends. So the messages of the lock and of its
session are sent one by one, through the parts of the client that its FencedLock uses: the codecs of
``hazelcast.protocol.codec`` and the ``InvocationService`` of a client. They were read in release
5.7.0, and the extra ends before 6; ``tests/engines/hazelcast`` fails first where they change.

The client repeats a request whose connection was lost, for as long as ``request_timeout``. It has
the same invocation uid each time, so that Hazelcast carries it out once.
"""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple, Protocol, TypeAlias
from uuid import UUID

from ....world import World
from ..settings import Settings

Done: TypeAlias = Callable[[Any, bool], None]
"""Called once, from any thread, with an answer or an error of ours, and with whether the request
was sent more than once: then a member may still have it."""

CODECS = {
    "group": "cp_group_create_cp_group_codec",
    "create_session": "cp_session_create_session_codec",
    "close_session": "cp_session_close_session_codec",
    "heartbeat": "cp_session_heartbeat_session_codec",
    "lock": "fenced_lock_lock_codec",
    "try_lock": "fenced_lock_try_lock_codec",
    "unlock": "fenced_lock_unlock_codec",
    "ownership": "fenced_lock_get_lock_ownership_codec",
}
RETRY_PAUSE_S = 0.1
HEARTBEAT_S = 1.0  # a member that does not answer is left after five of them
SILENT_S = 5.0
WAIT_S = 3600.0 * 24 * 365  # for how long the client repeats a request that waits in a queue


class Uid(NamedTuple):
    """What tells one request of a lock from another: 128 bits, as hexadecimal text."""

    text: str


class Wire(Protocol):
    """Send requests: an answer, or an error of ours, comes for each."""

    async def connect(self) -> None:
        """Have a client that runs; Unavailable where no member can be reached."""
        ...

    def send(self, operation: str, arguments: Sequence[Any], done: Done, waits: bool) -> None:
        """Send a request over the client that ``connect`` has made."""
        ...

    async def call_all(self, requests: Sequence[tuple[str, Sequence[Any]]]) -> list[Any]:
        """Send requests at once; for each its answer, or an error of ours, by the timeout."""
        ...

    async def put(self, table: str, key: str, value: str, ttl: float) -> None:
        """Write to a map of the cluster, which is not in the CP Subsystem."""
        ...

    async def get(self, table: str, key: str) -> str | None: ...

    def members(self) -> list[tuple[str, str]]:
        """The members of the cluster: where each is, and its release."""
        ...

    async def close(self) -> None: ...

    def close_nowait(self) -> None: ...


def wire_of(world: World, settings: Settings) -> Wire:
    """Make the wire of a flavor."""
    if world.flavor != "asyncio":
        from .threads import ThreadsWire

        return ThreadsWire(world, settings)
    from .aio import AioWire

    return AioWire(settings)


def config(settings: Settings) -> dict[str, Any]:
    """What either client is made with."""
    logger = logging.getLogger("hazelcast")
    if not logger.handlers:  # it would print to stderr where a program has not set up any
        logger.addHandler(logging.NullHandler())
    user, password = settings.login
    files = settings.tls
    secured: dict[str, object] = {}
    if files is not None:
        secured = {"ssl_enabled": True, "ssl_check_hostname": True}
        named = {"ssl_cafile": files.ca, "ssl_certfile": files.cert, "ssl_keyfile": files.key}
        secured |= {key: path for key, path in named.items() if path is not None}
    return {
        "cluster_name": settings.cluster,
        "cluster_members": list(settings.members),
        "creds_username": user,
        "creds_password": password,
        "smart_routing": settings.smart_routing,
        "connection_timeout": settings.connect_timeout,
        "cluster_connect_timeout": settings.connect_timeout,
        "retry_initial_backoff": RETRY_PAUSE_S,
        "retry_max_backoff": 1.0,
        "heartbeat_interval": HEARTBEAT_S,
        "heartbeat_timeout": SILENT_S,
        "invocation_timeout": settings.request_timeout,
        "invocation_retry_pause": RETRY_PAUSE_S,
        **secured,
    }


@cache
def client_class(module: str) -> Any:
    """The client of a flavor, loaded by its first use: that takes a tenth of a second."""
    with warnings.catch_warnings():  # of a module of Python's that it uses, up to 3.11
        warnings.simplefilter("ignore", DeprecationWarning)
        return import_module(module).HazelcastClient


@cache
def _invocations(module: str) -> Any:
    """The invocation of one flavor's client, which here knows how often it was sent."""

    class Invocation(import_module(module).Invocation):  # type: ignore[misc]
        __slots__ = ("_connection", "sends")

        @property
        def sent_connection(self) -> Any:
            return self._connection

        @sent_connection.setter
        def sent_connection(self, connection: Any) -> None:
            self._connection = connection  # the client takes it back before it tries again
            self.sends = getattr(self, "sends", 0) + (connection is not None)

    return Invocation


def listed(client: Any) -> list[tuple[str, str]]:
    """The members that either client knows."""
    found = client.cluster_service.get_members()
    return [(f"{one.address.host}:{one.address.port}", str(one.version)) for one in found]


def new_invocation(
    module: str, operation: str, arguments: Sequence[Any], waits: bool, timeout: float
) -> Any:
    """Make a request for the client of one flavor."""
    codec = import_module(f"hazelcast.protocol.codec.{CODECS[operation]}")
    decode = getattr(codec, "decode_response", lambda message: None)
    return _invocations(module)(
        codec.encode_request(*map(_encoded, arguments)),
        timeout=time.time() + (WAIT_S if waits else timeout),  # the client's clock
        response_handler=decode,
    )


def _encoded(argument: Any) -> Any:
    """An argument as the codecs take it."""
    return UUID(argument.text) if isinstance(argument, Uid) else argument
