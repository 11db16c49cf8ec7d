"""Listings, inspection and revocation."""

from __future__ import annotations

from urllib.parse import quote

from tests.service.nodes import Node


def names(node: Node, query: str) -> tuple[list[str], str | None]:
    body = node.call(f"locks?{query}").body
    return [one["name"] for one in body["locks"]], body["next"]


def test_locks_are_listed_by_name_a_page_at_a_time(node: Node) -> None:
    leases = [node.acquire(name) for name in ("p/3", "p/1", "p/2", "q/1", "p/é")]
    shared = [node.acquire("p/2", role="read") for _ in range(2)]
    assert names(node, "prefix=p/") == (["p/1", "p/2", "p/2", "p/2", "p/3", "p/é"], None)
    first, after = names(node, "prefix=p/&limit=2")
    assert (first, after) == (["p/1", "p/2", "p/2", "p/2"], "p/2")
    assert names(node, f"prefix=p/&limit=2&after={quote(str(after))}") == (["p/3", "p/é"], None)
    assert names(node, "prefix=nothing") == ([], None)
    assert names(node, f"prefix={quote('p/é')}") == (["p/é"], None)
    node.release(*leases, *shared)


def test_a_lock_is_shown_with_its_holder_and_its_queue(node: Node) -> None:
    lease = node.acquire("s", ttl=60, meta={"job": "nightly"})
    waiter = node.begin("acquire", {"name": "s", "wait": 55, "meta": {"job": "other"}})
    node.queue("s", 1)
    state = node.inspect("s")
    (holder,) = state["holders"]
    assert (holder["fence"], holder["role"]) == (lease["fence"], "lock")
    assert 0 <= holder["remaining"] <= 60
    assert holder["meta"]["job"] == "nightly"
    assert state["waiters"][0]["meta"]["job"] == "other"
    assert lease["id"] not in str(state)
    waiter.close()
    node.queue("s", 0)
    node.release(lease)


def test_a_revoked_lock_goes_on_with_a_higher_fence(node: Node) -> None:
    lease = node.acquire("r", meta={"job": "stuck"})
    reply = node.call("revoke", {"name": "r", "reason": "it hangs"}).body
    assert reply["revoked"] is True
    assert reply["holder"]["meta"]["job"] == "stuck"
    assert node.call("revoke", {"name": "r", "reason": "again"}).body["revoked"] is False
    after = node.acquire("r")
    assert after["fence"] > lease["fence"]
    assert node.renew(lease)[0]["loss"] == "revoked"
    node.release(after)
