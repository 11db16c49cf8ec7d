"""The world of threads: every verb does its blocking work in the calling thread.

Nothing here ever suspends a coroutine, so ``drive()`` needs no event loop: it runs a coroutine to
its end in one go. A coroutine that does suspend was written for another world, and ``drive()``
names the culprit.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Awaitable, Callable, Coroutine, Generator, Hashable, Sequence
from functools import partial
from operator import attrgetter
from types import FrameType, coroutine
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

from ..errors import UsageError
from ..wires.daemon_thread import start_daemon
from ..wires.thread_flag import ThreadFlag
from ..world import NO_LIMIT, Adopted, Flavor, Job, Signal
from . import clock
from .host import HostWorld

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

T = TypeVar("T")
P = ParamSpec("P")
R = TypeVar("R")

CLOSES_MAX = 10


def drive(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end in this thread; refuse one that suspends."""
    result: list[T] = []
    for awaited in _run(work, result):
        where = _innermost(work)
        _close(work)
        raise RuntimeError(
            f"{where} suspended on {awaited!r} in a world of threads: "
            "only the verbs of World may be awaited in protocol code"
        )
    return result[0]


def _await(work: Any, result: list[Any]) -> Generator[object, None, None]:
    """Keep the result of a coroutine, and yield what it suspends on: nothing.

    Waiting for it in here costs half of what catching its StopIteration would.
    """
    result.append((yield from work))


_run: Callable[[Any, list[Any]], Generator[object, None, None]]
_run = cast("Any", coroutine)(_await)  # only such a generator may wait for a coroutine


def _close(work: Coroutine[Any, Any, Any]) -> None:
    """Close a coroutine that may suspend again, a few times, while it cleans up."""
    for _ in range(CLOSES_MAX):
        try:
            work.close()
            break
        except RuntimeError:  # "coroutine ignored GeneratorExit"
            pass


def _innermost(work: Any) -> str:
    names: list[str] = []
    while work is not None:
        names.append(getattr(work, "__qualname__", type(work).__qualname__))
        work = getattr(work, "cr_await", None)
    return " > ".join(names)


class _Thread:
    """A job that runs in a daemon thread of its own."""

    def __init__(self, work: Coroutine[Any, Any, None], label: str) -> None:
        self._work = work
        self._ended = ThreadFlag()
        self._ident = 0
        try:
            start_daemon(self._run, label)
        except RuntimeError:  # no thread left: the caller decides, the coroutine must not leak
            work.close()
            raise

    def _run(self) -> None:
        self._ident = threading.get_ident()
        try:
            drive(self._work)
        finally:
            self._ended.set()

    async def join(self, deadline: float | None) -> bool:
        if self._ident == threading.get_ident() and not self._ended.is_set():
            return False
        return self._ended.is_set() or self._ended.wait(
            None if deadline is None else max(0.0, deadline - clock.now())
        )


class _Inline:
    """An adopted client: in a world of threads a blocking call is simply made."""

    async def __call__(self, method: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        return method(*args, **kwargs)

    async def close(self) -> None:
        """Do nothing: there is no thread to end."""


class _Token:
    """Stands for one thread. Its ident is used again after it has ended; this is not."""

    __slots__ = ("__weakref__",)


class _ThreadState:
    """The state of one thread."""

    __slots__ = ("block", "limit", "token")

    def __init__(self) -> None:
        self.token = _Token()
        self.limit = NO_LIMIT
        self.block: FrameType | None = None
        """The frame whose ``until`` block this thread is in."""


class _OfThread(threading.local):
    """The state of the calling thread. One look-up costs more than all that is done with it."""

    def __init__(self) -> None:
        self.state = _ThreadState()


class _Until:
    """A block whose waits end by a moment.

    An exception from a signal handler may end a block before ``__exit__`` has done anything. So a
    block counts only while its frame is still on the stack, and a limit only within a block.
    """

    __slots__ = ("_moment", "_state")

    def __init__(self, thread: _OfThread, moment: float) -> None:
        self._state = thread.state
        self._moment = moment

    def __enter__(self) -> None:
        state, frame = self._state, sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
        if state.block is not None and _is_within(state.block, frame):
            raise UsageError(
                "this thread is inside a call of the same client: a signal handler or a destructor "
                "that uses the client would wait for itself. Set a flag there, and use the client "
                "after the call has returned; nothing was sent"
            )
        state.limit = self._moment
        state.block = frame

    def __exit__(self, *_: object) -> None:
        state = self._state
        state.block = None
        state.limit = NO_LIMIT


def _is_within(block: FrameType, frame: FrameType | None) -> bool:
    """Return whether a frame was called from within a block, directly or not."""
    while frame is not None:
        if frame is block:
            return True
        frame = frame.f_back
    return False


class ThreadsWorld(HostWorld):
    """World for ordinary blocking programs."""

    flavor: Flavor = "threads"
    cancels = False

    def __init__(self) -> None:
        super().__init__()
        self._thread = thread = _OfThread()
        self.who: Callable[[], Hashable] = partial(attrgetter("state.token"), thread)
        self.limit: Callable[[], float] = partial(attrgetter("state.limit"), thread)
        self.until: Callable[[float], AbstractContextManager[object]] = partial(_Until, thread)
        self._inline = _Inline()

    def stalls(self) -> str:
        events = sys.modules.get("asyncio.events")
        if events is None or events._get_running_loop() is None:
            return ""
        return "it stops every task of the event loop of this thread: use fencelock.aio there"

    def facts(self) -> dict[str, str | int | float | bool | None]:
        return {**self.identity(), "thread": threading.current_thread().name}

    def signal(self) -> Signal:
        return ThreadFlag()

    async def wait(self, signal: Signal, deadline: float | None) -> bool:
        assert isinstance(signal, ThreadFlag)
        if signal.is_set():
            return True
        moment = min(NO_LIMIT if deadline is None else deadline, self.limit())
        return signal.wait(None if moment == NO_LIMIT else max(0.0, moment - self.now()))

    def unbound(self) -> None:
        state = self._thread.state
        state.block = None
        state.limit = NO_LIMIT

    async def gather(
        self,
        thunks: Sequence[Callable[[], Awaitable[T]]],
        deadline: float,
        enough: Callable[[Sequence[T | Exception | None]], bool] | None = None,
    ) -> list[T | Exception | None]:
        answers: list[T | Exception | None] = [None] * len(thunks)
        answered, deadline = threading.Semaphore(0), min(deadline, self.limit())

        async def call(index: int, thunk: Callable[[], Awaitable[T]]) -> None:
            try:
                answers[index] = await thunk()
            except Exception as error:
                answers[index] = error
            answered.release()

        for index, thunk in enumerate(thunks):
            self.spawn(call(index, thunk), f"fencelock-call-{index}")
        for _ in thunks:
            if not answered.acquire(timeout=max(0.0, deadline - self.now())):
                break
            if enough is not None and enough(answers):
                break
        return list(answers)

    async def shield(self, work: Coroutine[Any, Any, T], plain: bool = False) -> T:
        return await work

    def keep(self, work: Callable[[], Coroutine[Any, Any, None]], label: str) -> Job:
        return self.spawn(work(), label)

    def spawn(self, work: Coroutine[Any, Any, None], label: str) -> Job:
        return _Thread(work, label)

    def adopt(self, label: str) -> Adopted:
        return self._inline
