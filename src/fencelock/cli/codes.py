"""The exit codes of the command line: one table, shown in ``--help`` and in the documentation."""

from __future__ import annotations

from ..errors import (
    Denied,
    EngineError,
    FencelockError,
    LeaseLost,
    Misconfigured,
    NotAcquired,
    OutcomeUnknown,
    Unsupported,
    UsageError,
)

OK = 0
DECLINED = 1
UNREACHABLE = 69
NOT_ACQUIRED = 75
DENIED = 77
MISCONFIGURED = 78
LOST = 79
BROKEN = 80
TIMED_OUT = 124
FAILED = 125
NOT_EXECUTABLE = 126
NOT_FOUND = 127
SIGNALLED = 128

TABLE: tuple[tuple[str, str], ...] = (
    ("0-255", "run, elect: the command's own exit code; other verbs: 0 on success"),
    (str(DECLINED), "revoke: not confirmed, nothing was revoked; leader: nobody leads"),
    (str(UNREACHABLE), "the engine cannot be reached or cannot serve now"),
    (str(NOT_ACQUIRED), "not acquired in time (-E changes this code, --skip-ok makes it 0)"),
    (str(DENIED), "refused by the engine's access control"),
    (
        str(MISCONFIGURED),
        "bad configuration: the URL, a name, a ttl, or an unsuitable engine",
    ),
    (str(LOST), "the lease was lost and the command was stopped"),
    (str(BROKEN), "torture: a promise was broken; lab: not as expected"),
    (str(TIMED_OUT), "--max-runtime was hit and the command was stopped"),
    (str(FAILED), "fencelock itself failed, or the command line cannot be read"),
    (str(NOT_EXECUTABLE), "the command was found but cannot be run"),
    (str(NOT_FOUND), "the command was not found"),
    (f"{SIGNALLED}+N", "the command died by signal N, or signal N ended the wait"),
)


class BadArguments(UsageError):
    """The command line cannot be read."""


def of(error: FencelockError) -> int:
    """Return the exit code for an error."""
    if isinstance(error, NotAcquired):
        return NOT_ACQUIRED
    if isinstance(error, BadArguments):
        return FAILED
    if isinstance(error, Denied):
        return DENIED
    if isinstance(error, Misconfigured | Unsupported | UsageError):
        return MISCONFIGURED
    if isinstance(error, LeaseLost):
        return LOST
    if isinstance(error, EngineError | OutcomeUnknown):
        return UNREACHABLE
    return FAILED


def failure(error: Exception, code: int) -> dict[str, object]:
    """Describe an error and its exit code in JSON values, for programs."""
    happened = isinstance(error, FencelockError) and error.may_have_happened
    kind = "UsageError" if isinstance(error, BadArguments) else type(error).__name__
    about = {"type": kind, "message": str(error), "may_have_happened": happened}
    return {"error": about, "exit_code": code}


def text() -> str:
    """Format the table as lines of text."""
    return "\n".join(f"  {code:<7} {meaning}" for code, meaning in TABLE)
