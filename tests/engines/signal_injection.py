"""Raises, as a signal handler may, at a chosen one of all moments at which Python runs handlers.

CPython looks for signals when a function begins, after each call and where a loop turns back. A
tracer sees every opcode and counts those that follow such a moment, in the code under test only.
What it raises belongs to the opcode that comes next, where a handler's exception belongs to the one
before: so a moment counts only where both have the same ``except`` or ``finally``.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable
from functools import cache
from types import CodeType, FrameType, TracebackType
from typing import Any

_CHECKS = {
    dis.opmap[name]
    for name in ("RESUME", "CALL", "CALL_FUNCTION_EX", "CALL_KW", "JUMP_BACKWARD")
    if name in dis.opmap
}


class InjectedSignal(BaseException):
    """What the handler raises."""


class SignalInjection:
    """Raises in the calling thread at the n-th moment within it; at none, to count them."""

    def __init__(self, paths: tuple[str, ...], moment: int = 0) -> None:
        self._paths = paths
        self._moment = moment
        self.moments = 0
        self._last: dict[FrameType, int] = {}

    def __enter__(self) -> SignalInjection:
        self._before = sys.gettrace()
        sys.settrace(self._enter)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        sys.settrace(self._before)
        self._last.clear()

    def _enter(self, frame: FrameType, event: str, _: Any) -> Callable[..., Any] | None:
        if not any(path in frame.f_code.co_filename for path in self._paths):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return self._step

    def _step(self, frame: FrameType, event: str, _: Any) -> Callable[..., Any]:
        if event == "opcode":
            code, last = frame.f_code, self._last.get(frame)
            if (
                last is not None
                and code.co_code[last] in _CHECKS
                and _same_handler(code, last, frame.f_lasti)
            ):
                self.moments += 1
                if self.moments == self._moment:
                    sys.settrace(None)
                    raise InjectedSignal
            self._last[frame] = frame.f_lasti
        return self._step


@cache
def _same_handler(code: CodeType, one: int, other: int) -> bool:
    """Whether exceptions of two opcodes have the same handler."""
    table = dis._parse_exception_table(code)  # type: ignore[attr-defined]
    handlers = [
        next((entry.target for entry in table if entry.start <= offset < entry.end), None)
        for offset in (one, other)
    ]
    return handlers[0] == handlers[1]
