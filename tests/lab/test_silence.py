"""What happens to simulated clients is told by the trace, and to nobody else."""

from __future__ import annotations

import gc
import logging
import threading

import pytest

import fencelock
from fencelock import lab, observe

LOUD = ["redlock-pause", "renewal-failure", "zookeeper-session", "server-dies", "service"]
"""In which clients lose leases, retry and are refused."""


@pytest.mark.parametrize("name", LOUD)
def test_a_play_tells_neither_the_log_nor_subscribers(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[observe.Event] = []
    stop = observe.subscribe(heard.append, calls=True)
    try:
        with caplog.at_level(logging.DEBUG, "fencelock"):
            trace = lab.play(lab.load(name))
            gc.collect()
    finally:
        stop()
    assert trace.differences() == []
    assert (heard, caplog.records) == ([], [])


def test_whoever_looks_on_changes_no_play(monkeypatch: pytest.MonkeyPatch) -> None:
    alone = [lab.play(lab.load(name)).digest for name in LOUD]
    monkeypatch.setattr(observe, "context", lambda group: {"trace": "x" * 40})
    stop = observe.subscribe(lambda event: None, calls=True)
    try:
        assert [lab.play(lab.load(name)).digest for name in LOUD] == alone
    finally:
        stop()


def test_real_clients_are_heard_after_a_play_and_in_other_threads_during_one() -> None:
    heard: list[str] = []
    stop = observe.subscribe(lambda event: heard.append(event.kind))
    try:
        lab.play(lab.load("ghost-writer"))
        with fencelock.connect("memory://") as client, client.lock("seat", ttl=30):
            pass
        assert heard == ["acquired", "released"]
        with observe.Muted():
            thread = threading.Thread(target=observe.emit, args=[observe.Event("other", "seat")])
            thread.start()
            thread.join(10)
            observe.emit(observe.Event("ours", "seat"))
            with observe.Muted():
                pass
            observe.emit(observe.Event("ours", "seat"))
        assert heard == ["acquired", "released", "other"]
    finally:
        stop()


def test_a_play_that_is_refused_leaves_nobody_deaf() -> None:
    heard: list[str] = []
    stop = observe.subscribe(lambda event: heard.append(event.kind))
    try:
        with pytest.raises(fencelock.UsageError):
            lab.play(lab.load("ghost-writer"), steps_max=5)
        observe.emit(observe.Event("later", "seat"))
    finally:
        stop()
    assert heard == ["later"]
