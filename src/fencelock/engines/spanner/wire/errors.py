"""Map the errors of gRPC, of Google's credentials and of Spanner to ours: one table.

gRPC repeats nothing by itself, so that an error is about the only attempt. Only a commit changes
anything, so that everything else that has no answer has done nothing.
"""

from __future__ import annotations

from typing import Any

from ....errors import Denied, FencelockError, Misconfigured, OutcomeUnknown, Unavailable
from ..settings import Settings

LOGIN = "run `gcloud auth application-default login`, or set GOOGLE_APPLICATION_CREDENTIALS"
RIGHTS = "grant roles/spanner.databaseUser on the database"
_UNSENT = ("failed to connect", "DNS resolution failed", "Getting metadata from plugin failed")
_SILENT = {"CANCELLED", "UNKNOWN", "DEADLINE_EXCEEDED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS"}


class Aborted(Exception):
    """The transaction met another one and did nothing: it may be tried again."""


class SessionMissing(Exception):
    """Spanner has dropped the session, and with it what was begun there: nothing was done."""


class Disconnected(Unavailable):
    """There is no connection, or it was broken before a request that changes nothing was sent."""


class Unanswered(Unavailable):
    """A request that changes nothing has no answer."""


class TableMissing(Misconfigured):
    """The table is not there."""


def told(error: Exception, method: str, settings: Settings) -> Exception:
    """Return our error for one that gRPC or the package has raised."""
    database, code = settings.database, _code(error)
    words = " ".join(str(getattr(error, "details", lambda: error)() or error).split())
    if type(error).__module__.startswith("google.auth"):
        return Denied(f"there are no credentials for {database} ({words}): {LOGIN}")
    if isinstance(error, ImportError):
        return Misconfigured(f"google-cloud-spanner cannot be loaded ({words}): install it again")
    if code == "ABORTED":
        return Aborted(words)
    if code == "NOT_FOUND" and ("Session not found" in words or "Transaction not found" in words):
        return SessionMissing(words)
    if code == "NOT_FOUND":
        advice = "create it, or correct the URL: spanner://project/instance/database"
        return Misconfigured(f"{database} is not there, nothing was done ({words}): {advice}")
    if "Table not found" in words:
        return TableMissing(f"{database} has no table {settings.table!r}; nothing was done")
    if code in ("PERMISSION_DENIED", "UNAUTHENTICATED"):
        advice = RIGHTS if code == "PERMISSION_DENIED" else LOGIN
        return Denied(f"{database} refuses these credentials; nothing was done ({words}): {advice}")
    unwritten = method != "Commit" and "sendmsg" in words
    if code == "UNAVAILABLE" and (unwritten or words.startswith(_UNSENT)):
        return Disconnected(f"{database} cannot be reached; nothing was done ({words})")
    if code == "RESOURCE_EXHAUSTED":
        return Unavailable(f"{database} cannot serve now; nothing was done ({words})")
    if code in _SILENT or code is None:
        return no_answer(method, database, words)
    if method == "ExecuteSql" and "syntax error" in words.lower():
        advice = "if it has PostgreSQL's dialect, name a database of GoogleSQL's"
        return Misconfigured(f"{database} does not know our SQL ({words}): {advice}")
    return Misconfigured(f"{database} refuses the request, nothing was done ({words})")


def no_answer(method: str, database: str, why: object) -> FencelockError:
    """The error of a request that may have been carried out."""
    what = f"{database} did not answer ({why})"
    if method == "Commit":
        return OutcomeUnknown(f"{what}: the change may have taken effect")
    return Unanswered(f"{what}; nothing was done")


def is_late(error: Exception) -> bool:
    """Whether a request has ended by its deadline."""
    return _code(error) == "DEADLINE_EXCEEDED"


def _code(error: Exception) -> str | None:
    read: Any = getattr(error, "code", None)
    code: Any = None if read is None else read()
    return None if code is None else str(code.name)
