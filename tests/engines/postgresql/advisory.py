"""Which sessions hold advisory locks, and a way to the server that can be cut."""

from __future__ import annotations

from typing import Any

import psycopg

from tests.servers.postgresql import USER
from tests.servers.proxy import Proxy

Link = psycopg.Connection[Any]


def via(proxy: Proxy, options: str = "request_timeout=5") -> str:
    return f"postgresql://{USER}@{proxy.address}/postgres?mode=advisory&{options}"


def sessions(link: Link) -> list[int]:
    """The sessions of fencelock that hold an advisory lock of one key."""
    rows = link.execute(
        "SELECT DISTINCT pid FROM pg_locks JOIN pg_stat_activity USING (pid)"
        " WHERE locktype = 'advisory' AND objsubid = 1 AND granted"
        " AND application_name = 'fencelock'"
    ).fetchall()
    return [pid for (pid,) in rows]
