"""Read the database and the table from a URL."""

from __future__ import annotations

import re
from typing import NamedTuple

from ...engine import Address
from ...errors import Misconfigured
from .._google.settings import read_emulator, read_project
from ..options import CONNECT_TIMEOUT_S, POOL, REQUEST_TIMEOUT_S, Reader, common, switch

TABLE = "fencelock"
EMULATOR_VARIABLE = "SPANNER_EMULATOR_HOST"  # which all of Google's clients read
EXAMPLE = "write spanner://project/instance/database"
_INSTANCE = re.compile(r"[a-z][a-z0-9-]*[a-z0-9]")
_DATABASE = re.compile(r"[a-z][a-z0-9_-]*[a-z0-9]")
_TABLE = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,127}")


def check_table(value: object) -> str:
    """Return the name of a table, or raise if it is not allowed."""
    if not isinstance(value, str) or not _TABLE.fullmatch(value):
        allowed = "a letter, and up to 127 letters, digits and '_'"
        raise Misconfigured(f"table must be {allowed}, not {value!r:.80}")
    return value


OPTIONS: dict[str, Reader] = {
    **common("prefix", "request_timeout", "connect_timeout", "pool"),
    "table": check_table,
    "create": switch("create"),
    "emulator": read_emulator,
}


class Settings(NamedTuple):
    """Where the locks of one client are."""

    database: str  # its full resource name
    table: str
    emulator: str | None  # host:port, if it is one
    prefix: str
    request_timeout: float
    connect_timeout: float
    pool: int
    create: bool


def settings(address: Address) -> Settings:
    """Read the address of a spanner engine."""
    options, project = address.options, read_project(address, EXAMPLE)
    _, instance, database, *more = (*address.path.split("/"), "", "")
    parts = (("instance", _INSTANCE, instance), ("database", _DATABASE, database))
    for what, allowed, found in parts:
        if not allowed.fullmatch(found):
            raise Misconfigured(f"a spanner URL names no {what} by {found!r:.80}: {EXAMPLE}")
    if any(more):
        raise Misconfigured(f"there is something behind the database: {EXAMPLE}?table=name")
    return Settings(
        f"projects/{project}/instances/{instance}/databases/{database}",
        str(options.get("table", TABLE)),
        None if options.get("emulator") is None else str(options["emulator"]),
        str(options.get("prefix", "")),
        float(str(options.get("request_timeout", REQUEST_TIMEOUT_S))),
        float(str(options.get("connect_timeout", CONNECT_TIMEOUT_S))),
        int(str(options.get("pool", POOL))),
        bool(options.get("create", True)),
    )
