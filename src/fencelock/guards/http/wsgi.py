"""The guard of a WSGI application: requests with a stale fence do not reach it.

The same as ``asgi.py``, for servers of threads. A request is done when the server has closed its
response, as WSGI demands of it; until then no other one for the same resource begins.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator
from inspect import iscoroutinefunction
from typing import Any, TypeAlias

from ...errors import EngineError, OutcomeUnknown, StaleFence, UsageError
from . import problem
from .holds import Busy, ThreadHolds
from .marks import Marks, MemoryMarks
from .problem import Problem
from .rules import HOLD_TIMEOUT_S, NAME, TOKEN, TOKEN_OTHER, make_rules

__all__ = ["FencingMiddleware"]

Environ: TypeAlias = dict[str, Any]
Start: TypeAlias = Callable[..., Any]
App: TypeAlias = Callable[[Environ, Start], Iterable[bytes]]

FENCE_KEY = "fencelock.fence"
NAME_KEY = "fencelock.name"

_TOKENS = tuple("HTTP_" + header.upper().replace("-", "_") for header in (TOKEN, TOKEN_OTHER))
_NAME = "HTTP_" + NAME.upper().replace("-", "_")
_log = logging.getLogger("fencelock.guards.http")


class FencingMiddleware:
    """``FencingMiddleware(app, marks=RedisGuard(client))``.

    ``key`` tells the resource of a request from its environ, or None for one that is not guarded;
    by default it is the path. ``methods`` need a fence, by default all that are not safe; with
    ``reads`` the others are checked when they bring one. ``match_name`` refuses fences of a lock
    that is not named as the resource. ``hold=False`` lets requests for one resource overlap.
    """

    def __init__(
        self,
        app: App,
        marks: Marks | None = None,
        *,
        key: Callable[[Environ], str | None] | None = None,
        methods: Collection[str] | None = None,
        reads: bool = False,
        match_name: bool = False,
        hold: bool = True,
        hold_timeout: float = HOLD_TIMEOUT_S,
    ) -> None:
        store = MemoryMarks() if marks is None else marks
        if iscoroutinefunction(store.enter):
            raise UsageError(f"{type(store).__name__} is for asyncio; WSGI takes its blocking twin")
        self._app = app
        self._marks = store
        self._rules = make_rules(methods, reads, match_name, hold, hold_timeout)
        self._key = key or _path
        self._holds = ThreadHolds()

    def __call__(self, environ: Environ, start_response: Start) -> Iterable[bytes]:
        name = self._key(environ)
        if name is None:
            return self._app(environ, start_response)
        tokens = [environ[header] for header in _TOKENS if header in environ]
        names = [environ[_NAME]] if _NAME in environ else []
        verdict = self._rules.read(environ["REQUEST_METHOD"], tokens, names, name)
        if verdict is None:
            return self._app(environ, start_response)
        if isinstance(verdict, Problem):
            return _answer(start_response, verdict)
        return self._guarded(name, verdict, environ, start_response)

    def _guarded(
        self, name: str, fence: int, environ: Environ, start_response: Start
    ) -> Iterable[bytes]:
        leave = self._hold(name)
        if leave is None:
            return _answer(start_response, problem.busy())
        try:
            refusal = self._refusal(name, fence)
            if refusal is None:
                environ = {**environ, FENCE_KEY: fence, NAME_KEY: name}
                return Response(self._app(environ, start_response), leave)
        except BaseException:
            leave()
            raise
        leave()
        return _answer(start_response, refusal)

    def _hold(self, name: str) -> Callable[[], None] | None:
        """Have the resource to ourselves; what lets go of it, or None when it was not free."""
        if not self._rules.hold:
            return lambda: None
        try:
            self._holds.enter(name, self._rules.hold_timeout)
        except Busy:
            return None
        return lambda: self._holds.leave(name)

    def _refusal(self, name: str, fence: int) -> Problem | None:
        try:
            self._marks.enter(fence, name=name)
        except StaleFence as error:
            return problem.stale(error)
        except (EngineError, OutcomeUnknown) as error:
            _log.error("a request for %r was refused, the marks cannot be reached: %s", name, error)
            return problem.unreachable()
        except UsageError:
            return problem.malformed("The marks of this server cannot be kept under such a name.")
        return None


class Response:
    """The application's response, which lets the next request in when it is closed."""

    def __init__(self, body: Iterable[bytes], leave: Callable[[], None]) -> None:
        self._body = body
        self._leave: Callable[[], None] | None = leave

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._body)

    def close(self) -> None:
        leave, self._leave = self._leave, None
        try:
            close = getattr(self._body, "close", None)
            if close is not None:
                close()
        finally:
            if leave is not None:
                leave()

    __del__ = close  # a server that forgets to close must not shut the resource for ever


def _path(environ: Environ) -> str:
    raw = str(environ.get("SCRIPT_NAME", "")) + str(environ.get("PATH_INFO", ""))
    return raw.encode("latin-1").decode("utf-8", "replace") or "/"


def _answer(start_response: Start, refusal: Problem) -> Iterable[bytes]:
    start_response(refusal.line, refusal.headers())
    return [refusal.body]
