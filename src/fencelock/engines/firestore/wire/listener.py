"""Wake the waiters of a client: one Listen stream for all of them, a target for each lock.

Firestore sends the state of a document when its target is added, and then each change, so that
nothing is missed in between. When a lock's document is gone the first waiter of this client is
woken, and the next when that one leaves without having taken it. Waiters also poll, and more often
while no stream sends them anything.
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
    """The waiters for one document, by owner, in order of arrival."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.signals: dict[str, Signal] = {}
        self.is_gone: bool | None = None  # by the stream's last message; None while there is none

    def wake(self) -> None:
        for signal in list(self.signals.values())[:1]:
            signal.set()


class Listener:
    """The stream of one client, and its waiters."""

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
        """Set the signal whenever this owner should retry."""
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
            except RuntimeError:  # no thread left: its waiters poll often
                self._running = False

    def unwatch(self, id: str, owner: str) -> None:
        """End what ``watch`` began; wake the next waiter, if the lock may be free."""
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
        """Return whether the stream has sent a document's state, and so will send its changes."""
        target = self._targets.get(id)
        return target is not None and target.is_gone is not None

    def _run(self) -> None:
        while self._begin():
            try:
                for answer in self._listen(iter(self._requests.get, None)):
                    self._tell(answer)
            except Exception:
                pass  # whatever ended it, the waiters meet the same error in their own calls
            self._requests.put(None)
            self._closed.wait(RETRY_S)

    def _begin(self) -> bool:
        """Queue all targets for a new stream; return False when there are no waiters.

        Wake the waiters whose target the last stream had sent a state of: they rarely poll.
        """
        with self._mutex:
            self._running = bool(self._targets) and not self._closed.is_set()
            self._requests = SimpleQueue[Message | None]()
            for id, target in self._targets.items():
                self._requests.put(messages.target(self._settings, id, target.number))
                if target.is_gone is not None:  # its changes since then were not received
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
        """Open no new stream. The open one ends with its connection."""
        self._closed.set()
