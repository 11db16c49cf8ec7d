"""The dashboard and the alerts name only metrics, labels and values that there are."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from fencelock.model import LOSSES
from fencelock.telemetry import METRICS
from fencelock.telemetry.metrics import OUTCOMES

ROOT = Path(__file__).parents[2]
DASHBOARD = json.loads((ROOT / "contrib/grafana/fencelock.json").read_text(encoding="utf-8"))
ALERTS = yaml.safe_load((ROOT / "contrib/prometheus/alerts.yml").read_text(encoding="utf-8"))
TARGET = {"job", "instance"}  # what Prometheus itself adds
VALUES = {"outcome": set(OUTCOMES), "loss": set(LOSSES)}
FUNCTIONS = {"histogram_quantile", "sum", "min", "rate", "increase", "by", "label_values", "le"}


def rules() -> list[dict[str, Any]]:
    return [rule for group in ALERTS["groups"] for rule in group["rules"]]


def panels() -> list[dict[str, Any]]:
    return [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]


def expressions() -> Iterator[tuple[str, str, str]]:
    """Every expression, with where it stands and the text that is shown with it."""
    for rule in rules():
        words = " ".join(rule["annotations"].values())
        yield rule["alert"], rule["expr"], words
    for panel in panels():
        for target in panel["targets"]:
            yield panel["title"], target["expr"], target["legendFormat"]
    for variable in DASHBOARD["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["name"], variable["query"]["query"], ""


def metric_of(word: str) -> tuple[str, set[str]]:
    """The metric of a series, with its labels; a histogram has three series."""
    for ending in ("_bucket", "_sum", "_count", ""):
        name = word.removesuffix(ending)
        metric = METRICS.get(name)
        if metric is not None and word.endswith(ending):
            assert (metric.kind == "histogram") == bool(ending), f"{word} is no series"
            return name, {*metric.labels, *TARGET, *(("le",) if ending == "_bucket" else ())}
    raise AssertionError(f"there is no metric {word}")


def faults(expression: str, shown: str = "") -> list[str]:
    """What an expression names that does not exist."""
    found: list[str] = []
    common: set[str] | None = None
    for word, braces in re.findall(r"(fencelock_\w+)(\{[^}]*\})?", expression):
        try:
            _, labels = metric_of(word)
        except AssertionError as error:
            found.append(str(error))
            continue
        common = labels if common is None else common & labels
        for label, value in re.findall(r'(\w+)\s*(?:=~|!~|!=|=)\s*"([^"]*)"', braces):
            if label not in labels:
                found.append(f"{word} has no label {label}")
            elif label in VALUES and value not in VALUES[label]:
                found.append(f"{label} is never {value}")
    if common is None:
        return [*found, "no metric of ours"]
    grouped = [
        word for words in re.findall(r"by \(([^)]*)\)", expression) for word in words.split(", ")
    ]
    grouped += re.findall(r"label_values\(\w+, (\w+)\)", expression)
    found += [f"cannot be grouped by {word}" for word in grouped if word not in common]
    labels_shown = re.findall(r"\{\{\s*(?:\$labels\.)?(\w+)\s*\}\}", shown)
    found += [f"{word} is not there to be shown" for word in labels_shown if word not in grouped]
    if expression.count("(") != expression.count(")"):
        found.append("a bracket is missing")
    words = re.findall(r"\b([a-z_]+)\s*\(", expression)
    return found + [f"unknown function {word}" for word in words if word not in FUNCTIONS]


@pytest.mark.parametrize(
    ("where", "expression", "shown"), list(expressions()), ids=lambda value: str(value)[:30]
)
def test_an_expression_names_what_there_is(where: str, expression: str, shown: str) -> None:
    assert faults(expression, shown) == [], where


def test_every_metric_has_a_panel() -> None:
    named = {
        metric_of(word)[0]
        for panel in panels()
        for target in panel["targets"]
        for word in re.findall(r"fencelock_\w+", target["expr"])
    }
    assert named == set(METRICS)


def test_panels_do_not_overlap_and_say_what_they_mean() -> None:
    cells: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= 24
        own = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert not own & cells, panel["title"]
        cells |= own
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
    assert all(panel["description"] for panel in panels())


def test_alerts_have_what_an_operator_needs() -> None:
    assert len({rule["alert"] for rule in rules()}) == len(rules()) >= 6
    for rule in rules():
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert rule["annotations"].keys() == {"summary", "description"}
        assert re.search(r"(<|>|==) [\d.]+\s*$", rule["expr"]), rule["alert"]
    assert any("fencelock_renewal_slack_seconds" in rule["expr"] for rule in rules())


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("fencelock_acquired_total", "there is no metric"),
        ("fencelock_hold_seconds", "is no series"),
        ("fencelock_held_bucket", "is no series"),
        ('fencelock_held{name="a"}', "has no label name"),
        ('fencelock_acquire_total{outcome="refused"}', "outcome is never refused"),
        ("sum by (group) (fencelock_renewals_total)", "cannot be grouped by group"),
        ("sum by (engine) (rate(fencelock_held[5m])", "a bracket is missing"),
        ("median(fencelock_held)", "unknown function median"),
        ("up", "no metric of ours"),
    ],
)
def test_a_wrong_expression_is_found(expression: str, why: str) -> None:
    assert any(why in fault for fault in faults(expression)), faults(expression)
