"""Write the page of a torture: one HTML file that shows who held what when, and what went wrong.

What is drawn is chosen here, from the history and the verdict; ``page.html`` only draws it. The
file needs nothing else: no server, no network, no other file.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from ..checkers.tenures import Tenure, locks
from ..history import Event, History
from .report import Row, conclusion, rows, updates
from .run import Run
from .runner import PREFIX

TEMPLATE = Path(__file__).with_name("page.html")
SPELLS = {"pause": "resume", "partition": "heal", "crash": "restart"}
DIGITS = 4  # of a second


def page(runs: Sequence[Run]) -> str:
    """The page of one run, or of two beside each other."""
    title = " and ".join(run.settings.library for run in runs)
    data = json.dumps({"runs": [_drawn(run) for run in runs]}, separators=(",", ":"))
    return (
        TEMPLATE.read_text(encoding="utf-8")
        .replace("{{title}}", escape(f"Torture of {title} over {runs[0].url}"))
        .replace("{{summaries}}", "\n".join(_summary(run, index) for index, run in enumerate(runs)))
        .replace("{{data}}", data.replace("<", "\\u003c"))  # or a text could end the script
    )


def _summary(run: Run, index: int) -> str:
    """What can be read without a script: the figures and the verdict."""
    settings, plain = run.settings, updates(run.counters.plain.values())
    guarded = updates(run.counters.guarded.values())
    figures = {
        "tenures": str(run.tenures),
        "updates lost without a guard": f"{plain.lost} of {plain.acknowledged}",
        "updates lost with the guard": f"{guarded.lost} of {guarded.acknowledged}"
        if run.traits
        else "no fence to guard with",
        "stale operations refused": str(guarded.refused) if run.traits else "none",
    }
    faults = ", ".join(
        f"{fault}: {run.not_applicable.get(fault, run.faults.get(fault, 0))}"
        for fault in settings.faults
    )
    color, verdict = "good" if run.passed else "bad", escape(conclusion(run))
    told = (
        f"{run.url} · {settings.seconds:g} s · {settings.clients} clients · "
        f"ttl {settings.ttl:g} s · seed {settings.seed}"
    )
    return f"""<section class="run">
<h2>{escape(settings.library)} <span class="{color}">{verdict}</span></h2>
<p>{escape(told)}</p>
<p>{escape(faults)}</p>
<p>{escape(run.remark)}</p>
<dl class="figures">{"".join(_figure(*figure) for figure in figures.items())}</dl>
<div class="scroll"><table>
<thead><tr><th>verdict</th><th>question</th><th>why</th></tr></thead>
<tbody>
{"".join(_row(row) for row in rows(run))}</tbody>
</table></div>
<figure class="timeline" data-run="{index}"></figure>
</section>"""


def _figure(name: str, value: str) -> str:
    return f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>"


def _row(row: Row) -> str:
    cells = "".join(f"<td>{escape(cell)}</td>" for cell in row)
    return f'<tr class="{row.outcome.replace(" ", "-")}">{cells}</tr>\n'


def _drawn(run: Run) -> dict[str, Any]:
    """Everything that the timeline of one run shows, in seconds from its beginning."""
    history = run.history
    clients = [f"client {number + 1}" for number in range(run.settings.clients)]
    tenures = [tenure for lock in locks(history) for tenure in lock.tenures]
    return {
        "title": run.settings.library,
        "end": _at(history.ends_at),
        "clients": clients,
        "tenures": [_bar(tenure, history) for tenure in tenures if tenure.client in clients],
        "waits": [
            [one.client, _at(one.begin), _at(min(one.end, history.ends_at)), one.outcome]
            for one in history.operations("acquire")
            if one.client in clients
        ],
        "spells": _spells(history),
        "refusals": [
            [e.client, _at(e.at), f"a {e.verb} with fence {e.fence} was refused"]
            for e in history
            if e.kind == "fail" and e.verb in ("read", "write", "enter")
        ],
        "losses": [[e.client, _at(e.at), e.detail] for e in run.counters.losses],
        "violations": [
            [one.checker, one.message, *_span(one.events, history), _whose(one.events, history)]
            for one in run.verdict.violations
        ],
    }


def _bar(tenure: Tenure, history: History) -> list[Any]:
    """Client, from, until when it was sure and believed, fence, name, and how it ended."""
    end = history.ends_at
    over = min(tenure.left_at, tenure.crashed_at, end)
    sure = min(tenure.lost_at, over)
    if tenure.lost_at < min(tenure.left_at, tenure.crashed_at):
        how = "lost"
    elif tenure.crashed_at < tenure.left_at:
        how = "killed"
    else:
        how = "released" if tenure.left_at < math.inf else "held to the end"
    name = tenure.name.removeprefix(PREFIX).partition("-")[2] or tenure.name
    start = min(tenure.granted_at, sure)
    return [tenure.client, _at(start), _at(sure), _at(over), tenure.fence, name, how]


def _spells(history: History) -> list[list[Any]]:
    """From when to when a client was frozen, cut off or dead."""
    found: list[list[Any]] = []
    open_since: dict[tuple[str, str], Event] = {}
    for event in history:
        if event.kind != "note":
            continue
        if event.verb in SPELLS:
            open_since[event.client, SPELLS[event.verb]] = event
        elif (begun := open_since.pop((event.client, event.verb), None)) is not None:
            found.append([event.client, begun.verb, _at(begun.at), _at(event.at), begun.detail])
    for begun in open_since.values():
        found.append([begun.client, begun.verb, _at(begun.at), _at(history.ends_at), begun.detail])
    return found


def _span(events: Sequence[int], history: History) -> tuple[float, float]:
    moments = [history[index].at for index in events] or [0.0]
    return _at(min(moments)), _at(max(moments))


def _whose(events: Sequence[int], history: History) -> list[str]:
    """The clients that a violation is about."""
    return sorted({history[index].client for index in events})


def _at(moment: float) -> float:
    return round(moment, DIGITS)
