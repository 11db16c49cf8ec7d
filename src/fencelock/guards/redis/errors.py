"""Map the errors of redis-py to ours."""

from __future__ import annotations

import re

from ...errors import Denied, OutcomeUnknown, Unavailable, UsageError
from ..fence import Claim
from .script import STALE

_NOT_NOW = re.compile(
    r"\b(BUSY|CLUSTERDOWN|LOADING|MASTERDOWN|MISCONF|NOREPLICAS|OOM|READONLY|TRYAGAIN)\b"
)


class Broken(Exception):
    """A command that failed with its connection, without a reply."""

    def __init__(self, error: Exception, sent: bool) -> None:
        super().__init__(str(error))
        self.error = error
        self.sent = sent
        """Whether the command may have reached the server."""


def breaks() -> tuple[type[Exception], ...]:
    """Return the errors of connections, as opposed to error replies."""
    from redis import exceptions as theirs

    return (
        theirs.ConnectionError,
        theirs.TimeoutError,
        theirs.ClusterDownError,
        theirs.RedisClusterException,
        OSError,
    )


class translated:  # noqa: N801  # a context manager, used as a verb
    """Raise our error for the driver's, inside of a ``with`` block."""

    __slots__ = ("_claim",)

    def __init__(self, claim: Claim | None) -> None:
        self._claim = claim

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, Exception) and (ours := _mapped(error, self._claim)) is not error:
            raise ours from error


def _mapped(error: Exception, claim: Claim | None) -> Exception:
    """Return our error for the driver's. An error of the guarded script itself stays unchanged."""
    from redis import exceptions as theirs

    if isinstance(error, Broken):
        return _broken(error)
    if isinstance(error, breaks()):  # during a scan for marks, which changes nothing
        return _broken(Broken(error, sent=False))
    text = str(error)
    if isinstance(error, theirs.ResponseError):
        if claim is not None and text.startswith(STALE):
            mark, reader = text.removeprefix(STALE).partition(" ")[::2]
            return claim.stale(int(mark), "read" if reader else "write")
        if isinstance(error, theirs.NoPermissionError) or text.startswith(("NOPERM", "NOAUTH")):
            return Denied(f"Redis does not let us run the guard's script, nothing happened: {text}")
        if text.startswith("CROSSSLOT") or isinstance(error, theirs.ClusterCrossSlotError):
            return _apart()
        if isinstance(error, (theirs.ReadOnlyError, theirs.OutOfMemoryError, theirs.TryAgainError)):
            return Unavailable(f"Redis cannot serve now, nothing happened: {text}")
        if _NOT_NOW.search(text):
            return Unavailable(f"Redis cannot serve now, nothing happened: {text}")
    elif isinstance(error, theirs.DataError):
        return UsageError(f"Redis cannot store that: {text}")
    return error


def _broken(broken: Broken) -> Exception:
    from redis import exceptions as theirs

    error, text = broken.error, str(broken)
    if isinstance(error, (theirs.AuthenticationError, theirs.AuthorizationError)):
        return Denied(f"Redis refused our name or password, nothing happened: {text}")
    if "same key slot" in text:
        return _apart()
    if not broken.sent or isinstance(error, (theirs.BusyLoadingError, theirs.ClusterDownError)):
        return Unavailable(f"Redis cannot be reached, nothing happened: {text}")
    return OutcomeUnknown(
        f"Redis did not answer ({text}): the guarded operation may have happened or may still do "
        "so; read what it should have changed, under the same guard, before you decide"
    )


def _apart() -> UsageError:
    return UsageError(
        "in a cluster, a guarded key must be in the slot of its lock: give both the same hash tag, "
        "such as the lock 'cart:{user:7}' for the key '{user:7}:cart'"
    )
