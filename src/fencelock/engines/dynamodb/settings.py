"""Read the table and its endpoint from a URL."""

from __future__ import annotations

import re
from typing import NamedTuple

from ...engine import Address
from ...errors import Misconfigured
from ..options import CONNECT_TIMEOUT_S, POOL, REQUEST_TIMEOUT_S, Reader, common, switch, text

ANY_REGION = "us-east-1"  # for a self-hosted server, which has no region
EXAMPLE = "write dynamodb://eu-central-1/locks, or dynamodb://host:port/locks for another server"
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
    endpoint: str | None  # the URL of a server that is not the region's public one
    login: tuple[str | None, str | None]  # None where the AWS SDK finds it by itself
    prefix: str
    request_timeout: float
    connect_timeout: float
    pool: int
    create: bool


def settings(address: Address) -> Settings:
    """Read the address of a dynamodb engine."""
    options, table = address.options, address.path.removeprefix("/")
    region, port = address.hosts[0] if len(address.hosts) == 1 else ("", None)
    endpoint = options.get("endpoint")
    if not _TABLE.fullmatch(table):
        allowed = "3 to 255 letters, digits, '_', '-' and '.'"
        raise Misconfigured(f"a DynamoDB table has {allowed}, not {table!r:.80}: {EXAMPLE}")
    if port is not None and endpoint is not None:
        raise Misconfigured("host:port in the URL is the endpoint: leave endpoint= out")
    if port is not None:
        region, endpoint = ANY_REGION, f"http://{region}:{port}"
    elif not _REGION.fullmatch(region):
        raise Misconfigured(f"a dynamodb URL names one region of AWS: {EXAMPLE}")
    if (address.user is None) != (address.password is None):
        raise Misconfigured("an access key comes with its secret: write key:secret@ in the URL")
    return Settings(
        region,
        table,
        None if endpoint is None else str(endpoint),
        (address.user, address.password),
        str(options.get("prefix", "")),
        float(str(options.get("request_timeout", REQUEST_TIMEOUT_S))),
        float(str(options.get("connect_timeout", CONNECT_TIMEOUT_S))),
        int(str(options.get("pool", POOL))),
        bool(options.get("create", True)),
    )
