"""The examples that need a store, each with one. Without it they only say what they need."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.servers.dynamodb import REGION, DynamoDB
from tests.servers.etcd import Etcd
from tests.servers.redis import Redis
from tests.servers.seaweed import BUCKET, Seaweed
from tests.servers.shared import shared
from tests.servers.zookeeper import ZooKeeper

EXAMPLES = Path(__file__).parents[2] / "examples"
AWS = {"AWS_DEFAULT_REGION": REGION, "AWS_ACCESS_KEY_ID": "any", "AWS_SECRET_ACCESS_KEY": "any"}


def dynamodb() -> dict[str, str]:
    server = shared(DynamoDB)
    return {**AWS, "AWS_ENDPOINT_URL": server.url, "TABLE": server.fresh_table()}


STORES: dict[str, Callable[[], dict[str, str]]] = {
    "guard_redis.py": lambda: {"REDIS": shared(Redis).fresh_url()},
    "guard_etcd.py": lambda: {"ETCD": f"http://{shared(Etcd).address}"},
    "guard_zookeeper.py": lambda: {"ZOOKEEPER": shared(ZooKeeper).address},
    "guard_dynamodb.py": dynamodb,
    "guard_s3.py": lambda: {**AWS, "AWS_ENDPOINT_URL": shared(Seaweed).url, "BUCKET": BUCKET},
}


@pytest.mark.parametrize("example", STORES)
def test_an_example_refuses_the_frozen_holder(example: str, tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / example)],
        cwd=tmp_path,
        env={**os.environ, **STORES[example]()},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "the first holder is refused" in ran.stdout
