"""The live line while a person waits: place in the queue, who holds the lock and for how long."""

from __future__ import annotations

import os
import sys
import threading
from types import TracebackType
from typing import TYPE_CHECKING

from ..errors import FencelockError
from ..model import State
from ..worlds import clock
from . import terminal
from .durations import brief

if TYPE_CHECKING:
    from ..sync import Client

PATIENCE_S = 0.3  # a wait this short needs no words
EVERY_S = 0.5


class WaitingLine:
    """Shows the line while its body runs, if stderr is a terminal."""

    def __init__(self, client: Client, name: str, wanted: bool) -> None:
        self._client = client
        self._name = name
        self._done = threading.Event()
        self._thread: threading.Thread | None = None
        if wanted and terminal.is_terminal(sys.stderr):
            self._thread = threading.Thread(target=self._show, name="fencelock-line", daemon=True)

    def __enter__(self) -> None:
        if self._thread is not None:
            self._thread.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._done.set()
        if self._thread is not None:
            self._thread.join(1.0)

    def _show(self) -> None:
        started, shown = clock.now(), False
        wait = PATIENCE_S
        while not self._done.wait(wait):
            try:
                state = self._client.inspect(self._name)
            except FencelockError:
                break  # the wait itself will say what is wrong
            shown, wait = True, EVERY_S
            terminal.live(describe(state, clock.now() - started, os.getpid()), sys.stderr)
        if shown:
            terminal.live("", sys.stderr)


def describe(state: State, waited: float, pid: int) -> str:
    """One line about a wait."""
    mine = [place for place, one in enumerate(state.waiters, 1) if one.meta.get("pid") == pid]
    words = [f"waiting for {state.name!r} for {brief(waited)}"]
    if mine:
        words.append(f"place {mine[0]} of {len(state.waiters)}")
    for holder in state.holders[:1]:
        who = f"{holder.meta.get('host', '?')}/{holder.meta.get('pid', '?')}"
        what = f" ({holder.meta['command']})" if holder.meta.get("command") else ""
        words.append(f"held by {who}{what} for {brief(holder.age)}")
    return ", ".join(words)
