"""A model of the state of one ZooKeeper server: its znodes, its sessions and its watches.

It is changed by entries of a log, which every member of an ensemble applies in the same order, so
that all have the same state. Each entry carries the time. ``tests/sim/test_zookeeper_model.py``
compares the model's replies with a real server's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from . import zookeeper_wire as wire
from .zookeeper_wire import Op

OK, RUNTIME_INCONSISTENCY, UNIMPLEMENTED, BAD_ARGUMENTS = 0, -2, -6, -8
NO_NODE, BAD_VERSION, NO_CHILDREN_FOR_EPHEMERALS = -101, -103, -108
NODE_EXISTS, NOT_EMPTY, SESSION_EXPIRED, INVALID_ACL = -110, -111, -112, -114
CREATED, DELETED, CHANGED, CHILDREN_CHANGED = 1, 2, 3, 4
EPHEMERAL, SEQUENTIAL, CONTAINER = 1, 2, 4
SYSTEM = ("/zookeeper", "/zookeeper/config", "/zookeeper/quota")

Tell = Callable[[int, str], object]
"""Called with the kind of an event and the path of its znode."""


class Entry(NamedTuple):
    """One entry of the log."""

    zxid: int
    session: int
    op: Op
    time_ms: int


class Answer(NamedTuple):
    """An error code, 0 on success, and the body of the reply."""

    code: int
    body: bytes = b""


class Refused(Exception):
    """An operation is refused, with ZooKeeper's error code."""

    def __init__(self, code: int) -> None:
        self.code = code


class Znode:
    """One znode. ``made`` counts all children that were ever created in it."""

    def __init__(self, data: bytes, zxid: int, time_ms: int, session: int = 0) -> None:
        self.data = data
        self.czxid = self.mzxid = self.pzxid = zxid
        self.ctime_ms = self.mtime_ms = time_ms
        self.version = 0
        self.made = 0
        self.session = session
        self.is_container = False
        self.children: dict[str, None] = {}

    def stat(self) -> bytes:
        count = len(self.children)
        return wire.stat(
            self.czxid,
            self.mzxid,
            self.ctime_ms,
            self.mtime_ms,
            self.version,
            2 * self.made - count,
            0,
            self.session,
            len(self.data),
            count,
            self.pzxid,
        )


class Watches:
    """The one-time watches on data and on children."""

    def __init__(self) -> None:
        self._data: dict[str, dict[Tell, None]] = {}
        self._children: dict[str, dict[Tell, None]] = {}

    def add(self, op: Op, tell: Tell) -> None:
        children = op.kind in (wire.GET_CHILDREN, wire.GET_CHILDREN_2)
        (self._children if children else self._data).setdefault(op.path, {})[tell] = None

    def drop(self, tell: Tell) -> None:
        """Remove all watches of one client."""
        for table in (self._data, self._children):
            for path in [path for path, tells in table.items() if tell in tells]:
                del table[path][tell]
                if not table[path]:
                    del table[path]

    def fire(self, kind: int, path: str) -> None:
        told = {} if kind == CHILDREN_CHANGED else self._data.pop(path, {})
        if kind in (DELETED, CHILDREN_CHANGED):  # a client with both watches gets one event
            told = told | self._children.pop(path, {})
        for tell in told:
            tell(kind, path)


class Tree:
    """All znodes and sessions, and the zxid of the last entry applied."""

    def __init__(self) -> None:
        self.zxid = 0
        self.watches = Watches()
        self.sessions: dict[int, int] = {}
        """The timeout of each session, in milliseconds."""
        self.nodes = {"/": Znode(b"", 0, 0)}
        for path in SYSTEM:
            self._put(path, Znode(b"", 0, 0))
        self._undo: list[Callable[[], object]] = []
        self._events: list[tuple[int, str]] = []

    # Reads

    def read(self, op: Op, tell: Tell) -> Answer:
        """Answer a read, and set its watch if it wants one."""
        node = self.nodes.get(op.path)
        if op.watches and (node is not None or op.kind == wire.EXISTS):
            self.watches.add(op, tell)
        if node is None:
            return Answer(NO_NODE)
        match op.kind:
            case wire.EXISTS:
                return Answer(OK, node.stat())
            case wire.GET_DATA:
                return Answer(OK, wire.buffer(node.data) + node.stat())
            case wire.GET_CHILDREN:
                return Answer(OK, wire.texts(list(node.children)))
            case wire.GET_CHILDREN_2:
                return Answer(OK, wire.texts(list(node.children)) + node.stat())
            case _:
                return Answer(UNIMPLEMENTED)

    # Writes

    def apply(self, entry: Entry) -> Answer:
        """Apply the next entry of the log; watches fire before the entry is answered."""
        self.zxid = entry.zxid
        self._undo, self._events = [], []
        if entry.op.kind == wire.OPEN_SESSION:
            self.sessions[entry.session] = entry.op.version
            return Answer(OK, wire.integer(entry.op.version))
        if entry.op.kind == wire.DELETE_CONTAINER:
            answer = self._remove_container(entry)
        elif entry.session not in self.sessions:
            return Answer(SESSION_EXPIRED)
        elif entry.op.kind == wire.CLOSE:
            answer = self._close(entry)
        elif entry.op.kind == wire.MULTI:
            answer = self._multi(entry)
        else:
            try:
                answer = Answer(OK, self._write(entry.op, entry))
            except Refused as refused:
                answer = Answer(refused.code)
        for kind, path in self._events:
            self.watches.fire(kind, path)
        return answer

    def _write(self, op: Op, entry: Entry) -> bytes:
        match op.kind:
            case wire.CREATE | wire.CREATE_2 | wire.CREATE_CONTAINER:
                return self._create(op, entry)
            case wire.DELETE:
                node = self._found(op.path)
                _check(node, op.version)
                if node.children:
                    raise Refused(NOT_EMPTY)
                self._delete(op.path, entry.zxid)
                return b""
            case wire.SET_DATA:
                return self._set_data(op, entry)
            case wire.CHECK:
                _check(self._found(op.path), op.version)
                return b""
            case _:
                raise Refused(UNIMPLEMENTED)

    def _create(self, op: Op, entry: Entry) -> bytes:
        if op.flags not in range(5) or (op.flags == CONTAINER) != (
            op.kind == wire.CREATE_CONTAINER
        ):
            raise Refused(BAD_ARGUMENTS)
        is_sequential = op.flags != CONTAINER and bool(op.flags & SEQUENTIAL)
        if not op.has_acl:
            raise Refused(INVALID_ACL)
        above = self._found(parent_of(op.path))
        path = f"{op.path}{above.made:010d}" if is_sequential else op.path
        _validate(path)
        if path in self.nodes:
            raise Refused(NODE_EXISTS)
        if above.session:
            raise Refused(NO_CHILDREN_FOR_EPHEMERALS)
        is_ephemeral = op.flags != CONTAINER and bool(op.flags & EPHEMERAL)
        owner = entry.session if is_ephemeral else 0
        node = Znode(op.data, entry.zxid, entry.time_ms, owner)
        node.is_container = op.flags == CONTAINER
        before = above.made, above.pzxid
        self._put(path, node)
        above.made, above.pzxid = above.made + 1, entry.zxid

        def undo() -> None:
            self._take(path)
            above.made, above.pzxid = before

        self._undo.append(undo)
        self._events += [(CREATED, path), (CHILDREN_CHANGED, parent_of(path))]
        return wire.text(path) + (b"" if op.kind == wire.CREATE else node.stat())

    def _delete(self, path: str, zxid: int) -> None:
        above = self.nodes[parent_of(path)]
        before = above.pzxid
        children = dict(above.children)
        node = self._take(path)
        above.pzxid = zxid

        def undo() -> None:
            self.nodes[path], above.children, above.pzxid = node, children, before

        self._undo.append(undo)
        self._events += [(DELETED, path), (CHILDREN_CHANGED, parent_of(path))]

    def _set_data(self, op: Op, entry: Entry) -> bytes:
        _validate(op.path)
        node = self._found(op.path)
        _check(node, op.version)
        before = node.data, node.version, node.mzxid, node.mtime_ms
        node.data, node.version = op.data, node.version + 1
        node.mzxid, node.mtime_ms = entry.zxid, entry.time_ms

        def undo() -> None:
            node.data, node.version, node.mzxid, node.mtime_ms = before

        self._undo.append(undo)
        self._events.append((CHANGED, op.path))
        return node.stat()

    def _multi(self, entry: Entry) -> Answer:
        """Apply all parts of a transaction or none: if one is refused, those before are undone."""
        done: list[bytes] = []
        for place, op in enumerate(entry.op.parts):
            try:
                body = self._write(op, entry)
            except Refused as refused:
                while self._undo:
                    self._undo.pop()()
                self._events = []
                after = len(entry.op.parts) - place - 1
                codes = [OK] * place + [refused.code] + [RUNTIME_INCONSISTENCY] * after
                failed = (wire.part_header(-1, False, code) + wire.integer(code) for code in codes)
                return Answer(OK, b"".join(failed) + wire.part_header(-1, True, -1))
            done.append(wire.part_header(op.kind, False, 0) + body)
        return Answer(OK, b"".join(done) + wire.part_header(-1, True, -1))

    def _close(self, entry: Entry) -> Answer:
        """End a session, and delete its ephemeral znodes."""
        del self.sessions[entry.session]
        for path in list(self.ephemerals(entry.session)):
            self._delete(path, entry.zxid)
        return Answer(OK)

    def _remove_container(self, entry: Entry) -> Answer:
        if entry.op.path in self.unused_containers():
            self._delete(entry.op.path, entry.zxid)
        return Answer(OK)

    def ephemerals(self, session: int) -> Iterator[str]:
        """Iterate over the paths of a session's ephemeral znodes."""
        return (path for path, node in self.nodes.items() if node.session == session)

    def unused_containers(self) -> list[str]:
        """Return the containers that had a child and have none now."""
        return [
            path
            for path, node in self.nodes.items()
            if node.is_container and node.made and not node.children
        ]

    def _found(self, path: str) -> Znode:
        if path not in self.nodes:
            raise Refused(NO_NODE)
        return self.nodes[path]

    def _put(self, path: str, node: Znode) -> None:
        self.nodes[path] = node
        self.nodes[parent_of(path)].children[path.rpartition("/")[2]] = None

    def _take(self, path: str) -> Znode:
        del self.nodes[parent_of(path)].children[path.rpartition("/")[2]]
        return self.nodes.pop(path)


def parent_of(path: str) -> str:
    return path.rpartition("/")[0] or "/"


def _check(node: Znode, version: int) -> None:
    if version not in (-1, node.version):
        raise Refused(BAD_VERSION)


def _validate(path: str) -> None:
    """Refuse a malformed path."""
    names = path.split("/")
    if names[0] or (path != "/" and ("" in names[1:] or "." in names or ".." in names)):
        raise Refused(BAD_ARGUMENTS)
