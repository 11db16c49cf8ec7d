"""Dictionaries that finalizers change while somebody reads them."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from fencelock.world import snapshot


@contextmanager
def collecting(every: int, change: Callable[[], object]) -> Iterator[None]:
    """Have garbage collected after so many allocations, and something done each time."""
    before = gc.get_threshold()
    told: list[object] = []

    def collected(phase: str, info: dict[str, int]) -> None:
        if phase == "stop" and len(told) < 10:
            told.append(change())

    gc.callbacks.append(collected)
    gc.set_threshold(every)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.callbacks.remove(collected)


@pytest.mark.parametrize("every", [10, 100, 700])
def test_a_snapshot_may_be_interrupted_by_whoever_changes_the_dictionary(every: int) -> None:
    before = dict.fromkeys(
        range(10_000), "early"
    )  # more than the tuples that Python keeps in store
    shared = dict(before)
    with collecting(every, lambda: shared.__setitem__(len(shared), "late")):
        found = dict(snapshot(shared))
    assert len(shared) > len(before), "nothing was collected meanwhile"
    assert found.items() >= before.items()


def test_what_is_gone_in_the_meantime_is_left_out() -> None:
    class Shrinking(dict[int, str]):
        def get(self, key: int, default: object = None) -> object:  # type: ignore[override]
            self.pop(1, None)
            return super().get(key, default)

    assert snapshot(Shrinking({0: "a", 1: "b", 2: "c"})) == [(0, "a"), (2, "c")]
