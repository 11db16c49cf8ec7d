"""The ASGI application: bytes to a Call, and an Answer to bytes.

Here is all that the service knows of HTTP. Any ASGI server may run it. Order of the checks: host,
path, credentials, media type, size; so that nothing is read for a client that may not call.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from functools import cache
from typing import Any, TypeAlias
from urllib.parse import parse_qsl

import msgspec

from ..errors import OutcomeUnknown
from ..observe import Event
from ..telemetry import Registry
from ..telemetry.text import MEDIA_TYPE as TEXT
from ..web.files import File, of_page
from ..world import sleep
from . import calls, openapi
from .access import ANONYMOUS, Identity
from .call import Answer, Call
from .calls import Entry
from .handlers import Service
from .problems import MEDIA_TYPE, RETRY_IN_S, Problem

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]

JSON = "application/json"
BODY_S = 10.0  # within which a body has to arrive
QUERY_MAX = 4_096
TURNS = 4  # of the loop, until the end of a connection has come to the watch of its call
SECRETS = {"token", "access_token", "authorization", "api_key", "key", "password"}
HEADERS = (
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
)
_log = logging.getLogger("fencelock.service")
_encode = msgspec.json.Encoder().encode


class App:
    """The application of one node."""

    def __init__(self, service: Service, hosts: frozenset[str] | None) -> None:
        self.service = service
        self.registry = Registry()
        """Counts the calls, and events too once the server has started it."""
        self.hosts = hosts
        """Host names by which clients may call this service; None allows all."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        reader = _RequestReader(self.service, receive)
        began = self.service.node.world.now()
        try:
            try:
                answer = await self._answer(scope, reader)
            except Problem as problem:
                answer = _told(problem)
            except asyncio.CancelledError:
                if _is_cancelled():
                    raise
                answer = _told(Problem("outcome-unknown", retry_in=RETRY_IN_S))
            except Exception as error:
                answer = _told(self._defect(error))
            if answer.undelivered is not None and await reader.is_gone():
                await answer.undelivered()
            self._count(str(scope["path"]), answer.status, began)
            await self._send(answer, send)
        finally:
            reader.close()

    def _count(self, path: str, status: int, began: float) -> None:
        """Count a call that was answered."""
        seconds, call = self.service.node.world.now() - began, calls.label(path)
        self.registry.add(Event("call", "", seconds=seconds, verb=call, outcome=str(status)))

    async def _answer(self, scope: Scope, reader: _RequestReader) -> Answer:
        node = self.service.node
        received_at = node.world.now()
        headers = _headers(scope)
        path, method = _path(scope), str(scope["method"])
        if path in ("/healthz", "/readyz") and method in ("GET", "HEAD"):
            return await self._health(path)
        self._check_host(headers)
        if path == "/openapi.json" and method == "GET":
            return Answer(openapi.document())
        if path == "/metrics" and method == "GET":
            return await self._metrics(headers, str((scope.get("client") or ("", 0))[0]))
        query = _query(bytes(scope.get("query_string", b"")))
        if method in ("GET", "HEAD"):
            known = headers.get("if-none-match", "")
            if (page := _page(path, node.access.is_open, known)) is not None:
                return page
        entry = calls.find(path, method)
        peer = str((scope.get("client") or ("", 0))[0])
        identity = await self._identify(headers, peer)
        data = await self._body(entry, headers, reader)
        call = Call(
            identity,
            peer,
            query,
            received_at,
            node.world.signal(),
            exact=headers.get("fencelock-names") == "exact",
            resolves=headers.get("fencelock-undelivered") == "keep",
            last_event=headers.get("last-event-id", ""),
        )
        if entry.waits:
            reader.watch(call)
        return await calls.answer(self.service, entry, call, data)

    async def _metrics(self, headers: Mapping[str, str], peer: str) -> Answer:
        """Answer with the metrics of this node, to an identity that may observe all names."""
        identity = await self._identify(headers, peer)
        if not identity.may("observe", ""):
            raise Problem("forbidden")
        return Answer(self.registry.text().encode(), headers=(("Content-Type", TEXT),))

    async def _identify(self, headers: Mapping[str, str], peer: str) -> Identity:
        """Return the identity of the caller; delay the answer to a failed login."""
        node = self.service.node
        try:
            return node.access.identify(headers)
        except Problem:
            now = node.world.now()
            node.failed_logins.add(peer, now)
            await sleep(node.world, node.access.failed(peer, now))
            raise

    def _check_host(self, headers: Mapping[str, str]) -> None:
        host = headers.get("host", "").lower()
        name = host.partition("]")[0] + "]" if host.startswith("[") else host.partition(":")[0]
        if self.hosts is not None and name not in self.hosts:
            raise Problem("wrong-host")

    async def _body(
        self, entry: Entry, headers: Mapping[str, str], reader: _RequestReader
    ) -> bytes:
        most = self.service.node.limits.body_max if entry.body else 0
        if entry.body is not None:
            media = headers.get("content-type", "").partition(";")[0].strip().lower()
            if media != JSON or headers.get("content-encoding", "identity") != "identity":
                raise Problem("unsupported-media-type")
        length = headers.get("content-length", "0")
        if not length.isascii() or not length.isdigit() or int(length[:20]) > most:
            raise Problem("too-large" if most else "malformed", headers={"Connection": "close"})
        world = self.service.node.world
        try:
            with world.until(world.now() + BODY_S):  # shares a timer: one for each would cost more
                return await reader.body(most)
        except OutcomeUnknown:
            raise Problem("slow-request", headers={"Connection": "close"}) from None

    async def _health(self, path: str) -> Answer:
        """Answer ``/healthz``: the event loop runs, or ``/readyz``: calls would be served."""
        if path == "/healthz":
            return Answer({"schema": 1, "ok": True})
        node = self.service.node
        engine = await node.probe()
        if not node.auditor.writable:  # while no client is sent here, nothing else would try
            node.auditor.write("resumed", ANONYMOUS.name, "", {})
        facts = {"engine": engine, "draining": node.draining, "audit": node.auditor.writable}
        ready = engine and not node.draining and node.auditor.writable
        return Answer({"schema": 1, "ok": ready, **facts}, 200 if ready else 503)

    def _defect(self, error: Exception) -> Problem:
        """Log a defect of ours, and return a problem with a reference to the log."""
        reference = self.service.node.world.owner()[:12]
        _log.error("a call failed [%s]", reference, exc_info=error)
        return Problem("internal", f"Reference {reference}", reference=reference)

    async def _send(self, answer: Answer, send: Send) -> None:
        body = answer.body
        data = b"" if answer.stream else body if isinstance(body, bytes) else _encode(body)
        given = [(name.encode(), value.encode("latin-1")) for name, value in answer.headers]
        names = {name.lower() for name, _ in given}
        if b"content-type" not in names:
            given.append((b"content-type", JSON.encode()))
        if self.service.node.draining and b"connection" not in names:
            given.append((b"connection", b"close"))
        if answer.stream is None:
            given.append((b"content-length", str(len(data)).encode()))
        headers = [*(one for one in HEADERS if one[0] not in names), *given]
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        if answer.stream is not None:
            async with contextlib.aclosing(answer.stream) as pieces:
                async for piece in pieces:
                    await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": data})


class _RequestReader:
    """Reads the body of a request, then watches whether its client disconnects."""

    def __init__(self, service: Service, receive: Receive) -> None:
        self._service = service
        self._receive = receive
        self._watch: asyncio.Task[None] | None = None
        self._call: Call | None = None
        self._gone = False

    async def body(self, most: int) -> bytes:
        data, more = bytearray(), True
        while more:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                self._gone = True
                raise Problem("malformed", "The client hung up")
            data += message.get("body", b"")
            more = bool(message.get("more_body", False))
            if len(data) > most:
                kind = "too-large" if most else "malformed"
                raise Problem(kind, headers={"Connection": "close"})
        return bytes(data)

    def watch(self, call: Call) -> None:
        """Mark the call as gone when its client disconnects."""
        self._call = call
        self._watch = asyncio.get_running_loop().create_task(self._until_gone(call))

    async def _until_gone(self, call: Call) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._gone = True
        call.hang_up()

    async def is_gone(self) -> bool:
        """Return whether the client has disconnected by now."""
        if self._watch is not None:
            for _ in range(TURNS):
                await asyncio.sleep(0)
        return self._gone

    def close(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
        if self._call is not None:
            self._service.node.finish(self._call)


def _is_cancelled() -> bool:
    """Return whether this task was cancelled, and not something that it waited for."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _page(path: str, is_open: bool, known: str) -> Answer | None:
    """Answer with a file of the dashboard, or with 304 if the client has it already; None if there
    is no such file.

    The page has a mark of whether everybody may call: then it needs no token.
    """
    file = _files(is_open).get(path)
    if file is None:
        return None
    if known == file.tag:
        return Answer(b"", 304, file.headers)
    return Answer(file.data, 200, file.headers)


@cache
def _files(is_open: bool) -> dict[str, File]:
    marks = (b'data-identities="yes"', b'data-identities="no"') if is_open else (b"", b"")
    return of_page("service", marks=marks)


def _told(problem: Problem) -> Answer:
    headers = {"Content-Type": MEDIA_TYPE, **problem.headers}
    if problem.retry_in is not None:
        headers["Retry-After"] = str(max(0, -int(-problem.retry_in // 1)))
    return Answer(problem.body(), problem.status, tuple(headers.items()))


def _path(scope: Scope) -> str:
    """Return the path as it was sent: no call has escapes in its path, so none has two spellings.

    With another spelling, a client could bypass a proxy that filters paths.
    """
    return bytes(scope.get("raw_path") or str(scope["path"]).encode()).decode("latin-1")


def _headers(scope: Scope) -> dict[str, str]:
    """Return the headers by lower-case name. One that must be unique and is not is malformed."""
    headers: dict[str, str] = {}
    for name, value in scope["headers"]:
        text = name.decode("latin-1").lower()
        if text in headers and text in ("authorization", "host", "content-length", "content-type"):
            raise Problem("malformed", f"The header {text} is given twice")
        headers[text] = value.decode("latin-1")
    return headers


def _query(text: bytes) -> dict[str, str]:
    """Parse the parameters of a URL; a credential among them is refused, since URLs are logged."""
    if not text:
        return {}
    if len(text) > QUERY_MAX:
        raise Problem("uri-too-long")
    try:
        pairs = parse_qsl(
            text.decode("ascii"), keep_blank_values=True, strict_parsing=True, errors="strict"
        )
    except ValueError:
        raise Problem("malformed", "The query cannot be read") from None
    query = dict(pairs)
    if len(query) != len(pairs):
        raise Problem("malformed", "A parameter is given twice")
    if SECRETS & {name.lower() for name in query}:
        raise Problem("malformed", "A token goes into the header Authorization, never into a URL")
    return query
