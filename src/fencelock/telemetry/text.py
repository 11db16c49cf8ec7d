"""The text format of Prometheus, version 0.0.4."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate

from .metrics import Metric, Sample

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})


def render(families: Iterable[tuple[str, Metric, Sequence[Sample]]]) -> str:
    """Write metrics as text, each with its help and its kind, whether it has samples or not."""
    lines: list[str] = []
    for name, metric, samples in families:
        lines += [f"# HELP {name} {metric.help}.", f"# TYPE {name} {metric.kind}"]
        for sample in samples:
            lines += _lines(name, metric, sample)
    return "\n".join(lines) + "\n"


def _lines(name: str, metric: Metric, sample: Sample) -> Iterator[str]:
    labels = list(zip(metric.labels, sample.labels, strict=True))
    if metric.kind != "histogram":
        yield f"{name}{_braces(labels)} {_number(sample.value)}"
        return
    counts = list(accumulate(sample.counts))
    bounds = [*(str(float(bound)) for bound in metric.buckets), "+Inf"]
    for bound, count in zip(bounds, counts, strict=True):
        yield f"{name}_bucket{_braces([*labels, ('le', bound)])} {count}"
    yield f"{name}_sum{_braces(labels)} {_number(sample.value)}"
    yield f"{name}_count{_braces(labels)} {counts[-1]}"


def _braces(labels: Sequence[tuple[str, str]]) -> str:
    inside = ",".join(f'{name}="{value.translate(ESCAPES)}"' for name, value in labels)
    return f"{{{inside}}}"


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(float(value))
