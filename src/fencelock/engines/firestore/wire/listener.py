"""Have those who wait look again: one Listen stream for all of a client, a target for each lock.

Firestore tells of a document as it is when its target is added, and then of each change, so that
nothing is missed in between. When a lock's document is gone the first waiter of this client is
woken, and the next when that one leaves without having taken it. Waiters look by themselves, too,
and more often while no stream tells them anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from queue import SimpleQueue
from typing import Any

from ....wires.daemon_thread import start_daemon
from ....wires.thread_flag import ThreadFlag
from ....world import Signal, World
from ..settings import Settings
from . import messages
from .messages import Message

RETRY_S = 1.0  # after a stream that has ended


class _Target:
    """The waiters for one document, by owner, first come first."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.signals: dict[str, Signal] = {}
        self.is_gone: bool | None = None  # as the stream said last; None while it has said nothing

    def wake(self) -> None:
        for signal in list(self.signals.values())[:1]:
            signal.set()


class Listener:
    """The waiters of one client."""

    def __init__(
        self, world: World, settings: Settings, listen: Callable[[Iterator[Message]], Any]
    ) -> None:
        self._settings = settings
        self._listen = listen
        self._mutex = world.mutex()
        self._targets: dict[str, _Target] = {}
        self._numbers = 0
        self._requests = SimpleQueue[Message | None]()  # of the stream that is open
        self._running = False
        self._closed = ThreadFlag()

    def watch(self, id: str, owner: str, signal: Signal) -> None:
        """Set the signal whenever this owner should look again."""
        with self._mutex:
            target = self._targets.get(id)
            if target is None:
                self._numbers += 1
                target = self._targets[id] = _Target(self._numbers)
                self._requests.put(messages.target(self._settings, id, target.number))
            target.signals[owner] = signal
            begin, self._running = not self._running and not self._closed.is_set(), True
        if begin:
            try:
                start_daemon(self._run, "fencelock-firestore-listener")
            except RuntimeError:  # no thread left: its waiters look often
                self._running = False

    def unwatch(self, id: str, owner: str) -> None:
        """Forget an owner that waits no more; the next one looks, if the lock may be free."""
        with self._mutex:
            target = self._targets.get(id)
            if target is None or target.signals.pop(owner, None) is None:
                return
            if not target.signals:
                del self._targets[id]
                end = {"database": self._settings.parent, "remove_target": target.number}
                self._requests.put(end)
            elif target.is_gone:
                target.wake()

    def tells(self, id: str) -> bool:
        """Whether the stream has told how a document is, and so will tell when it changes."""
        target = self._targets.get(id)
        return target is not None and target.is_gone is not None

    def _run(self) -> None:
        while self._begin():
            try:
                for answer in self._listen(iter(self._requests.get, None)):
                    self._tell(answer)
            except Exception:
                pass  # whatever ended it, those who wait meet it themselves
            self._requests.put(None)
            self._closed.wait(RETRY_S)

    def _begin(self) -> bool:
        """Ask a new stream for all targets, and let all look; False when nobody waits any more."""
        with self._mutex:
            self._running = bool(self._targets) and not self._closed.is_set()
            self._requests = SimpleQueue[Message | None]()
            for id, target in self._targets.items():
                self._requests.put(messages.target(self._settings, id, target.number))
                if target.is_gone is not None:  # nobody has told them of a change since
                    target.is_gone = None
                    for signal in list(target.signals.values()):
                        signal.set()
            return self._running

    def _tell(self, answer: Any) -> None:
        for part, is_gone in ("document_delete", True), ("document_change", False):
            if part in answer:
                document = getattr(answer, part).document
                name = document if isinstance(document, str) else document.name
                with self._mutex:
                    target = self._targets.get(name.removeprefix(self._settings.documents))
                    if target is not None:
                        target.is_gone = is_gone
                        if is_gone:
                            target.wake()

    def close(self) -> None:
        """Open no stream any more. The one that is open ends with its connection."""
        self._closed.set()
