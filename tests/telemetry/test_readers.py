"""What the registry shows: the text of Prometheus, a collector, bounded labels."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

import fencelock
from fencelock import observe
from fencelock.integrations.prometheus import register
from fencelock.observe import Event, group_of
from fencelock.telemetry import METRICS, Registry
from fencelock.telemetry.registry import GROUPS_MAX, QUEUE_MAX

TABLE = {
    "fencelock_acquire_total": ("counter", ("engine", "group", "outcome")),
    "fencelock_acquire_wait_seconds": ("histogram", ("engine", "group")),
    "fencelock_hold_seconds": ("histogram", ("engine", "group")),
    "fencelock_held": ("gauge", ("engine", "group")),
    "fencelock_waiting": ("gauge", ("engine", "group")),
    "fencelock_renewals_total": ("counter", ("engine",)),
    "fencelock_renewal_slack_seconds": ("histogram", ("engine",)),
    "fencelock_lease_lost_total": ("counter", ("engine", "group", "loss")),
    "fencelock_fence_refused_total": ("counter", ("guard", "group")),
    "fencelock_engine_seconds": ("histogram", ("engine", "verb")),
    "fencelock_engine_up": ("gauge", ("engine", "verb")),
    "fencelock_service_requests_total": ("counter", ("call", "status")),
    "fencelock_service_seconds": ("histogram", ("call", "status")),
}


def test_the_metrics_are_those_of_the_documents() -> None:
    assert {name: (metric.kind, metric.labels) for name, metric in METRICS.items()} == TABLE
    for metric in METRICS.values():
        assert (metric.kind == "histogram") == bool(metric.buckets)
        assert list(metric.buckets) == sorted(set(metric.buckets))


def everything() -> list[Event]:
    """An event of each kind that moves something."""
    facts: Any = {"engine": "redis", "group": 'a "quoted\\ group"\nof two lines'}
    return [
        Event("waiting", "a", **facts),
        Event("acquired", "a", 1, seconds=0.003, waited=True, call=0.003, **facts),
        Event("renewed", "a", 1, slack=20.0, **facts),
        Event("released", "a", 1, seconds=7.0, call=0.001, **facts),
        Event("acquired", "a", 2, seconds=4000.0, **facts),
        Event("lost", "a", 2, seconds=0.5, outcome="expired", **facts),
        Event("refused", "a", outcome="busy", seconds=0.0, **facts),
        Event("stale", "a", 1, group="a", guard="sql"),
        Event("engine", "", seconds=0.2, engine="redis", verb="renew", outcome="Unavailable"),
        Event("call", "", seconds=0.2, verb="/v1/acquire", outcome="409"),
        Event("callback_failed", "a", **facts),
        Event("something new", "a", **facts),
    ]


def samples(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if not sample.name.endswith("_created")
    }


def test_prometheus_reads_our_text_as_it_reads_that_of_its_own_client() -> None:
    theirs = CollectorRegistry()
    collector = register(theirs)
    try:
        for event in everything():
            collector.registry.add(event)
        ours = samples(collector.registry.text())
        assert ours == samples(generate_latest(theirs).decode())
    finally:
        collector.registry.stop()
    names = {name for name, _ in ours}
    for name, metric in METRICS.items():
        assert (f"{name}_bucket" if metric.kind == "histogram" else name) in names
    quoted = ("group", 'a "quoted\\ group"\nof two lines')
    assert ours["fencelock_held", (("engine", "redis"), quoted)] == 0
    buckets = [
        value for (name, labels), value in ours.items() if name.endswith("slack_seconds_bucket")
    ]
    assert buckets == sorted(buckets)
    assert ours["fencelock_renewal_slack_seconds_sum", (("engine", "redis"),)] == 20.0


def test_a_collector_counts_what_happens_and_cannot_be_registered_twice() -> None:
    theirs = CollectorRegistry()
    collector = register(theirs)
    with fencelock.connect("memory://") as client, client.lock("order:7", group="orders"):
        shown = samples(generate_latest(theirs).decode())
    labels = (("engine", "memory"), ("group", "orders"))
    assert shown["fencelock_held", labels] == 1
    with pytest.raises(ValueError, match="Duplicated"):
        register(theirs)
    theirs.unregister(collector)
    collector.registry.stop()


def test_groups_are_bounded_whatever_callers_give() -> None:
    registry = Registry()
    for n in range(3 * GROUPS_MAX):
        registry.add(Event("waiting", "a", engine="redis", group=f"given {n}"))
        registry.add(Event("stale", "a", 1, group=f"given {n}", guard="sql"))
    for name in ("fencelock_waiting", "fencelock_fence_refused_total"):
        (family,) = (one for one in registry.collect() if one.name == name)
        assert len(family.samples) == GROUPS_MAX + 1
        assert registry.value(name, group="other") == 2 * GROUPS_MAX


@pytest.mark.parametrize(
    ("name", "group"),
    [
        ("order:4711", "order:*"),
        ("seat:1A", "seat:*"),
        ("order-4711-eu", "order-*-eu"),
        ("v2/users/42", "v*/users/*"),
        ("user:550e8400-e29b-41d4-a716-446655440000", "user:*"),
        ("USER:550E8400-E29B-41D4-A716-446655440000:x", "USER:*:x"),
        ("blob:deadbeefcafe", "blob:*"),
        ("blob:e3b0c44298fc1c149afbf4c8996fb924", "blob:*"),
        ("run:01ARZ3NDEKTSV4RRFFQ69G5FAV", "run:*"),
        ("nightly", "nightly"),
        ("facade/added", "facade/added"),
        ("größe:٤٢", "größe:*"),
        ("a_7_b", "a_*_b"),
        ("7", "*"),
        ("x" * 300, "x" * 100),
    ],
)
def test_names_of_one_kind_are_one_group(name: str, group: str) -> None:
    assert group_of(name) == group
    assert group_of(name) == group  # as it was remembered


def test_a_decorator_groups_by_its_template_unless_it_is_told_otherwise() -> None:
    with fencelock.connect("memory://") as client, Registry() as registry:

        @client.locked("order:{order_id}:{kind}")
        def ship(order_id: str, kind: str) -> None: ...

        @client.locked("order:{order_id}", group="orders")
        def bill(order_id: str) -> None: ...

        for order in ("a", "b"):
            ship(order, "x")
            bill(order)
    assert registry.value("fencelock_hold_seconds", group="order:{order_id}:{kind}") == 2
    assert registry.value("fencelock_hold_seconds", group="orders") == 2
    assert registry.value("fencelock_hold_seconds") == 4


@pytest.mark.parametrize("group", ["", "x" * 101, "two\nlines", 7, b"x"])
def test_a_group_that_is_none_is_refused_before_anything_is_sent(group: object) -> None:
    client = fencelock.connect("memory://")
    with pytest.raises(fencelock.UsageError, match="a group is a text of 1 to 100"):
        client.lock("a", group=group)  # type: ignore[arg-type]
    with pytest.raises(fencelock.UsageError, match="a group is a text of 1 to 100"):
        client.semaphore("a", limit=1, group=group)  # type: ignore[arg-type]


def test_nothing_is_lost_when_threads_count_together() -> None:
    registry, count = Registry().start(), 2 * QUEUE_MAX
    event = Event("refused", "a", engine="redis", group="a", outcome="busy")

    def add() -> None:
        for _ in range(count):
            registry.add(event)

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        registry.collect()
    assert registry.value("fencelock_acquire_total", outcome="busy") == 4 * count
    registry.stop()


def test_a_hold_that_began_before_is_not_subtracted() -> None:
    with fencelock.connect("memory://") as client:
        before = client.lock("a").acquire()
        with Registry() as registry:
            with client.lock("b"):
                before.release()
                assert registry.value("fencelock_held") == 1
        assert registry.value("fencelock_hold_seconds") == 1


def test_a_registry_that_was_stopped_counts_no_more_and_costs_nothing() -> None:
    with fencelock.connect("memory://") as client:
        with Registry() as registry:
            pass
        assert (observe.subscribers, observe.callers) == ((), ())
        with client.lock("a"):
            pass
    assert registry.value("fencelock_acquire_total") == 0


def test_a_subscriber_that_fails_harms_nobody(caplog: pytest.LogCaptureFixture) -> None:
    def fail(event: Event) -> None:
        raise ValueError(event.kind)

    unsubscribe = observe.subscribe(fail, calls=True)
    try:
        with Registry() as registry, fencelock.connect("memory://") as client:
            with client.lock("a"):
                assert client.lock("a").try_acquire() is None
    finally:
        unsubscribe()
    assert registry.value("fencelock_acquire_total") == 2
    assert "a subscriber failed on refused of 'a'" in caplog.text


def test_whoever_wants_calls_is_told_of_each() -> None:
    seen: list[tuple[str, str, str]] = []
    unsubscribe = observe.subscribe(
        lambda event: seen.append((event.kind, event.verb, event.outcome)), calls=True
    )
    try:
        with fencelock.connect("memory://") as client:
            with client.lock("a"):
                client.inspect("a")
    finally:
        unsubscribe()
    assert seen == [
        ("engine", "open", ""),
        ("acquired", "", ""),
        ("engine", "acquire", ""),
        ("engine", "inspect", ""),
        ("released", "", ""),
        ("engine", "release", ""),
    ]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
def test_a_forked_child_begins_with_nothing() -> None:
    program = """
import os, fencelock
from fencelock.telemetry import Registry
registry = Registry().start()
lease = fencelock.connect("memory://").lock("a").acquire()
assert registry.value("fencelock_held") == 1
if (child := os.fork()) == 0:
    assert registry.value("fencelock_held") == 0
    with fencelock.connect("memory://other").lock("b"):
        assert registry.value("fencelock_acquire_total", outcome="granted") == 1
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
assert registry.value("fencelock_held") == 1
lease.release()
"""
    subprocess.run([sys.executable, "-W", "error", "-c", program], check=True, timeout=60)


@pytest.mark.parametrize("module", ["prometheus", "opentelemetry"])
def test_a_package_that_is_missing_is_named_with_its_extra(module: str) -> None:
    package = "prometheus_client" if module == "prometheus" else "opentelemetry"
    program = f"""
import sys
sys.modules["{package}"] = None
import fencelock, fencelock.telemetry
try:
    import fencelock.integrations.{module}
except fencelock.Misconfigured as error:
    print(error)
"""
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert f'pip install "fencelock[{module}]"' in run.stdout
