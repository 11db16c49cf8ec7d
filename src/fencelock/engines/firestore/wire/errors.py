"""Map the errors of gRPC and of Firestore to ours: one table.

Nothing is sent twice, so that an error is about the only attempt. Where a precondition failed, or a
transaction of another was in the way, nothing has happened; where no answer came, a write may have.
"""

from __future__ import annotations

from typing import Any

from ....errors import Denied, FencelockError, Misconfigured, OutcomeUnknown, Unavailable
from ..settings import LOGIN, Settings

RIGHTS = "give the account the role roles/datastore.user in that project"
CREATE = "make it with gcloud firestore databases create, or name another by database="

# The codes of gRPC.
OK, UNKNOWN, INVALID_ARGUMENT, DEADLINE_EXCEEDED, NOT_FOUND, ALREADY_EXISTS = 0, 2, 3, 4, 5, 6
PERMISSION_DENIED, RESOURCE_EXHAUSTED, FAILED_PRECONDITION, ABORTED = 7, 8, 9, 10
OUT_OF_RANGE, UNIMPLEMENTED, UNAVAILABLE, UNAUTHENTICATED = 11, 12, 14, 16

_REFUSED = {NOT_FOUND, ALREADY_EXISTS, FAILED_PRECONDITION}
# What gRPC says, without a code of its own, where it had no connection to send a request over.
_UNSENT = ("failed to connect to all addresses", "DNS resolution failed", "Getting metadata from")


class Refused(Exception):
    """A precondition did not hold."""


class Contended(Unavailable):
    """Another write to the same document was in the way, so nothing was done."""


def told(settings: Settings, code: int, details: str, *, writes: bool) -> Exception:
    """Return our error for a status of gRPC."""
    what, done = settings.shown, "nothing was done"
    no_database = "database" in details and "does not exist" in details
    if code in _REFUSED and writes and not no_database:
        return Refused(details)
    if code == NOT_FOUND:
        return Misconfigured(f"{what} has no database, so {done} ({details}): {CREATE}")
    if code == UNAUTHENTICATED:
        return Denied(f"{what} does not know who we are, so {done} ({details}): {LOGIN}")
    if code == PERMISSION_DENIED:
        return Denied(f"{what} may not be used by this account; {done} ({details}): {RIGHTS}")
    if code == ABORTED:
        return Contended(f"{what} was changed by others all the time; {done} ({details})")
    if code == RESOURCE_EXHAUSTED or (code == UNAVAILABLE and details.startswith(_UNSENT)):
        return Unavailable(f"{what} cannot serve now; {done} ({details})")
    if code in {INVALID_ARGUMENT, FAILED_PRECONDITION, OUT_OF_RANGE, UNIMPLEMENTED}:
        return Misconfigured(f"{what} refuses the request; {done}: {details}")
    return no_answer(settings, details, writes=writes)


def no_answer(settings: Settings, why: object, *, writes: bool) -> FencelockError:
    """The error of a request that may have been carried out."""
    what = f"{settings.shown} did not answer ({why})"
    if writes:
        return OutcomeUnknown(f"{what}: the change may have taken effect")
    return Unavailable(f"{what}; nothing was done")


def not_connected(settings: Settings, error: Exception) -> FencelockError:
    """The error of a client that could not be made."""
    names = {kind.__name__ for kind in type(error).__mro__}
    if "DefaultCredentialsError" in names:
        text = "there are no credentials of Google Cloud here"
        return Denied(f"{settings.shown} was not asked: {text} ({error}): {LOGIN}")
    if isinstance(error, ImportError):
        text = 'pip install "fencelock[firestore]"'
        return Misconfigured(f"firestore:// cannot load its client ({error}): {text}")
    return Unavailable(f"{settings.shown} was not asked; nothing was done ({error})")


def status_of(error: Any) -> tuple[int, str]:
    """The code and the text of an error of gRPC."""
    code = getattr(error, "code", None)
    if not callable(code):
        return UNKNOWN, f"{type(error).__name__}: {error}"
    found: Any = code()
    return int(found.value[0]), str(error.details())
