"""What a node shows of itself at ``/metrics``: every outcome of a call, and no name of a lock."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from fencelock.telemetry import METRICS
from tests.cli.program import Program, eventually
from tests.servers.redis import Redis
from tests.service.nodes import Node, answer_of, configured, new_id


def metrics(node: Node, token: str | None = None) -> dict[str, dict[tuple[str, ...], float]]:
    """All samples, by name and the values of their labels."""
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    reply = node.send("GET", "/metrics", None, headers)
    assert reply.status == 200, reply
    assert reply.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in text_string_to_metric_families(reply.body.decode()):
        for sample in family.samples:
            found.setdefault(sample.name, {})[tuple(sample.labels.values())] = sample.value
    return found


def scheme(node: Node) -> str:
    return str(node.call("about").body["engine"])


def test_a_hold_is_counted_from_its_grant_to_its_release(node: Node) -> None:
    engine = scheme(node)
    lease = node.acquire("hold-a:1")
    labels = (engine, "hold-a:*")
    found = metrics(node)
    assert found["fencelock_acquire_total"][*labels, "granted"] == 1
    assert found["fencelock_held"][labels] == 1
    assert found["fencelock_acquire_wait_seconds_count"][labels] == 1
    again = node.acquire("hold-a:1", id=lease["id"])  # the same one, asked for once more
    assert metrics(node)["fencelock_held"][labels] == 1
    before = found["fencelock_renewals_total"].get((engine,), 0)
    node.renew(again)
    found = metrics(node)
    assert found["fencelock_renewals_total"][engine,] == before + 1
    assert found["fencelock_renewal_slack_seconds_count"][engine,] == before + 1
    node.release(lease)
    found = metrics(node)
    assert found["fencelock_held"][labels] == 0
    assert found["fencelock_hold_seconds_count"][labels] == 1
    assert found["fencelock_engine_seconds_count"][engine, "acquire"] >= 2
    assert found["fencelock_engine_up"][engine, "acquire"] == 1


def test_refusals_waits_and_losses_are_counted(node: Node) -> None:
    labels = (scheme(node), "seat-b:*")
    lease = node.acquire("seat-b:1")
    assert node.call("acquire", {"name": "seat-b:1"}).problem == "busy"
    assert node.call("acquire", {"name": "seat-b:1", "wait": 0.1}).problem == "busy"
    waiter = node.begin("acquire", {"name": "seat-b:1", "wait": 55, "id": new_id()})
    node.queue("seat-b:1", 1)
    eventually(lambda: metrics(node)["fencelock_waiting"][labels] == 1)
    assert node.call("revoke", {"name": "seat-b:1", "reason": "it hangs"}).body["revoked"]
    second = answer_of(waiter).body
    assert node.renew(lease)[0]["loss"] == "revoked"
    found = metrics(node)
    assert found["fencelock_waiting"][labels] == 0
    assert found["fencelock_lease_lost_total"][*labels, "revoked"] == 1
    assert {
        outcome: found["fencelock_acquire_total"].get((*labels, outcome), 0)
        for outcome in ("granted", "busy", "timeout")
    } == {"granted": 2, "busy": 1, "timeout": 1}
    assert found["fencelock_held"][labels] == 1
    node.release(second)


def test_a_waiter_that_hangs_up_was_cancelled(node: Node) -> None:
    labels = (scheme(node), "gone-c:*")
    lease = node.acquire("gone-c:1")
    waiter = node.begin("acquire", {"name": "gone-c:1", "wait": 55})
    eventually(lambda: metrics(node)["fencelock_waiting"].get(labels) == 1)
    waiter.close()
    eventually(lambda: metrics(node)["fencelock_waiting"][labels] == 0)
    assert metrics(node)["fencelock_acquire_total"][*labels, "cancelled"] == 1
    node.release(lease)


def test_a_hold_whose_client_came_no_more_ends_with_its_ttl(node: Node) -> None:
    labels = (scheme(node), "silent-d:*")
    node.acquire("silent-d:1", ttl=0.2)
    eventually(lambda: metrics(node)["fencelock_held"].get(labels) == 0)
    assert metrics(node)["fencelock_acquire_total"][*labels, "granted"] == 1


def test_calls_are_counted_by_their_status_and_paths_that_nobody_serves_are_one(node: Node) -> None:
    for path in ("/v1/nothing", "/wp-login.php", "/v1/acquire/4711"):
        assert node.send("GET", path).status == 404
    node.send("GET", "/v1/acquire")
    found = metrics(node)["fencelock_service_requests_total"]
    assert found["other", "404"] >= 3
    assert found["/v1/acquire", "405"] >= 1
    assert not any("4711" in label for labels in found for label in labels)
    assert metrics(node)["fencelock_service_requests_total"]["/metrics", "200"] >= 1
    assert metrics(node)["fencelock_service_seconds_count"]["other", "404"] >= 3


def test_names_ids_and_reasons_are_not_shown_and_all_metrics_are_known(node: Node) -> None:
    lease = node.acquire("customer:550e8400-e29b-41d4-a716-446655440000")
    node.release(lease)
    text = node.send("GET", "/metrics").body.decode()
    assert 'group="customer:*"' in text
    for secret in ("550e8400", lease["id"], str(lease["fence"]) if lease["fence"] > 9999 else "¤"):
        assert secret not in text
    helps = {line.split()[2] for line in text.splitlines() if line.startswith("# HELP")}
    assert helps == set(METRICS)


def test_two_hundred_groups_are_shown_and_then_others(program: Program) -> None:
    node = Node(program, "--insecure", "--drain", "0s", url="memory://")
    letters = "ghijklmnopqrstuvwxyz"
    for first in letters:
        for second in letters[:15]:
            node.acquire(f"name-{first}{second}")
    found = metrics(node)["fencelock_held"]
    assert len(found) == 201
    assert found["memory", "other"] == 100
    node.stop()


CONFIG = """
[[identity]]
name = "watcher"
tokens = ["sha256:{watcher}"]
allow = [{{ prefix = "", verbs = ["observe"] }}]
[[identity]]
name = "billing"
tokens = ["sha256:{billing}"]
allow = [{{ prefix = "billing", verbs = ["acquire", "observe", "revoke"] }}]
"""


def test_only_who_may_observe_all_names_reads_them(program: Program, tmp_path: Path) -> None:
    tokens = {name: hashlib.sha256(name.encode()).hexdigest() for name in ("watcher", "billing")}
    file = configured(tmp_path, CONFIG.format(**tokens))
    node = Node(program, "--config", file, "--drain", "0s", url="memory://")
    assert node.send("GET", "/metrics").problem == "unauthorized"
    allowed = {"Authorization": "Bearer billing"}
    assert node.send("GET", "/metrics", None, allowed).problem == "forbidden"
    found = metrics(node, "watcher")["fencelock_service_requests_total"]
    assert found["/metrics", "401"] == 1
    assert found["/metrics", "403"] == 1
    node.stop()


@pytest.mark.parametrize("wait", [0, 1])
def test_an_engine_that_was_killed_is_seen(program: Program, wait: int) -> None:
    with Redis() as server:
        node = Node(program, "--insecure", "--drain", "0s", url=server.url)
        node.release(node.acquire("seat:1"))
        assert metrics(node)["fencelock_engine_up"]["redis", "acquire"] == 1
        server.kill()
        status = node.call("acquire", {"name": "seat:1", "wait": wait}).status
        assert status in (503, 504)
        eventually(lambda: node.call("acquire", {"name": "seat:1"}).status == 503)
        found = metrics(node)
        assert found["fencelock_engine_up"]["redis", "acquire"] == 0
        assert found["fencelock_acquire_total"]["redis", "seat:*", "unavailable"] >= 1
        assert found["fencelock_service_requests_total"]["/v1/acquire", "503"] >= 1
        node.stop()
