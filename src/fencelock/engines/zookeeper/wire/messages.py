"""The requests and replies of ZooKeeper's client protocol: kazoo's, with types.

kazoo is written without types, and its client makes decisions that this engine must make: it hides
the negotiated session timeout, queues requests while it is disconnected and sends them later, and
needs most of a session timeout to leave a frozen server. So its messages and errors are used here,
with a connection of our own. As read in kazoo 2.11.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, NamedTuple, Protocol, TypeAlias

_kazoo: Any = import_module("kazoo.protocol.serialization")
_security: Any = import_module("kazoo.security")
_errors: Any = import_module("kazoo.exceptions")

Acl: TypeAlias = Sequence[object]

OPEN: Acl = _security.OPEN_ACL_UNSAFE
CREATOR: Acl = _security.CREATOR_ALL_ACL
CREATOR_AND_READERS: Acl = [*_security.CREATOR_ALL_ACL, *_security.READ_ACL_UNSAFE]

ServerError: type[Exception] = _errors.ZookeeperError
NoNode: type[Exception] = _errors.NoNodeError
Unimplemented: type[Exception] = _errors.UnimplementedError
EXPECTED = (
    NoNode,
    Unimplemented,
    _errors.NodeExistsError,
    _errors.NotEmptyError,
    _errors.BadVersionError,
)
"""Errors that the recipe handles, and gets as replies; any other is raised."""
NOT_TO_BLAME = (_errors.RolledBackError, _errors.RuntimeInconsistency)
"""Errors of requests in a transaction that failed because of another request."""


class Request(Protocol):
    """One message to the server; its class decodes the reply."""

    type: int

    def serialize(self) -> bytes | bytearray: ...


class Batch:
    """The replies to requests that are sent together."""

    __slots__ = ("_on_done", "lost", "missing", "replies")

    def __init__(self, count: int, on_done: Callable[[], None]) -> None:
        self.replies: list[Any] = [None] * count
        self.missing = count
        self.lost = False
        """Whether the connection broke before all were answered."""
        self._on_done = on_done

    def reply(self, index: int, value: object) -> None:
        self.replies[index] = value
        self.missing -= 1
        if not self.missing:
            self._on_done()

    def lose(self) -> None:
        if not self.is_done:
            self.lost = True
            self._on_done()

    @property
    def is_done(self) -> bool:
        return self.lost or not self.missing


Send: TypeAlias = Callable[[Sequence[Request], Batch], object]
"""Sends requests at once, without waiting for their replies."""
Watcher: TypeAlias = Callable[[Send | None], None]
"""Called once, when the watched node changes or is deleted; with None if the connection broke."""


class Stat(NamedTuple):
    """ZooKeeper's Stat of a node."""

    czxid: int
    mzxid: int
    ctime_ms: int
    mtime_ms: int
    version: int
    cversion: int
    aversion: int
    session: int
    """The session that owns an ephemeral node, else 0."""
    size: int
    children: int
    pzxid: int


_EPHEMERAL, _EPHEMERAL_SEQUENTIAL, _CONTAINER = 1, 3, 4
_Message: TypeAlias = Callable[..., Request]

_create: _Message = _kazoo.Create2
_create_in_multi: _Message = _kazoo.Create  # kazoo cannot read the other's reply within a multi
_delete: _Message = _kazoo.Delete
_exists: _Message = _kazoo.Exists
_get_data: _Message = _kazoo.GetData
_set_data: _Message = _kazoo.SetData
_check_version: _Message = _kazoo.CheckVersion
_get_children: _Message = _kazoo.GetChildren
_auth: _Message = _kazoo.Auth

sync: Callable[[str], Request] = _kazoo.Sync
"""Makes the server catch up with its leader before it serves the next requests."""
multi: Callable[[Sequence[Request]], Request] = _kazoo.Transaction
"""Makes a transaction: all or nothing. The reply is a list; after a failure, of errors."""

PING: Request = _kazoo.PingInstance
CLOSE: Request = _kazoo.CloseInstance


class _CreateContainer(_kazoo.Create2):  # type: ignore[misc]  # kazoo has no types
    type = 19


_create_container: _Message = _CreateContainer

_WRITES = {
    message.type
    for message in (
        _kazoo.Create2,
        _CreateContainer,
        _kazoo.Delete,
        _kazoo.SetData,
        _kazoo.Transaction,
    )
}


def is_write(request: Request) -> bool:
    """Return whether the reply proves that a majority of the ensemble took part."""
    return request.type in _WRITES


def create(path: str, data: bytes, acl: Acl) -> Request:
    """Create an ephemeral sequential node. The reply is its path and its Stat."""
    return _create(path, data, acl, _EPHEMERAL_SEQUENTIAL)


def create_named(path: str, data: bytes, acl: Acl) -> Request:
    """Create an ephemeral node of exactly this name; only inside ``multi``."""
    return _create_in_multi(path, data, acl, _EPHEMERAL)


def create_persistent(path: str, acl: Acl, data: bytes = b"") -> Request:
    """Create a persistent node. The reply is its path and its Stat."""
    return _create(path, data, acl, 0)


def create_container(path: str, acl: Acl) -> Request:
    """Create a container node, which the server deletes some time after its last child."""
    return _create_container(path, b"", acl, _CONTAINER)


def delete(path: str, version: int = -1) -> Request:
    return _delete(path, version)


def exists(path: str, watcher: Watcher | None = None) -> Request:
    """Check whether a node exists. The reply is a Stat, or None; the watch is set in both cases."""
    return _exists(path, watcher)


def get_data(path: str, watcher: Watcher | None = None) -> Request:
    """Read a node. The reply is its data and Stat; the watch is set only if the node exists."""
    return _get_data(path, watcher)


def set_data(path: str, data: bytes, version: int = -1) -> Request:
    return _set_data(path, data, version)


def check(path: str, version: int = -1) -> Request:
    """Require that a node exists, in this version; only inside ``multi``."""
    return _check_version(path, version)


def get_children(path: str, watcher: Watcher | None = None) -> Request:
    """List a node. The reply is the names of all children; the watch is set if the node exists, and
    fires when a child is created or deleted, and when the node itself is deleted."""
    return _get_children(path, watcher)


def authenticate(scheme: str, credential: str) -> Request:
    return _auth(0, scheme, credential)


def connect(zxid: int, timeout_ms: int, session: int, password: bytes) -> bytes:
    """Return the first message of a connection."""
    return bytes(_kazoo.Connect(0, zxid, timeout_ms, session, password, False).serialize())


def read_connected(frame: bytes) -> tuple[int, int, bytes]:
    """Read timeout in ms, session and password; a timeout of 0 means that it has expired."""
    reply, _ = _kazoo.Connect.deserialize(frame, 0)
    return reply.time_out, reply.session_id, reply.passwd


def read_header(frame: bytes) -> tuple[int, int, int, int]:
    """Read the xid, the zxid, the error code, and the offset of the reply's body."""
    (xid, zxid, code), offset = _kazoo.ReplyHeader.deserialize(frame, 0)
    return xid, zxid, code, offset


def read_event(frame: bytes, offset: int) -> str:
    """Read the path of the watched node that has changed or was deleted."""
    event, _ = _kazoo.Watch.deserialize(frame, offset)
    return str(event.path)


def read_reply(request: Any, code: int, frame: bytes, offset: int) -> Any:
    """Read the reply to a request; errors of the server are returned, not raised."""
    if code == NoNode.code and request.type == _kazoo.Exists.type:  # type: ignore[attr-defined]
        return None
    if code:
        return _errors.EXCEPTIONS[code]() if code in _errors.EXCEPTIONS else ServerError(code)
    if not hasattr(request, "deserialize"):
        return None
    reply: Any = request.deserialize(frame, offset)
    if hasattr(reply, "czxid"):
        return Stat(*reply)
    return (reply[0], Stat(*reply[1])) if type(reply) is tuple else reply


def watcher_of(request: Any) -> tuple[str, Watcher] | None:
    """Return the path and the watcher of a request that sets a watch; else None."""
    watcher = getattr(request, "watcher", None)
    return None if watcher is None else (request.path, watcher)
