"""What a pair costs more while somebody listens."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median

from bench.contestant import Contestant
from bench.work import Column, Work
from fencelock import observe
from fencelock.telemetry import Registry


class Telemetry(Work):
    """Batches of pairs in turn: with nobody, a subscriber that does nothing, and a registry."""

    name = "telemetry"
    title = "acquire and release a free lock, and what events and metrics add to it"
    columns = (
        Column("added_us", "added by a registry, µs"),
        Column("subscribed_us", "added by a subscriber, µs"),
        Column("pair_us", "nobody listens, µs"),
    )
    rounds = 15
    rounds_quick = 3

    def measure(self, contestant: Contestant, quick: bool) -> Mapping[str, float]:
        turns, count = (2, 200) if quick else (5, 2_000)
        bare, subscribed, counted = list[float](), list[float](), list[float]()
        registry = Registry()
        for _ in range(turns):
            bare.append(_pair(contestant, count))
            unsubscribe = observe.subscribe(_ignore)
            subscribed.append(_pair(contestant, count))
            unsubscribe()
            with registry:
                counted.append(_pair(contestant, count))
        floor = median(bare)
        return {
            "added_us": max(0.0, median(counted) - floor),
            "subscribed_us": max(0.0, median(subscribed) - floor),
            "pair_us": floor,
        }


def _pair(contestant: Contestant, count: int) -> float:
    """Microseconds of the processor: waiting for a server says nothing here."""
    _, spent = contestant.time_pairs([count // 10, count])  # the first warms up
    return spent.cpu / count * 1e6


def _ignore(event: observe.Event) -> None:
    """Do nothing."""
