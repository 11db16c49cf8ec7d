"""How a watch stream begins and ends under threads, whatever the moment of either."""

from __future__ import annotations

import threading
from collections.abc import Iterator

from fencelock.engines.etcd.wire_threads import ThreadsStream
from tests.faults.flavors import SOON


class Opening:
    """Opens a call when it may, and remembers where."""

    def __init__(self) -> None:
        self.may = threading.Event()
        self.where: threading.Thread | None = None
        self.cancelled = False
        self.over = threading.Event()
        self.heard: list[bytes] = []

    def __call__(self, requests: Iterator[bytes], metadata: object) -> Opening:
        self.where = threading.current_thread()
        self.may.wait(SOON)
        return self

    def __iter__(self) -> Iterator[bytes]:
        if not self.cancelled:
            yield b"news"

    def cancel(self) -> None:
        self.cancelled = True

    def stream(self) -> ThreadsStream:
        return ThreadsStream(self, (), self.heard.append, self.over.set, RuntimeError)


def test_a_stream_is_opened_where_no_signal_strikes() -> None:
    """H09: Python handles signals in the main thread. Ctrl-C while gRPC opens a stream would leave
    its channel with a call that nobody ends, and closing it would take for ever."""
    opening = Opening()
    opening.may.set()
    opening.stream()
    assert opening.over.wait(SOON)
    assert opening.where not in (None, threading.current_thread())
    assert opening.heard == [b"news"]


def test_a_stream_that_is_closed_while_it_opens_is_cancelled() -> None:
    opening = Opening()
    stream = opening.stream()
    stream.close()
    opening.may.set()
    assert opening.over.wait(SOON)
    assert opening.cancelled
    assert opening.heard == []


def test_a_stream_of_a_closed_channel_ends() -> None:
    """gRPC says so by a ValueError; whoever watched must hear of it."""
    over = threading.Event()

    def refuse(*_: object, **__: object) -> None:
        raise ValueError("Cannot invoke RPC on closed channel!")

    ThreadsStream(refuse, (), lambda _: None, over.set, RuntimeError)
    assert over.wait(SOON)
