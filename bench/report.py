"""Results as a table for people and as JSON for programs.

Neither names the machine, its user or its paths.
"""

from __future__ import annotations

import os
import platform
import sqlite3
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from typing import Any

from bench.harness import Result, Verdict

PEERS = (
    "fencelock",
    "fastapi",
    "fasteners",
    "filelock",
    "hiredis",
    "kazoo",
    "portalocker",
    "python-redis-lock",
    "redis",
    "uvicorn",
)

MUCH = 0.05  # of the processors: with that, figures say little and ratios not much


def table(result: Result, quick: bool) -> str:
    """What a person reads: a table for each field, then who is missing, then the targets."""
    work = result.work
    count = max((len(rounds) for rounds in result.rounds.values()), default=0)
    scale = "a glance, with small counts" if quick else f"median of {count}"
    lines = [f"{work.name}: {work.title} ({scale})"]
    for field, names in result.fields().items():
        lines += [f"- {field or 'all'}", *_aligned(_rows(result, names))]
    lines += [f"skipped {name}: {why}" for name, why in result.skipped.items()]
    lines += [f"FAILED {name}: {why}" for name, why in result.failed.items()]
    lines += [_sentence(verdict, result) for verdict in result.verdicts()]
    if result.stolen is not None and result.stolen >= MUCH:
        lines.append(
            f"  beware: other machines on this host took {result.stolen:.0%} of the processors "
            "meanwhile; measure again on a quiet one"
        )
    return "\n".join(lines)


def _rows(result: Result, names: list[str]) -> list[list[str]]:
    columns = result.columns(names)
    ratios = {name: result.ratios(name) for name in names}
    beside = list(dict.fromkeys(other for found in ratios.values() for other in found))
    head = ["contestant", *(column.title for column in columns), "min … max"]
    rows = [head + [f"x {other}" for other in beside]]
    first_column = result.work.columns[0].key
    for name in sorted(names, key=lambda name: median(result.figures(name, first_column))):
        summaries = [result.summary(name, column) for column in columns]
        first = result.figures(name, first_column)
        row = [name, *("" if figure is None else _number(figure) for figure in summaries)]
        row.append(f"{_number(min(first))} … {_number(max(first))}")
        row += [_number(ratios[name][other]) if other in ratios[name] else "" for other in beside]
        rows.append(row)
    return rows


def document(results: list[Result], quick: bool) -> dict[str, Any]:
    """What a program reads."""
    return {
        "machine": machine(),
        "quick": quick,
        "works": {result.work.name: _work(result) for result in results},
    }


def _work(result: Result) -> dict[str, Any]:
    work = result.work
    columns = {name: result.columns([name]) for name in result.rounds}
    return {
        "title": work.title,
        "columns": {column.key: column.title for column in work.columns},
        "contestants": {
            name: {
                "field": result.contestants[name].field,
                "medians": {c.key: median(result.figures(name, c.key)) for c in columns[name]},
                "worst": {c.key: result.summary(name, c) for c in columns[name] if c.worst},
                "rounds": rounds,
                "ratios": result.ratios(name),
            }
            for name, rounds in result.rounds.items()
        },
        "skipped": result.skipped,
        "failed": result.failed,
        "stolen": result.stolen,
        "targets": [
            {
                "who": verdict.who,
                **verdict.target._asdict(),
                "figure": verdict.figure,
                "met": verdict.met,
            }
            for verdict in result.verdicts()
        ],
    }


def machine() -> dict[str, Any]:
    """What a reader must know to judge the figures."""
    return {
        "system": platform.system(),
        "architecture": platform.machine(),
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count(),
        "load": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "sqlite": sqlite3.sqlite_version,
        "packages": {name: found for name in PEERS if (found := _version(name))},
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def _sentence(verdict: Verdict, result: Result) -> str:
    target = verdict.target
    title = next(c.title for c in result.work.columns if c.key == target.key)
    unit = f" times {target.versus}" if target.versus else ""
    return (
        f"  {'met   ' if verdict.met else 'MISSED'}  {verdict.who}, {title}: "
        f"{_number(verdict.figure)}{unit}; target {target.bound} {_number(target.limit)}{unit}"
    )


def _number(value: float) -> str:
    if value == 0 or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def _aligned(rows: list[list[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip()
        for row in rows
    ]
