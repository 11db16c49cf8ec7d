"""The guard of an ASGI application: requests with a stale fence do not reach it.

The order for each guarded request: wait until no other is at work on the same resource in this
process, raise the mark, call the application, let the next one in when it is done.

That is atomic in one process. Several processes share a store of marks but not each other's turn:
there the application should carry the fence, ``scope["fencelock.fence"]``, into the transaction
that writes, where a guard of the database has the last word.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, MutableMapping
from inspect import iscoroutinefunction
from typing import Any, TypeAlias

from ...errors import EngineError, OutcomeUnknown, StaleFence, UsageError
from . import problem
from .holds import Busy, TaskHolds
from .marks import AsyncMarks, Marks, MemoryMarks
from .problem import Problem
from .rules import HOLD_TIMEOUT_S, NAME, TOKEN, TOKEN_OTHER, make_rules

__all__ = ["FencingMiddleware"]

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

FENCE_KEY = "fencelock.fence"
NAME_KEY = "fencelock.name"

_TOKENS = (TOKEN.lower().encode(), TOKEN_OTHER.lower().encode())
_NAME = NAME.lower().encode()
_log = logging.getLogger("fencelock.guards.http")


class FencingMiddleware:
    """``FencingMiddleware(app, marks=AsyncRedisGuard(client))``.

    ``key`` tells the resource of a request from its scope, or None for one that is not guarded; by
    default it is the path. ``methods`` need a fence, by default all that are not safe; with
    ``reads`` the others are checked when they bring one. ``match_name`` refuses fences of a lock
    that is not named as the resource. ``hold=False`` lets requests for one resource overlap.
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
    ) -> None:
        self._app = app
        self._rules = make_rules(methods, reads, match_name, hold, hold_timeout)
        self._key = key
        self._holds = TaskHolds()
        self._enter = _entrance(MemoryMarks() if marks is None else marks)

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
        else:
            await self._guarded(name, verdict, scope, receive, send)

    def _read(self, scope: Scope, name: str) -> int | Problem | None:
        tokens: list[str] = []
        names: list[str] = []
        for header, value in scope["headers"]:
            if header in _TOKENS:
                tokens.append(value.decode("latin-1"))
            elif header == _NAME:
                names.append(value.decode("latin-1"))
        return self._rules.read(scope["method"], tokens, names, name)

    async def _guarded(
        self, name: str, fence: int, scope: Scope, receive: Receive, send: Send
    ) -> None:
        holds = self._rules.hold
        if holds:
            try:
                await self._holds.enter(name, self._rules.hold_timeout)
            except Busy:
                await _answer(send, problem.busy())
                return
        try:
            refusal = await self._refusal(name, fence)
            if refusal is None:
                await self._app({**scope, FENCE_KEY: fence, NAME_KEY: name}, receive, send)
        finally:
            if holds:
                self._holds.leave(name)
        if refusal is not None:
            await _answer(send, refusal)

    async def _refusal(self, name: str, fence: int) -> Problem | None:
        try:
            await self._enter(fence, name)
        except StaleFence as error:
            return problem.stale(error)
        except (EngineError, OutcomeUnknown) as error:
            _log.error("a request for %r was refused, the marks cannot be reached: %s", name, error)
            return problem.unreachable()
        except UsageError:
            return problem.malformed("The marks of this server cannot be kept under such a name.")
        return None


def _entrance(marks: Marks | AsyncMarks) -> Callable[[int, str], Awaitable[None]]:
    """How to enter: a store that blocks is asked in a thread."""
    enter: Callable[..., Any] = marks.enter

    async def awaited(fence: int, name: str) -> None:
        await enter(fence, name=name)

    async def direct(fence: int, name: str) -> None:
        enter(fence, name=name)

    async def threaded(fence: int, name: str) -> None:
        await asyncio.to_thread(enter, fence, name=name)

    if iscoroutinefunction(enter):
        return awaited
    return threaded if getattr(marks, "blocks", True) else direct


async def _answer(send: Send, refusal: Problem) -> None:
    headers = [(k.lower().encode(), v.encode()) for k, v in refusal.headers()]
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": refusal.body})
