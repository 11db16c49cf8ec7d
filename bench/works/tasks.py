"""Many asyncio tasks, each with a lock of its own: what an asyncio server does all day."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median

from bench.aio import AioContestant
from bench.contestant import Contestant, Served
from bench.work import Column, Work

TASKS = 256


class Tasks(Work):
    """Batches in which all tasks run until the last has done its pairs; the median batch counts."""

    name = "tasks"
    title = f"{TASKS} tasks of one loop, each takes and leaves a free lock of its own"
    columns = (
        Column("pairs", "pairs/s"),
        Column("cpu_us", "CPU µs/pair"),
        Column("connections", "connections", worst=True),
    )
    rounds = 7

    def measure(self, contestant: Contestant, quick: bool) -> Mapping[str, float]:
        assert isinstance(contestant, AioContestant)
        batches, count = (1, 1) if quick else (5, 10)
        names = [f"task:{number}" for number in range(TASKS)]
        seen: list[Served | None] = []
        with contestant.gauge() as gauge:
            spent = contestant.time_tasks(
                names, [count] * (batches + 1), lambda: seen.append(gauge.look())
            )[1:]  # the first connects
        pairs = TASKS * count
        figures = {
            "pairs": pairs / median(batch.wall for batch in spent),
            "cpu_us": median(batch.cpu for batch in spent) / pairs * 1e6,
        }
        for served in seen:
            if served is not None:
                figures["connections"] = served.connections
        return figures
