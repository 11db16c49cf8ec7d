"""The guard for objects, on SeaweedFS: a real object store with S3's interface, and not AWS's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fencelock.errors import (
    StaleFence,
    Unavailable,
)
from fencelock.guards.s3 import SIZE, S3Guard, operations, unwrap, wrap
from tests.guards.contract import NAME, Desk, every_check
from tests.guards.objects.desks import AsyncS3Desk, S3Desk
from tests.servers.seaweed import BUCKET, Seaweed

KEY = "value"


@every_check
@pytest.mark.parametrize("kind", [S3Desk, AsyncS3Desk])
def test_the_contract(check: Callable[[Desk], None], kind: type[S3Desk], server: Seaweed) -> None:
    check(kind(server.url, server.fresh_prefix()))


def test_a_mark_in_the_metadata_would_not_change_the_tag(desk: S3Desk) -> None:
    """Why the mark stands in the content: an older writer's condition would still hold."""
    where = {"Bucket": BUCKET, "Key": desk.key}
    seen = desk.client.put_object(**where, Body=b"data", Metadata={"fence": "5"})["ETag"]
    desk.client.put_object(**where, Body=b"data", Metadata={"fence": "7"}, IfMatch=seen)
    desk.client.put_object(**where, Body=b"late", Metadata={"fence": "6"}, IfMatch=seen)  # passes!
    assert desk.client.head_object(**where)["Metadata"] == {"fence": "6"}


@pytest.mark.parametrize("data", [b"same", b"other"])
@pytest.mark.parametrize("way", ["enter", "put", "delete"])
def test_whoever_comes_in_between_is_noticed(
    desk: S3Desk, way: str, data: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other writes when ours has looked and judged, and before it writes."""
    desk.guard.put(desk.key, b"same", 5, name=NAME)
    other = S3Guard(desk.client, BUCKET)
    came = list[str]()
    send = desk.guard._send

    def be_overtaken(step: Any) -> Any:
        if getattr(step, "method", "") == "put_object" and not came:
            came.append("once")
            other.put(desk.key, data, 7, name=NAME)
        return send(step)

    monkeypatch.setattr(desk.guard, "_send", be_overtaken)
    with pytest.raises(StaleFence) as caught:
        if way == "enter":
            desk.guard.enter(desk.key, 6, name=NAME)
        elif way == "put":
            desk.guard.put(desk.key, b"late", 6, name=NAME)
        else:
            desk.guard.delete(desk.key, 6, name=NAME)
    assert (caught.value.offered, caught.value.highest) == (6, 7)
    assert (other.read(desk.key), other.mark(desk.key)) == (data, 7)


def test_an_older_one_in_between_is_read_again(
    desk: S3Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.guard.put(desk.key, b"a", 5, name=NAME)
    other = S3Guard(desk.client, BUCKET)
    came = list[str]()
    send = desk.guard._send

    def be_overtaken(step: Any) -> Any:
        if getattr(step, "method", "") == "put_object" and not came:
            came.append("once")
            other.put(desk.key, b"b", 5, name=NAME)
        return send(step)

    monkeypatch.setattr(desk.guard, "_send", be_overtaken)
    assert desk.guard.enter(desk.key, 6, name=NAME) == b"b"


def test_two_who_create_the_same_object_do_not_both_pass(
    desk: S3Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = S3Guard(desk.client, BUCKET)
    send = desk.guard._send

    def be_overtaken(step: Any) -> Any:
        if getattr(step, "method", "") == "put_object":
            other.put(desk.key, b"newer", 7, name=NAME)
        return send(step)

    monkeypatch.setattr(desk.guard, "_send", be_overtaken)
    with pytest.raises(StaleFence):
        desk.guard.put(desk.key, b"older", 6, name=NAME)
    assert other.read(desk.key) == b"newer"


def test_a_crowd_that_never_lets_us_in_is_told(
    desk: S3Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operations, "ATTEMPTS_MAX", 3)
    send = desk.guard._send
    other = S3Guard(desk.client, BUCKET)

    def be_overtaken(step: Any) -> Any:
        if getattr(step, "method", "") == "put_object":
            number = int(other.read(desk.key) or b"0")
            other.put(desk.key, b"%d" % (number + 1), 5, name=NAME)
        return send(step)

    monkeypatch.setattr(desk.guard, "_send", be_overtaken)
    with pytest.raises(Unavailable, match="try again"):
        desk.guard.put(desk.key, b"x", 5, name=NAME)


def test_an_object_that_was_there_before_is_taken_over_with_what_belongs_to_it(
    desk: S3Desk,
) -> None:
    where = {"Bucket": BUCKET, "Key": desk.key}
    own: dict[str, Any] = {"ContentType": "application/json", "Metadata": {"color": "red"}}
    desk.client.put_object(**where, Body=b"{}", **own)
    assert desk.guard.read(desk.key) == b"{}"
    assert desk.guard.enter(desk.key, 5, name=NAME) == b"{}"
    found = desk.client.get_object(**where, Range=f"bytes={SIZE}-")
    assert found["Body"].read() == b"{}"  # how others read it
    assert (found["ContentType"], found["Metadata"]) == (own["ContentType"], own["Metadata"])
    desk.guard.put(desk.key, b"[]", 5, name=NAME, **own)
    assert desk.guard.read(desk.key) == b"[]"


@pytest.mark.parametrize("data", [b"", b"\0\xff" * 100_000, b"fencelock-mark:", wrap(9, b"x")])
def test_any_data_comes_back_as_it_was(desk: S3Desk, data: bytes) -> None:
    desk.guard.put(desk.key, data, 5, name=NAME)
    assert desk.guard.enter(desk.key, 6, name=NAME) == data
    assert desk.guard.read(desk.key) == data
    assert desk.guard.mark(desk.key) == 6


def test_an_empty_object_is_no_mark(desk: S3Desk) -> None:
    desk.client.put_object(Bucket=BUCKET, Key=desk.key, Body=b"")
    assert desk.guard.mark(desk.key) == 0
    desk.guard.put(desk.key, b"x", 5, name=NAME)
    assert desk.guard.read(desk.key) == b"x"


def test_what_was_deleted_keeps_its_mark_until_it_is_forgotten(
    desk: S3Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = desk.key + "/"
    for key in ("a", "b", "c"):
        desk.guard.put(here + key, b"data", 5, name=NAME)
    desk.guard.put(here + "same-size", b"", 5, name=NAME)
    desk.guard.delete(here + "a", 6, name=NAME)
    desk.guard.delete(here + "b", 6, name=NAME)
    assert desk.guard.read(here + "a") is None
    with pytest.raises(StaleFence):
        desk.guard.put(here + "a", b"late", 5, name=NAME)
    assert desk.guard.forget(3600, here) == 0
    monkeypatch.setattr("fencelock.guards.s3.operations.old", lambda _: 4e9)
    assert desk.guard.forget(3600, here + "a") == 1
    assert desk.guard.forget(3600, here) == 1
    left = desk.client.list_objects_v2(Bucket=BUCKET, Prefix=here)["Contents"]
    assert [each["Key"] for each in left] == [here + "c", here + "same-size"]
    desk.guard.put(here + "a", b"late", 5, name=NAME)  # which is the price


def test_what_came_back_meanwhile_is_not_forgotten(
    desk: S3Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.guard.delete(desk.key, 5, name=NAME)
    send = desk.guard._send

    def come_back(step: Any) -> Any:
        if getattr(step, "method", "") == "delete_object":
            S3Guard(desk.client, BUCKET).put(desk.key, b"back", 6, name=NAME)
        return send(step)

    monkeypatch.setattr(desk.guard, "_send", come_back)
    monkeypatch.setattr("fencelock.guards.s3.operations.old", lambda _: 4e9)
    assert desk.guard.forget(1, desk.key) == 0
    assert desk.guard.read(desk.key) == b"back"


def test_the_line_has_always_the_same_length() -> None:
    assert {len(wrap(mark, b"")) for mark in (0, 1, 2**53, 2**63 - 1)} == {SIZE}
    assert unwrap(wrap(7, None)) == (7, None)
    assert unwrap(wrap(7, b"")) == (7, b"")
