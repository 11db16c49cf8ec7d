"""The way through a proxy: which URLs have one, and where it leads."""

from __future__ import annotations

import pytest

from fencelock.engines.url import parse
from fencelock.judge.torture.network import detour, why_not
from fencelock.judge.torture.run import with_session


@pytest.mark.parametrize(
    ("url", "there"),
    [
        ("redis://h:6379/0", "redis://p:1/0"),
        ("redis://user:se%2Fcret@h/0?prefix=a:", "redis://user:se%2Fcret@p:1/0?prefix=a:"),
        ("redlock://h1,h2,h3", "redlock://p:1"),
        ("etcd://h?prefix=x/", "etcd://p:1?prefix=x/"),
        ("zookeeper://h:2181/root", "zookeeper://p:1/root"),
    ],
)
def test_only_the_hosts_of_a_url_are_replaced(url: str, there: str) -> None:
    assert detour(url, ["p:1"]) == there


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("redis://h:6379/0", ""),
        ("redlock://h1,h2,h3", ""),
        ("postgresql://u@h/db?sslmode=prefer", ""),
        ("mysql://u:p@h/db", ""),
        ("etcd://h1,h2,h3", ""),
        ("zookeeper://h", ""),
        ("sqlite:///locks.db", "without a network"),
        ("redis+sentinel://h/service", "other addresses"),
        ("redis+cluster://h", "other addresses"),
        ("postgresql://u@h/db?sslmode=verify-full", "TLS checks the name"),
        ("zookeeper://h?tls=yes", "TLS checks the name"),
        ("etcd://h?ca=ca.pem", "TLS checks the name"),
        ("postgresql:///db", "names no host"),
        ("theirs://h", "not known"),
    ],
)
def test_where_no_proxy_can_stand_the_reason_is_told(url: str, why: str) -> None:
    told = why_not(parse(url, {}))
    assert why in told
    assert bool(told) == bool(why)


def test_zookeeper_is_asked_for_a_session_that_fits_the_ttl() -> None:
    assert with_session("zookeeper://h/root", 3.0) == "zookeeper://h/root?session=4"
    assert with_session("zookeeper://h?acl=open", 3.0) == "zookeeper://h?session=4&acl=open"
    assert with_session("zookeeper://h?session=9", 3.0) == "zookeeper://h?session=9"
    assert with_session("redis://h/0", 3.0) == "redis://h/0"
