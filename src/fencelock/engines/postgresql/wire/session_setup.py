"""The first statement on every connection: it detects a pooler, and sets the session up.

A pooler gives its clients a process id of its own making, so a backend with another pid is behind a
pooler. There a session's settings would stay for the next client of that backend, so none are made,
and nothing is prepared.

Our statements find their rows by an index. A plan that was made while a table was empty would read
all of it, and a queue leaves many dead rows behind until the next vacuum: so plans are forced.
"""

from __future__ import annotations

from typing import Any

from ....errors import Misconfigured
from ..settings import Settings

_SQL = b"""SELECT CASE WHEN pg_backend_pid() = %s::int THEN
  set_config('lock_timeout', %s, false) || set_config('statement_timeout', %s, false) ||
  set_config('default_transaction_isolation', 'read committed', false) ||
  set_config('plan_cache_mode', 'force_generic_plan', false) ||
  set_config('enable_seqscan', 'off', false) || set_config('jit', 'off', false) ||
  CASE WHEN current_setting('synchronous_commit') = 'off'
    THEN set_config('synchronous_commit', 'on', false) ELSE '' END END,
  current_setting('default_transaction_isolation')"""


def setup_statement(settings: Settings, pgconn: Any) -> tuple[bytes, tuple[object, ...]]:
    """Return the statement, with the driver's placeholders, and its values."""
    timeout_ms = settings.request_timeout * 1000
    return _SQL, (pgconn.backend_pid, f"{timeout_ms * 0.8:.0f}", f"{timeout_ms:.0f}")


def is_direct(answer: Any, settings: Settings) -> bool:
    """Return whether this is the server itself; refuse a pooler with another isolation level."""
    direct = answer[0] is not None
    isolation = answer[1] if isinstance(answer[1], str) else answer[1].decode()
    if not direct and isolation != "read committed":
        raise Misconfigured(
            f"{settings.where} is behind a pooler and has default_transaction_isolation = "
            f"{isolation}: it must be read committed"
        )
    return direct
