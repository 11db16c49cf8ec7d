"""Guard a WSGI application: requests with a stale fence do not reach it.

The same as ``asgi.py``, for servers with threads: the steps and their reasons are there. A request
ends when the server closes its response, as WSGI requires; until then no other one for the same
resource begins.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Iterator
from contextlib import contextmanager
from inspect import GEN_CREATED, getgeneratorstate, iscoroutinefunction, isgenerator
from typing import Any, TypeAlias

from ...errors import FencelockError, UsageError
from ..fence import claim
from . import problem
from .holds import Busy, ThreadHolds
from .marks import Marks, MemoryMarks, as_reader, check_store, takes_readers
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

Environ: TypeAlias = dict[str, Any]
Start: TypeAlias = Callable[..., Any]
App: TypeAlias = Callable[[Environ, Start], Iterable[bytes]]

FENCE_KEY = "fencelock.fence"
NAME_KEY = "fencelock.name"
READING_KEY = "fencelock.reading"

_TOKENS = tuple("HTTP_" + header.upper().replace("-", "_") for header in (TOKEN, TOKEN_OTHER))
_NAME, _ROLE = ("HTTP_" + header.upper().replace("-", "_") for header in (NAME, ROLE))


class FencingMiddleware:
    """``FencingMiddleware(app, marks=RedisGuard(client))``.

    ``key`` returns the resource of a request from its environ, or None for one that is not guarded;
    by default it is the path. ``methods`` need a fence, by default all that are not safe; with
    ``reads`` other requests are checked if they have one. ``match_name`` refuses fences of a lock
    that is not named like the resource. ``hold=False`` lets requests for one resource overlap.
    ``authorize`` returns from the environ whether the client may act on the resource: others get
    403, and the mark is raised before the application is called, not when it accepts.
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
        authorize: Callable[[Environ], bool] | None = None,
    ) -> None:
        store = MemoryMarks() if marks is None else marks
        if iscoroutinefunction(store.enter):
            raise UsageError(f"{type(store).__name__} is for asyncio; WSGI takes its blocking twin")
        if iscoroutinefunction(authorize):
            raise UsageError("authorize is an async function, which WSGI cannot await")
        check_store(store, authorize is not None)
        self._app = app
        self._authorize = authorize
        self._marks = store
        self._takes_readers = takes_readers(store)
        self._rules = make_rules(methods, reads, match_name, hold, hold_timeout)
        self._key = key or _path
        self._holds = ThreadHolds()

    def __call__(self, environ: Environ, start_response: Start) -> Iterable[bytes]:
        name = self._key(environ)
        if name is None:
            return self._app(environ, start_response)
        tokens = [environ[header] for header in _TOKENS if header in environ]
        names, roles = ([environ[each]] if each in environ else [] for each in (_NAME, _ROLE))
        verdict = self._rules.read(environ["REQUEST_METHOD"], tokens, names, roles, name)
        if verdict is None:
            return self._app(environ, start_response)
        if isinstance(verdict, Problem):
            return _answer(start_response, verdict)
        if verdict.reading and not self._takes_readers:
            return _answer(start_response, problem.readerless())
        if self._authorize is not None and not self._authorize(environ):
            return _answer(start_response, problem.forbidden())
        return self._guarded(name, verdict, environ, start_response)

    def _guarded(
        self, name: str, token: Token, environ: Environ, start_response: Start
    ) -> Iterable[bytes]:
        leave = self._hold(name)
        if leave is None:
            return _answer(start_response, problem.busy())
        try:
            refusal = self._refusal(name, token)
            if refusal is None:
                ours = {FENCE_KEY: token.fence, NAME_KEY: name, READING_KEY: token.reading}
                environ = {**environ, **ours}
                answer = _Answer(start_response, lambda: self._raise(name, token))
                answer.judged = self._authorize is not None
                with answer.watch():
                    return Response(self._app(environ, answer.start), leave, answer)
        except BaseException:
            leave()
            raise
        leave()
        return _answer(start_response, refusal)

    def _hold(self, name: str) -> Callable[[], None] | None:
        """Hold the resource and return the function that ends that; None if it was not free."""
        if not self._rules.hold:
            return lambda: None
        try:
            self._holds.enter(name, self._rules.hold_timeout)
        except Busy:
            return None
        return lambda: self._holds.leave(name)

    def _raise(self, name: str, token: Token) -> Problem | None:
        """Raise the mark for a request that the application has accepted."""
        try:
            self._enter(name, token)
        except FencelockError as error:
            return problem.not_raised(error, name, token.fence)
        return None

    def _refusal(self, name: str, token: Token) -> Problem | None:
        try:
            if self._authorize is not None:
                self._enter(name, token)
            else:
                self._compare(name, token)
        except FencelockError as error:
            return problem.not_admitted(error, name)
        return None

    def _compare(self, name: str, token: Token) -> None:
        """Compare a fence with the mark, without raising it."""
        theirs = claim(token.fence, name, self._marks.epoch, token.reading, "http")
        ask: Callable[..., int] = self._marks.mark
        if theirs.mark < (mark := ask(name, **as_reader(token.reading))):
            written = ask(name, reading=True) if self._takes_readers else mark
            raise theirs.stale(mark, "read" if written < mark else "write")

    def _enter(self, name: str, token: Token) -> None:
        enter: Callable[..., Any] = self._marks.enter
        enter(token.fence, name=name, **as_reader(token.reading))


class _Answer:
    """The application's response, which is started after the mark is raised if it accepts."""

    def __init__(self, start_response: Start, accept: Callable[[], Problem | None]) -> None:
        self._start = start_response
        self._accept = accept
        self.judged = False
        self.refusal: Problem | None = None

    def start(self, status: str, *more: Any) -> Any:
        """Start the response: WSGI's ``start_response``."""
        if not self.judged:
            self.refusal = self._accept() if may_have_acted(int(status[:3])) else None
            self.judged = True
            if self.refusal is not None:
                self._start(self.refusal.status_line, self.refusal.headers())
        return self._start(status, *more) if self.refusal is None else _ignore

    @contextmanager
    def watch(self) -> Generator[None, None, None]:
        """Raise the mark if the application fails before it responds: its effect is unknown."""
        try:
            yield
        except BaseException:
            self.presume_accepted()
            raise

    def presume_accepted(self) -> None:
        """Raise the mark unless the application has responded: its effect is unknown."""
        if not self.judged:
            self.judged = True
            self._accept()


class Response:
    """The body of the response, which gives the turn to the next request when it is closed."""

    def __init__(self, body: Iterable[bytes], leave: Callable[[], None], answer: _Answer) -> None:
        self._body = body
        self._leave: Callable[[], None] | None = leave
        self._answer = answer

    def __iter__(self) -> Iterator[bytes]:
        with self._answer.watch():
            for piece in self._body:
                if self._answer.refusal is not None:
                    break
                yield piece
        if self._answer.refusal is not None:
            yield self._answer.refusal.body

    def close(self) -> None:
        leave, self._leave = self._leave, None
        body, has_begun = self._body, True
        if isgenerator(body):  # the server closes it unread if the client has hung up
            has_begun = getgeneratorstate(body) != GEN_CREATED
        try:
            close = getattr(body, "close", None)
            if close is not None:
                close()
        finally:
            try:
                if has_begun and leave is not None:
                    self._answer.presume_accepted()
            finally:
                if leave is not None:
                    leave()

    __del__ = close  # a server that forgets to close must not block the resource forever


def _ignore(_: bytes) -> None:
    """The ``write`` callable of WSGI for an application whose response was replaced."""


def _path(environ: Environ) -> str:
    raw = str(environ.get("SCRIPT_NAME", "")) + str(environ.get("PATH_INFO", ""))
    return raw.encode("latin-1").decode("utf-8", "replace") or "/"


def _answer(start_response: Start, refusal: Problem) -> Iterable[bytes]:
    start_response(refusal.status_line, refusal.headers())
    return [refusal.body]
