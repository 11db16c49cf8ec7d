"""Read from a URL which table is meant and how to reach it."""

from __future__ import annotations

import re
from typing import NamedTuple

from ...engine import Address
from ...errors import Misconfigured
from ..options import (
    CONNECT_TIMEOUT_S,
    POOL,
    REQUEST_TIMEOUT_S,
    Reader,
    common,
    switch,
    text,
)

ANY_REGION = "us-east-1"  # for a server of one's own, which has none
_TABLE = re.compile(r"[A-Za-z0-9_.-]{3,255}")
_REGION = re.compile(r"[a-z]{2}(-[a-z]+)+-\d+")

OPTIONS: dict[str, Reader] = {
    **common("prefix", "request_timeout", "connect_timeout", "pool"),
    "endpoint": text("endpoint"),
    "create": switch("create"),
}


class Settings(NamedTuple):
    """Where the locks of one client are."""

    region: str
    table: str
    endpoint: str | None
    """The URL of a server that is not the region's public one."""
    login: tuple[str, str] | None
    """An access key and its secret; None where the AWS SDK finds them by itself."""
    prefix: str
    request_timeout: float
    connect_timeout: float
    pool: int
    create: bool
    """Make the table if it is not there."""


def settings(address: Address) -> Settings:
    """Read the address of a dynamodb engine."""
    options, table = address.options, address.path.removeprefix("/")
    if len(address.hosts) != 1:
        raise Misconfigured("a dynamodb URL names one region: dynamodb://eu-central-1/locks")
    if not _TABLE.fullmatch(table):
        raise Misconfigured(
            f"a DynamoDB table has 3 to 255 letters, digits, '_', '-' or '.', not {table!r:.80}: "
            "write dynamodb://eu-central-1/locks"
        )
    ((host, port),) = address.hosts
    endpoint = options.get("endpoint")
    if port is not None:
        if endpoint is not None:
            raise Misconfigured("host:port in the URL is the endpoint: leave endpoint= out")
        host, endpoint = ANY_REGION, f"http://{host}:{port}"
    elif not _REGION.fullmatch(host):
        raise Misconfigured(
            f"{host!r:.80} is not a region of AWS: write dynamodb://eu-central-1/locks, or "
            "dynamodb://host:port/locks for a server of your own"
        )
    if (address.user is None) != (address.password is None):
        raise Misconfigured("an access key comes with its secret: write key:secret@ in the URL")
    return Settings(
        host,
        table,
        None if endpoint is None else str(endpoint),
        None if address.user is None else (address.user, str(address.password)),
        str(options.get("prefix", "")),
        float(str(options.get("request_timeout", REQUEST_TIMEOUT_S))),
        float(str(options.get("connect_timeout", CONNECT_TIMEOUT_S))),
        int(str(options.get("pool", POOL))),
        bool(options.get("create", True)),
    )
