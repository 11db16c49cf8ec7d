"""Hazelcast's own client, in both flavors: its connections and messages, without its FencedLock.

The client's FencedLock takes the calling thread, or task, as the owner, has one session that it
renews by itself, and does not report when that ends. So the messages of the lock and of its session
are sent one by one, through the parts of the client that its FencedLock uses: the codecs of
``hazelcast.protocol.codec`` and the ``InvocationService`` of a client. They were read in release
5.7.0, and the extra requires a release before 6; if they change, ``tests/engines/hazelcast`` fails
first.

The client resends a request whose connection was lost, for as long as ``request_timeout``. It has
the same invocation uid each time, so that Hazelcast applies it once.

A member that is cut off from the others keeps its clients, and tells them that it is alone. So a
connection is closed if no reply of the CP Subsystem came over it for ``request_timeout`` after the
first missed one: the client then uses another member that it knows.
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
from .errors import map_error

Done: TypeAlias = Callable[[Any, bool], None]
"""Called once, from any thread, with a reply or an error of ours, and with whether the request was
sent more than once: then a member may still have a copy."""

CODECS = {
    "group": "cp_group_create_cp_group_codec",
    "create_session": "cp_session_create_session_codec",
    "close_session": "cp_session_close_session_codec",
    "heartbeat": "cp_session_heartbeat_session_codec",
    "lock": "fenced_lock_lock_codec",
    "try_lock": "fenced_lock_try_lock_codec",
    "unlock": "fenced_lock_unlock_codec",
    "ownership": "fenced_lock_get_lock_ownership_codec",
    "put": "map_set_codec",
    "get": "map_get_codec",
}
MAPS = ("put", "get")  # which a member answers even if it is cut off
RETRY_PAUSE_S = 0.1
HEARTBEAT_S = 1.0  # a member that does not answer is dropped after five of them
SILENT_S = 5.0
SPARE_S = 1.0  # for the other work of a client that starts or stops
UNANSWERED = "the member has not answered"
WAIT_S = 3600.0 * 24 * 365  # how long the client resends a request that waits in a queue


class Uid(NamedTuple):
    """The invocation uid of a request: 128 bits, as hexadecimal text."""

    text: str


class Text(NamedTuple):
    """A key or value of a map of the cluster."""

    text: str


class Wire(Protocol):
    """Sends requests; each gets a reply or an error of ours."""

    async def connect(self) -> None:
        """Make sure that a client is running; Unavailable if no member can be reached."""
        ...

    def request(
        self, operation: str, arguments: Sequence[Any], done: Done, waits: bool = False
    ) -> ClientRequest:
        """Make a request, to be sent by the client that ``connect`` has created."""
        ...

    async def call_all(self, requests: Sequence[tuple[str, Sequence[Any]]]) -> list[Any]:
        """Send requests at once; return for each its reply or an error of ours, by the timeout."""
        ...

    def members(self) -> list[tuple[str, str]]:
        """Return the members of the cluster: the address and the release of each."""
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


class ClientRequest:
    """A request that is ready to be sent."""

    def __init__(self, invocation: Any, invoke: Callable[[Any], None]) -> None:
        self._invocation = invocation
        self._invoke = invoke

    def send(self) -> None:
        self._invoke(self._invocation)

    @property
    def was_sent(self) -> bool:
        return bool(self._invocation.sends)

    @property
    def connection(self) -> Any:
        """The connection over which it was sent last."""
        return self._invocation.sent_connection


class ClientWire:
    """What both flavors do with their client, which is created by the first request."""

    package: str
    """The module of the flavor's ``HazelcastClient``."""
    invocations: str
    """The module of its ``Invocation``."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._client: Any = None
        self._closed = False
        self._silent = dict[Any, float]()
        """Connections with a missed reply, and the moment since which none has come."""

    def _runs(self) -> bool:
        """Return whether there is a client that has not given up on the cluster."""
        client = self._client
        return not self._closed and client is not None and client.lifecycle_service.is_running()

    def _new_client(self) -> Any:
        return client_class(self.package)(self._hang_up, **config(self._settings))

    def _hang_up(self, connection: Any) -> None:
        """Close a connection; called in the client's own thread or task."""
        raise NotImplementedError

    def request(
        self, operation: str, arguments: Sequence[Any], done: Done, waits: bool = False
    ) -> ClientRequest:
        timeout = WAIT_S if waits else self._settings.request_timeout
        invocation = new_invocation(self._client, self.invocations, operation, arguments, timeout)

        def answered(future: Any) -> None:
            try:
                answer = future.result()
            except BaseException as error:  # an asyncio future may have been cancelled
                answer = map_error(error, operation, bool(invocation.sends))
            if operation not in MAPS:
                self._silent.pop(invocation.sent_connection, None)
            done(answer, invocation.sends > 1)

        invocation.future.add_done_callback(answered)
        return ClientRequest(invocation, self._invoke)

    def _invoke(self, invocation: Any) -> None:
        self._client._invocation_service.invoke(invocation)

    def _missed(self, request: ClientRequest) -> None:
        """Close a connection over which no reply has come for ``request_timeout``."""
        now, connection = time.monotonic(), request.connection
        if connection is None or not connection.live:
            self._silent.pop(connection, None)
        elif now - self._silent.setdefault(connection, now) >= self._settings.request_timeout:
            self._silent.pop(connection, None)
            self._client._reactor.add_timer(0, lambda: self._hang_up(connection))

    def members(self) -> list[tuple[str, str]]:
        found = self._client.cluster_service.get_members()
        releases = [(one.version.major, one.version.minor, one.version.patch) for one in found]
        return [
            (f"{one.address.host}:{one.address.port}", ".".join(map(str, release)))
            for one, release in zip(found, releases, strict=True)
        ]


def own_client(module: str) -> Any:
    """Import the client class of a flavor, at its first use, as that takes a tenth of a second."""
    with warnings.catch_warnings():  # of a standard module that it uses, up to Python 3.11
        warnings.simplefilter("ignore", DeprecationWarning)
        return import_module(module).HazelcastClient


@cache
def client_class(module: str) -> Any:
    """Return the client class of a flavor, with a timeout for each member.

    Hazelcast's client connects to one member after the other, and waits forever for one that
    accepts a connection and sends nothing, as a frozen member does. So that connection is closed in
    time.
    """
    own: Any = own_client(module)

    class Client(own):  # type: ignore[misc]
        def __init__(self, hang_up: Callable[[Any], None], **options: Any) -> None:
            self._hang_up, self._answer_within = hang_up, options["connection_timeout"]
            self.unanswered = set[Any]()
            own.__init__(self, **options)

        def _start(self) -> Any:
            manager = self._connection_manager
            authenticate = manager._authenticate

            def begin(connection: Any) -> Any:
                def look() -> None:
                    self.unanswered.discard(connection)
                    if connection.remote_uuid is None:  # which the member's reply sets
                        self._hang_up(connection)

                self.unanswered.add(connection)
                self._reactor.add_timer(self._answer_within, look)
                return authenticate(connection)

            manager._authenticate = begin
            return own._start(self)

    return Client


def config(settings: Settings) -> dict[str, Any]:
    """Return the configuration of either client."""
    logger = logging.getLogger("hazelcast")
    if not logger.handlers:  # without any, Python would print to stderr
        logger.addHandler(logging.NullHandler())
    user, password = settings.login
    made: dict[str, Any] = {
        "cluster_name": settings.cluster,
        "cluster_members": list(settings.members),
        "creds_username": user,
        "creds_password": password,
        "smart_routing": settings.smart_routing,
        "connection_timeout": min(settings.connect_timeout, SILENT_S),
        "cluster_connect_timeout": settings.connect_timeout,
        "retry_initial_backoff": RETRY_PAUSE_S,
        "retry_max_backoff": 1.0,
        "heartbeat_interval": HEARTBEAT_S,
        "heartbeat_timeout": SILENT_S,
        "invocation_timeout": settings.request_timeout,
        "invocation_retry_pause": RETRY_PAUSE_S,
    }
    if (files := settings.tls) is not None:
        made |= {"ssl_enabled": True, "ssl_check_hostname": True}
        made |= {"ssl_cafile": files.ca, "ssl_certfile": files.cert, "ssl_keyfile": files.key}
    return {option: value for option, value in made.items() if value is not None}


@cache
def _invocations(module: str) -> Any:
    """Return a flavor's Invocation class, extended by a count of how often it was sent."""

    class Invocation(import_module(module).Invocation):  # type: ignore[misc]
        __slots__ = ("_connection", "sends")

        @property
        def sent_connection(self) -> Any:
            return self._connection

        @sent_connection.setter
        def sent_connection(self, connection: Any) -> None:
            self._connection = connection  # the client resets it before it retries
            self.sends = getattr(self, "sends", 0) + (connection is not None)

    return Invocation


def new_invocation(
    client: Any, module: str, operation: str, arguments: Sequence[Any], timeout: float
) -> Any:
    """Make an invocation for the client of one flavor."""
    codec = import_module(f"hazelcast.protocol.codec.{CODECS[operation]}")
    decode: Callable[[Any], Any] = getattr(codec, "decode_response", _no_answer)
    data, partition = client._serialization_service, -1

    def read(message: Any) -> Any:
        return data.to_object(decode(message))

    encoded = list[Any]()
    for argument in arguments:
        if isinstance(argument, Uid):
            encoded.append(UUID(argument.text))
        elif isinstance(argument, Text):
            encoded.append(data.to_data(argument.text))
            if partition < 0:  # the partition of the key, which comes first
                partition = client._internal_partition_service.get_partition_id(encoded[-1])
        else:
            encoded.append(argument)
    return _invocations(module)(
        codec.encode_request(*encoded),
        partition_id=partition,
        timeout=time.time() + timeout,  # by the client's clock
        response_handler=read if operation == "get" else decode,
    )


def _no_answer(message: object) -> None:
    """Decode a reply without content."""
