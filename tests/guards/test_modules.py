"""The modules of the guards themselves: what they load, and that both flavors are alike."""

from __future__ import annotations

import inspect
import subprocess
import sys
from typing import Any

import pytest

from fencelock.guards.dynamodb import AsyncDynamoDBGuard, DynamoDBGuard
from fencelock.guards.etcd import AsyncEtcdGuard, EtcdGuard
from fencelock.guards.http import asgi, wsgi
from fencelock.guards.redis import AsyncRedisGuard, RedisGuard
from fencelock.guards.s3 import AsyncS3Guard, S3Guard


@pytest.mark.parametrize("module", ["redis", "files", "http", "http.asgi", "http.wsgi"])
def test_a_guard_loads_no_driver_before_it_is_used(module: str) -> None:
    code = f"import sys, fencelock.guards.{module}; print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    drivers = {"redis", "httpx", "requests", "psycopg", "pymysql", "sqlalchemy", "django"}
    assert sorted(drivers & set(ran.stdout.split())) == []


def verbs(kind: type[Any]) -> dict[str, Any]:
    return {name: found for name, found in inspect.getmembers(kind) if name[0] != "_"}


FLAVORS = [
    (RedisGuard, AsyncRedisGuard),
    (EtcdGuard, AsyncEtcdGuard),
    (DynamoDBGuard, AsyncDynamoDBGuard),
    (S3Guard, AsyncS3Guard),
]


@pytest.mark.parametrize(("blocking", "awaited"), FLAVORS)
def test_both_flavors_of_a_guard_have_the_same_verbs(
    blocking: type[Any], awaited: type[Any]
) -> None:
    ours, theirs = verbs(blocking), verbs(awaited)
    assert ours.keys() == theirs.keys()
    for name, verb in ours.items():
        assert inspect.signature(verb) == inspect.signature(theirs[name]), name
        assert verb.__doc__ == theirs[name].__doc__, name
        asks = verb is not theirs[name]  # what both inherit asks nobody
        assert inspect.iscoroutinefunction(theirs[name]) is asks, name


def test_both_middlewares_have_the_same_options() -> None:
    ours, theirs = (
        {name: (o.kind, o.default) for name, o in inspect.signature(kind).parameters.items()}
        for kind in (asgi.FencingMiddleware, wsgi.FencingMiddleware)
    )
    assert ours == theirs
