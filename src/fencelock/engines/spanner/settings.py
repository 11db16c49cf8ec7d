"""Read from a URL which table is meant and how to reach it."""

from __future__ import annotations

import os
import re
from typing import NamedTuple

from ...engine import Address
from ...errors import Misconfigured
from ..options import CONNECT_TIMEOUT_S, POOL, REQUEST_TIMEOUT_S, Reader, common, switch, text

TABLE = "fencelock"
EXAMPLE = "write spanner://project/instance/database"
_PROJECT = re.compile(r"[a-z][a-z0-9.-]*[a-z0-9]")
_INSTANCE = re.compile(r"[a-z][a-z0-9-]*[a-z0-9]")
_DATABASE = re.compile(r"[a-z][a-z0-9_-]*[a-z0-9]")
_TABLE = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,127}")


def check_table(value: object) -> str:
    """Return the name of a table, or say what is wrong with it."""
    if not isinstance(value, str) or not _TABLE.fullmatch(value):
        allowed = "a letter, and up to 127 letters, digits and '_'"
        raise Misconfigured(f"table must be {allowed}, not {value!r:.80}")
    return value


OPTIONS: dict[str, Reader] = {
    **common("prefix", "request_timeout", "connect_timeout", "pool"),
    "table": check_table,
    "create": switch("create"),
    "emulator": text("emulator"),
}


class Settings(NamedTuple):
    """Where the locks of one client are."""

    database: str  # its whole resource name
    table: str
    emulator: str | None  # host:port, if it is one
    prefix: str
    request_timeout: float
    connect_timeout: float
    pool: int
    create: bool


def settled(address: Address) -> Address:
    """Name the emulator that Google's own clients would use, if none is named."""
    emulator = os.environ.get("SPANNER_EMULATOR_HOST")
    if emulator and "emulator" not in address.options:
        return address._replace(options={**address.options, "emulator": emulator})
    return address


def settings(address: Address) -> Settings:
    """Read the address of a spanner engine."""
    options = address.options
    project, port = address.hosts[0] if len(address.hosts) == 1 else ("", None)
    _, instance, database, *more = (*address.path.split("/"), "", "")
    if port is not None:
        raise Misconfigured(f"a project has no port: {EXAMPLE}?emulator=host:port for an emulator")
    if address.user is not None or address.password is not None:
        raise Misconfigured("Google's credentials are not part of the URL: see the page of spanner")
    parts = {"project": (_PROJECT, project), "instance": (_INSTANCE, instance)}
    parts["database"] = (_DATABASE, database)
    for what, (allowed, found) in parts.items():
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
