"""What a guard adds to a write that it protects."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median

from bench.contestant import Contestant
from bench.work import Column, Work
from bench.writing import Writing


class Guards(Work):
    """Batches of writes; the median batch counts. The bare write of a field is its yardstick."""

    name = "guards"
    title = "one write to the resource, bare and guarded"
    columns = (Column("wall_us", "µs"), Column("cpu_us", "CPU µs"))
    rounds = 15
    rounds_quick = 3

    def measure(self, contestant: Contestant, quick: bool) -> Mapping[str, float]:
        assert isinstance(contestant, Writing)
        batches, count = (3, 20) if quick else (10, 200)
        spent = contestant.time_writes([count] * (batches + 1))[1:]  # the first warms up
        return {
            "wall_us": median(batch.wall for batch in spent) / count * 1e6,
            "cpu_us": median(batch.cpu for batch in spent) / count * 1e6,
        }
