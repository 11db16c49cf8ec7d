"""The cost of a lock that nobody else wants."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median

from bench.contestant import Contestant
from bench.work import Column, Work


class Pair(Work):
    """Batches of pairs; the median batch counts."""

    name = "pair"
    title = "acquire and release a free lock, one after the other"
    columns = (Column("wall_us", "µs"), Column("cpu_us", "CPU µs"))
    rounds = 15
    rounds_quick = 3

    def measure(self, contestant: Contestant, quick: bool) -> Mapping[str, float]:
        batches, count = (3, 20) if quick else (10, 200)
        spent = contestant.time_pairs([count] * (batches + 1))[1:]  # the first warms up
        return {
            "wall_us": median(batch.wall for batch in spent) / count * 1e6,
            "cpu_us": median(batch.cpu for batch in spent) / count * 1e6,
        }
