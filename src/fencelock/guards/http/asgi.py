"""Guard an ASGI application: requests with a stale fence do not reach it.

The steps of each guarded request: wait until no other acts on the same resource in this process,
compare its fence with the mark, call the application, raise the mark when the application accepts,
before its response is sent, and give the turn to the next request at the end.

The mark is not raised earlier: otherwise any client could shut out every holder with the highest
possible fence, though the application answers 401. No other request comes between the comparison
and the raise, because the turn is held all the time. If clients are authorized beforehand, by
``authorize``, the mark is raised before the application is called.

That is atomic in one process. Several processes share a store of marks but not the turns: there the
application should pass the fence, ``scope["fencelock.fence"]``, to a guard of the database in the
transaction that writes, which then decides; ``scope["fencelock.reading"]`` is its ``reading=``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, MutableMapping
from inspect import isawaitable, iscoroutinefunction
from typing import Any, TypeAlias

from ...errors import FencelockError
from ..fence import claim
from . import problem
from .holds import Busy, TaskHolds
from .marks import (
    AsyncMarks,
    Marks,
    MemoryMarks,
    as_reader,
    check_store,
    takes_readers,
)
from .problem import Problem
from .rules import (
    HOLD_TIMEOUT_S,
    NAME,
    ROLE,
    TOKEN,
    TOKEN_OTHER,
    Token,
    make_rules,
    may_have_acted,
)

__all__ = ["FencingMiddleware"]

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

FENCE_KEY = "fencelock.fence"
NAME_KEY = "fencelock.name"
READING_KEY = "fencelock.reading"

_TOKENS = (TOKEN.lower().encode(), TOKEN_OTHER.lower().encode())
_NAME = NAME.lower().encode()
_ROLE = ROLE.lower().encode()


class FencingMiddleware:
    """``FencingMiddleware(app, marks=AsyncRedisGuard(client))``.

    ``key`` returns the resource of a request from its scope, or None for one that is not guarded;
    by default it is the path. ``methods`` need a fence, by default all that are not safe; with
    ``reads`` other requests are checked if they have one. ``match_name`` refuses fences of a lock
    that is not named like the resource. ``hold=False`` lets requests for one resource overlap.
    ``authorize`` returns from the scope whether the client may act on the resource, and may be
    async: others get 403, and the mark is raised before the application is called, not when it
    accepts.
    """

    def __init__(
        self,
        app: App,
        marks: Marks | AsyncMarks | None = None,
        *,
        key: Callable[[Scope], str | None] | None = None,
        methods: Collection[str] | None = None,
        reads: bool = False,
        match_name: bool = False,
        hold: bool = True,
        hold_timeout: float = HOLD_TIMEOUT_S,
        authorize: Callable[[Scope], bool | Awaitable[bool]] | None = None,
    ) -> None:
        store = MemoryMarks() if marks is None else marks
        check_store(store, authorize is not None)
        self._app = app
        self._authorize = authorize
        self._rules = make_rules(methods, reads, match_name, hold, hold_timeout)
        self._key = key
        self._holds = TaskHolds()
        self._takes_readers = takes_readers(store)
        self._enter = _entrance(store)
        self._check = _comparison(store, self._takes_readers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        name: str | None = scope["path"] if self._key is None else self._key(scope)
        verdict = None if name is None else self._read(scope, name)
        if name is None or verdict is None:
            await self._app(scope, receive, send)
        elif isinstance(verdict, Problem):
            await _answer(send, verdict)
        elif not await self._authorized(scope):
            await _answer(send, problem.forbidden())
        else:
            await self._guarded(name, verdict, scope, receive, send)

    def _read(self, scope: Scope, name: str) -> Token | Problem | None:
        tokens: list[str] = []
        names: list[str] = []
        roles: list[str] = []
        for header, value in scope["headers"]:
            if header in _TOKENS:
                tokens.append(value.decode("latin-1"))
            elif header == _NAME:
                names.append(value.decode("latin-1"))
            elif header == _ROLE:
                roles.append(value.decode("latin-1"))
        found = self._rules.read(scope["method"], tokens, names, roles, name)
        if isinstance(found, Token) and found.reading and not self._takes_readers:
            return problem.readerless()
        return found

    async def _guarded(
        self, name: str, token: Token, scope: Scope, receive: Receive, send: Send
    ) -> None:
        holds = self._rules.hold
        if holds:
            try:
                await self._holds.enter(name, self._rules.hold_timeout)
            except Busy:
                await _answer(send, problem.busy())
                return
        try:
            first = self._check if self._authorize is None else self._enter
            refusal = await self._refusal(first, name, token)
            if refusal is None:
                ours = {FENCE_KEY: token.fence, NAME_KEY: name, READING_KEY: token.reading}
                await self._call(name, token, {**scope, **ours}, receive, send)
        finally:
            if holds:
                self._holds.leave(name)
        if refusal is not None:
            await _answer(send, refusal)

    async def _authorized(self, scope: Scope) -> bool:
        if self._authorize is None:
            return True  # the application decides
        answer = self._authorize(scope)
        return bool(await answer if isawaitable(answer) else answer)

    async def _call(
        self, name: str, token: Token, scope: Scope, receive: Receive, send: Send
    ) -> None:
        if self._authorize is not None:
            await self._app(scope, receive, send)
            return
        answer = _Answer(send, lambda: self._raise(name, token))
        try:
            await self._app(scope, receive, answer.send)
        finally:
            if not answer.judged:  # it failed, or its client hung up: its effect is unknown
                await self._raise(name, token)

    async def _raise(self, name: str, token: Token) -> Problem | None:
        """Raise the mark for a request that the application has accepted."""
        try:
            await self._enter(token, name)
        except FencelockError as error:
            return problem.not_raised(error, name, token.fence)
        return None

    async def _refusal(
        self, look: Callable[[Token, str], Awaitable[None]], name: str, token: Token
    ) -> Problem | None:
        try:
            await look(token, name)
        except FencelockError as error:
            return problem.not_admitted(error, name)
        return None


class _Answer:
    """The application's response, which is sent after the mark is raised if it accepts."""

    def __init__(self, send: Send, accept: Callable[[], Awaitable[Problem | None]]) -> None:
        self._send = send
        self._accept = accept
        self._replaced = False
        self.judged = False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start" and not self.judged:
            refusal = await self._accept() if may_have_acted(message["status"]) else None
            self.judged = True
            if refusal is not None:
                self._replaced = True
                await _answer(self._send, refusal)
        if not self._replaced:
            await self._send(message)


def _entrance(marks: Marks | AsyncMarks) -> Callable[[Token, str], Awaitable[None]]:
    """Return the function that raises a mark; a store that blocks is called in a thread."""
    enter: Callable[..., Any] = marks.enter

    async def awaited(token: Token, name: str) -> None:
        await enter(token.fence, name=name, **as_reader(token.reading))

    async def direct(token: Token, name: str) -> None:
        enter(token.fence, name=name, **as_reader(token.reading))

    async def threaded(token: Token, name: str) -> None:
        await asyncio.to_thread(enter, token.fence, name=name, **as_reader(token.reading))

    if iscoroutinefunction(enter):
        return awaited
    return threaded if getattr(marks, "blocks", True) else direct


def _comparison(
    marks: Marks | AsyncMarks, readers: bool
) -> Callable[[Token, str], Awaitable[None]]:
    """Return the function that compares with a mark; a store that blocks is called in a thread."""

    async def ask(name: str, reading: bool) -> int:
        read: Callable[..., Any] = marks.mark
        how = as_reader(reading)
        if iscoroutinefunction(read):
            mark: int = await read(name, **how)
        elif getattr(marks, "blocks", True):
            mark = await asyncio.to_thread(read, name, **how)
        else:
            mark = read(name, **how)
        return mark

    async def look(token: Token, name: str) -> None:
        # Refuses an invalid name before the store is called.
        theirs = claim(token.fence, name, marks.epoch, token.reading, "http")
        if theirs.mark < (mark := await ask(name, token.reading)):
            written = await ask(name, True) if readers else mark
            raise theirs.stale(mark, "read" if written < mark else "write")

    return look


async def _answer(send: Send, refusal: Problem) -> None:
    headers = [(k.lower().encode(), v.encode()) for k, v in refusal.headers()]
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": refusal.body})
