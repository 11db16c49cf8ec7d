"""Beside programs of before there were readers: what they find, and what they leave behind.

Such a program knows one mark. It must find that of whoever was the highest, be it a reader, and
what it writes is a writer's mark.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from kazoo.client import KazooClient

from fencelock import StaleFence
from fencelock.guards.dynamodb import DynamoDBGuard
from fencelock.guards.etcd import EtcdGuard
from fencelock.guards.files import FileGuard
from fencelock.guards.files.sidecar import SLOT, sidecar_of
from fencelock.guards.redis import RedisGuard
from fencelock.guards.redis.script import pattern
from fencelock.guards.s3 import SIZE, S3Guard, wrap
from fencelock.guards.zookeeper import ZooKeeperGuard
from tests.servers import dynamodb, seaweed
from tests.servers.etcd import Etcd
from tests.servers.redis import Redis
from tests.servers.shared import shared
from tests.servers.zookeeper import ZooKeeper

NAME = "seat"

REDIS = """
local seen = redis.call('GET', KEYS[1])
local highest = seen and string.sub(seen, 1, 19) or ''
if ARGV[1] < highest then
  return redis.error_reply('STALEFENCE ' .. highest)
end
if ARGV[1] > highest then
  redis.call('SET', KEYS[1], ARGV[1] .. ' ' .. redis.call('TIME')[1])
end
return 1
"""


@pytest.fixture
def store() -> Iterator[redis.Redis]:
    with redis.Redis.from_url(shared(Redis).fresh_url()) as client:
        yield client


def test_redis(store: Any) -> None:
    guard = RedisGuard(store)
    guard.enter(5, name=NAME)
    guard.enter(7, name=NAME, reading=True)
    (key,) = store.scan_iter(match=pattern("fencelock:mark:"))
    with pytest.raises(redis.ResponseError, match=r"STALEFENCE 0*7$"):
        store.eval(REDIS, 1, key, "6".zfill(19))
    store.eval(REDIS, 1, key, "8".zfill(19))
    _shuts_older_readers_out(guard.mark(NAME), guard.mark(NAME, reading=True))


def test_a_file(tmp_path: Path) -> None:
    path = tmp_path / "report"
    guard = FileGuard(path)
    guard.enter(5, name=NAME)
    guard.enter(7, name=NAME, reading=True)
    slots = Path(sidecar_of(str(path))).read_bytes()
    lines = [slots[start : start + SLOT].partition(b"\n")[0] for start in (0, SLOT)]
    found = [json.loads(line.partition(b" ")[2]) for line in lines]
    assert all(slot.keys() == {"mark", "name", "turn", "raised"} for slot in found)
    assert max(found, key=lambda slot: slot["turn"])["mark"] == 7


def test_a_torn_second_line_is_no_reader(tmp_path: Path) -> None:
    path = tmp_path / "report"
    guard = FileGuard(path)
    guard.enter(5, name=NAME)
    guard.enter(7, name=NAME, reading=True)
    sidecar = Path(sidecar_of(str(path)))
    sidecar.write_bytes(sidecar.read_bytes().replace(b'"written": 5', b'"written": 4'))
    assert (guard.mark(), guard.mark(reading=True)) == (7, 7)


def test_etcd() -> None:
    guard = EtcdGuard(f"http://{shared(Etcd).address}", prefix="older/marks/")
    bare = EtcdGuard(f"http://{shared(Etcd).address}", prefix="older/others/")
    guard.reset(NAME)
    guard.enter(5, name=NAME)
    guard.enter(7, name=NAME, reading=True)
    key = f"older/marks/{NAME}"
    value = bare.enter(1, key, name="look")[key]
    assert value is not None
    assert value[:19] == b"7".zfill(19)
    bare.put(key, f"{8:019d} 1790000000", 1, name="look")
    _shuts_older_readers_out(guard.mark(NAME), guard.mark(NAME, reading=True))


def test_zookeeper() -> None:
    zk: Any = KazooClient(shared(ZooKeeper).address, timeout=30)
    zk.start(30)
    try:
        guard = ZooKeeperGuard(zk, "/older/marks")
        guard.reset(NAME)
        guard.enter(5, name=NAME)
        guard.enter(7, name=NAME, reading=True)
        data, _ = zk.get(f"/older/marks/{NAME}")
        assert data.isdigit()
        assert int(data) == 7
        zk.set(f"/older/marks/{NAME}", b"8")
        _shuts_older_readers_out(guard.mark(NAME), guard.mark(NAME, reading=True))
    finally:
        zk.stop()
        zk.close()


def test_s3() -> None:
    server = shared(seaweed.Seaweed)
    client, key = seaweed.client(server.url), f"{server.fresh_prefix()}value"
    guard = S3Guard(client, seaweed.BUCKET)
    guard.put(key, b"data", 5, name=NAME, Metadata={"theirs": "kept"})
    guard.enter(key, 7, name=NAME, reading=True)
    found = client.get_object(Bucket=seaweed.BUCKET, Key=key)
    assert found["Body"].read()[:SIZE] == wrap(7, b"")
    assert found["Metadata"]["theirs"] == "kept"
    client.put_object(  # it enters, and keeps the metadata
        Bucket=seaweed.BUCKET, Key=key, Body=wrap(8, b"data"), Metadata=found["Metadata"]
    )
    _shuts_older_readers_out(guard.mark(key), guard.mark(key, reading=True))
    with pytest.raises(StaleFence):
        guard.enter(key, 7, name=NAME, reading=True)
    client.close()


def test_dynamodb() -> None:
    server, key = shared(dynamodb.DynamoDB), {"id": "42"}
    table = dynamodb.table(server.url, server.fresh_table())
    guard = DynamoDBGuard(table)
    guard.put(key, 5, name=NAME)
    item = guard.enter(key, 7, name=NAME, reading=True)
    assert item["fence"] == 7
    table.put_item(Item={**item, "fence": 8})  # with whatever it has read
    _shuts_older_readers_out(guard.mark(key), guard.mark(key, reading=True))
    guard.enter(key, 9, name=NAME, reading=True)
    guard.put({**guard.enter(key, 9, name=NAME, reading=True)}, 9, name=NAME)
    assert table.get_item(Key=key)["Item"] == {**key, "fence": 9}


def _shuts_older_readers_out(highest: int, written: int) -> None:
    assert (highest, written) == (8, 8)
