"""Map the errors of Firestore alone to errors of ours; see ``_google/errors.py`` for the rest.

Where a precondition failed, or a write contended with another, nothing has happened.
"""

from __future__ import annotations

from ....errors import Misconfigured, Unavailable
from ..._google import errors
from ..settings import Settings

RIGHTS = "give the account the role roles/datastore.user in that project"
CREATE = "make it with gcloud firestore databases create, or name another by database="

_REFUSED = {"NOT_FOUND", "ALREADY_EXISTS", "FAILED_PRECONDITION"}


class Refused(Exception):
    """A precondition did not hold."""


class Contended(Unavailable):
    """Another write to the same document was in the way, so nothing was done."""


def map_error(settings: Settings, writes: bool, code: str, words: str) -> Exception:
    """Return our error for a status of gRPC."""
    what = settings.shown
    no_database = "database" in words and "does not exist" in words
    if code in _REFUSED and writes and not no_database:
        return Refused(words)
    if code == "NOT_FOUND":
        return Misconfigured(f"{what} has no database, so nothing was done ({words}): {CREATE}")
    if code == "ABORTED":
        return Contended(f"{what} was changed on every attempt; nothing was done ({words})")
    return errors.map_error(what, RIGHTS, code, words, writes=writes)
