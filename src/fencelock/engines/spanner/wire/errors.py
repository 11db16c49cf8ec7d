"""Map the errors of Spanner alone to errors of ours; see ``_google/errors.py`` for the rest.

Only a commit changes anything, so that any other request without a reply has done nothing.
"""

from __future__ import annotations

from ....errors import Misconfigured
from ..._google import errors
from ..settings import EXAMPLE, Settings

RIGHTS = "grant roles/spanner.databaseUser on the database"


class Aborted(Exception):
    """Spanner has aborted the transaction, which has done nothing: it may be retried."""


class SessionMissing(Exception):
    """Spanner has dropped the session, and with it its transaction: nothing was done."""


class TableMissing(Misconfigured):
    """The table is not there."""


def map_error(settings: Settings, method: str, code: str, words: str) -> Exception:
    """Return our error for a status of gRPC."""
    database = settings.database
    if code == "ABORTED" or "Invalid transaction ID" in words or "later transaction" in words:
        return Aborted(words)  # the last two: a read that was sent twice began two transactions
    if code == "NOT_FOUND" and ("Session not found" in words or "Transaction not found" in words):
        return SessionMissing(words)
    if code == "NOT_FOUND":
        advice = f"create it, or correct the URL: {EXAMPLE}"
        return Misconfigured(f"{database} is not there, nothing was done ({words}): {advice}")
    if "Table not found" in words:
        return TableMissing(f"{database} has no table {settings.table!r}; nothing was done")
    if method == "ExecuteSql" and "syntax error" in words.lower():
        advice = "if it has PostgreSQL's dialect, name a database of GoogleSQL's"
        return Misconfigured(f"{database} does not know our SQL ({words}): {advice}")
    return errors.map_error(database, RIGHTS, code, words, writes=method == "Commit")
