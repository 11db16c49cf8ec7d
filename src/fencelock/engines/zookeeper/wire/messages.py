"""The messages of ZooKeeper's protocol, borrowed from kazoo and given types.

kazoo is written without types, and its client decides things that are ours to decide: it hides
the session timeout that was negotiated, keeps requests while it is cut off and sends them later,
and needs most of a session to leave a server that is frozen. So we use its messages and errors,
and the connection is our own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, NamedTuple, Protocol, TypeAlias

_messages: Any = import_module("kazoo.protocol.serialization")
_security: Any = import_module("kazoo.security")
errors: Any = import_module("kazoo.exceptions")

Acl: TypeAlias = Sequence[object]

EPHEMERAL_SEQUENTIAL, CONTAINER = 3, 4
OPEN: Acl = _security.OPEN_ACL_UNSAFE
CREATOR: Acl = _security.CREATOR_ALL_ACL
CREATOR_AND_READERS: Acl = [*_security.CREATOR_ALL_ACL, *_security.READ_ACL_UNSAFE]

ServerError: type[Exception] = errors.ZookeeperError
NoNode: type[Exception] = errors.NoNodeError
NodeExists: type[Exception] = errors.NodeExistsError
NotEmpty: type[Exception] = errors.NotEmptyError
BadVersion: type[Exception] = errors.BadVersionError
Unimplemented: type[Exception] = errors.UnimplementedError
ORDINARY = (NoNode, NodeExists, NotEmpty, BadVersion, Unimplemented)
"""Answers that the recipe understands; any other error is a surprise."""


class Request(Protocol):
    """One message to the server, which knows how to read its answer."""

    type: int

    def serialize(self) -> bytes | bytearray: ...


class Flight:
    """Requests that are sent together, and what became of them."""

    __slots__ = ("_done", "answers", "lost", "missing")

    def __init__(self, count: int, done: Callable[[], None]) -> None:
        self.answers: list[Any] = [None] * count
        self.missing = count
        self.lost = False
        """The connection broke before all were answered."""
        self._done = done

    def answer(self, place: int, value: object) -> None:
        self.answers[place] = value
        self.missing -= 1
        if not self.missing:
            self._done()

    def lose(self) -> None:
        if not self.is_over:
            self.lost = True
            self._done()

    @property
    def is_over(self) -> bool:
        return self.lost or not self.missing


Ask: TypeAlias = Callable[[Sequence[Request], Flight], object]
"""Sends requests at once; nobody waits for the flight."""
Watcher: TypeAlias = Callable[[Ask | None], None]
"""Called once. Without a way to ask, the connection is over."""


class Stat(NamedTuple):
    """What the server knows about a node."""

    czxid: int
    mzxid: int
    ctime_ms: int
    mtime_ms: int
    version: int
    cversion: int
    aversion: int
    session: int
    """The session that an ephemeral node lives with, else 0."""
    size: int
    children: int
    pzxid: int


class _Container(_messages.Create2):  # type: ignore[misc]  # kazoo has no types
    type = 19  # createContainer: a node that the server removes when its last child has gone


_WRITES = {
    1,
    _Container.type,
    _messages.Create2.type,
    _messages.Delete.type,
    _messages.SetData.type,
    _messages.Transaction.type,
}


def is_write(request: Request) -> bool:
    """Whether its answer proves that a majority of the ensemble took part."""
    return request.type in _WRITES


def create(path: str, data: bytes, acl: Acl) -> Request:
    """A contender. Answered with its path and its Stat."""
    request: Request = _messages.Create2(path, data, acl, EPHEMERAL_SEQUENTIAL)
    return request


def create_folder(path: str, acl: Acl, container: bool) -> Request:
    kind = _Container if container else _messages.Create2
    request: Request = kind(path, b"", acl, CONTAINER if container else 0)
    return request


def create_plain(path: str, acl: Acl) -> Request:
    request: Request = _messages.Create2(path, b"", acl, 0)
    return request


def delete(path: str) -> Request:
    request: Request = _messages.Delete(path, -1)
    return request


def exists(path: str) -> Request:
    """Answered with a Stat, or None."""
    request: Request = _messages.Exists(path, None)
    return request


def get(path: str, watcher: Watcher | None = None) -> Request:
    """Answered with data and Stat. The watcher is called once, when the node changes or goes."""
    request: Request = _messages.GetData(path, watcher)
    return request


def put(path: str, data: bytes, version: int = -1) -> Request:
    request: Request = _messages.SetData(path, data, version)
    return request


def check(path: str) -> Request:
    """That a node exists; only inside a transaction."""
    request: Request = _messages.CheckVersion(path, -1)
    return request


def children(path: str) -> Request:
    """Answered with the names of all children."""
    request: Request = _messages.GetChildren(path, None)
    return request


def sync(path: str) -> Request:
    """Have the server catch up with its leader before it answers what comes next."""
    request: Request = _messages.Sync(path)
    return request


def together(operations: Sequence[Request]) -> Request:
    """All or nothing. Answered with a list; where it failed, the errors stand in it."""
    request: Request = _messages.Transaction(operations)
    return request


def connect(zxid: int, timeout_ms: int, session: int, password: bytes) -> bytes:
    """The first message of a connection."""
    return bytes(_messages.Connect(0, zxid, timeout_ms, session, password, False).serialize())


def read_welcome(frame: bytes) -> tuple[int, int, bytes]:
    """Timeout in milliseconds, session and password; a timeout of 0 says that it has expired."""
    answer, _ = _messages.Connect.deserialize(frame, 0)
    return answer.time_out, answer.session_id, answer.passwd


def authenticate(scheme: str, credential: str) -> Request:
    request: Request = _messages.Auth(0, scheme, credential)
    return request


PING: Request = _messages.PingInstance
CLOSE: Request = _messages.CloseInstance


def read_header(frame: bytes) -> tuple[int, int, int, int]:
    """Number of the request, zxid, error code, and where the answer begins."""
    (xid, zxid, code), offset = _messages.ReplyHeader.deserialize(frame, 0)
    return xid, zxid, code, offset


def read_event(frame: bytes, offset: int) -> str:
    """The path of the node that was watched: it has changed, or is gone."""
    event, _ = _messages.Watch.deserialize(frame, offset)
    return str(event.path)


def read_answer(request: Any, code: int, frame: bytes, offset: int) -> Any:
    """What a request is answered with; errors of the server are values here."""
    if code == NoNode.code and request.type == _messages.Exists.type:  # type: ignore[attr-defined]
        return None
    if code:
        return errors.EXCEPTIONS[code]() if code in errors.EXCEPTIONS else ServerError(code)
    if not hasattr(request, "deserialize"):
        return None
    answer: Any = request.deserialize(frame, offset)
    if hasattr(answer, "czxid"):
        return Stat(*answer)
    return (answer[0], Stat(*answer[1])) if type(answer) is tuple else answer


def watcher_of(request: Any) -> tuple[str, Watcher] | None:
    """The path and the function of a request that watches."""
    watcher = getattr(request, "watcher", None)
    return None if watcher is None else (request.path, watcher)
