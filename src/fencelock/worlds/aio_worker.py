"""Run the calls of a blocking client in one thread, in order, for asyncio."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, ParamSpec, TypeVar

from ..errors import Unavailable

P = ParamSpec("P")
R = TypeVar("R")

_Call = tuple["asyncio.Future[Any]", Callable[..., Any], tuple[Any, ...], dict[str, Any]]


class Worker:
    """An adopted client: its calls run in order on one thread of its own.

    A call that was cancelled runs to its end all the same, before the next call. A queue and one
    callback to the loop are all it takes: an executor would make two futures for each call.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, label: str) -> None:
        self._loop = loop
        self._label = label
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._started = False
        self._closed = False

    async def __call__(self, method: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        if self._closed:
            raise Unavailable("the client is closed")
        if not self._started:
            self._started = True
            target = (self._calls, self._loop)
            threading.Thread(target=_work, args=target, name=self._label, daemon=True).start()
        future: asyncio.Future[R] = self._loop.create_future()
        self._calls.put((future, method, args, kwargs))
        return await future

    async def close(self) -> None:
        self._closed = True
        self._calls.put(None)

    def __del__(self) -> None:
        self._calls.put(None)


def _work(calls: SimpleQueue[_Call | None], loop: asyncio.AbstractEventLoop) -> None:
    while (call := calls.get()) is not None:
        future, method, args, kwargs = call
        result, error = None, None
        try:
            result = method(*args, **kwargs)
        except BaseException as raised:
            error = raised
        try:
            loop.call_soon_threadsafe(_deliver, future, result, error)
        except RuntimeError:
            pass  # the loop is closed: nobody waits any more
        del call, future, method, args, kwargs, result, error  # keep nothing alive while waiting


def _deliver(future: asyncio.Future[Any], result: object, error: BaseException | None) -> None:
    if future.done():
        return  # cancelled: nobody waits any more
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(result)
