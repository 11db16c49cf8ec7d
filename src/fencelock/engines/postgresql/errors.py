"""Map the errors of PostgreSQL and its driver to our own: the one table.

A statement that the server refused has been rolled back: nothing happened. If a connection ends
while a statement is under way, it is unknown whether the statement was committed, even where the
server still sends a message: that is ``OutcomeUnknown``, and the caller retries for the same owner.
"""

from __future__ import annotations

from ...errors import (
    Denied,
    EngineError,
    FencelockError,
    Misconfigured,
    OutcomeUnknown,
    Unavailable,
)

PREPARED = "42P05"  # a statement of this name is prepared already
LOCK_TIMEOUT = "55P03"
RETRIED = {"40001", "40P01"}  # serialization failure, deadlock: rolled back, and to be retried
_GONE = {"57P01", "57P02", "57P03", "57P05", "25P03"}  # ended by an administrator or a timeout

_SCHEMA = "name one that this role may use with schema=, the same for all clients"
_MAKE = "let a role that may create tables run what `fencelock schema postgresql` prints"


class Refused(Exception):
    """The server answered a statement with an error."""

    def __init__(self, state: str, message: str, fatal: bool) -> None:
        super().__init__(message)
        self.state = state
        self.fatal = fatal


def refusal(error: Refused) -> FencelockError:
    """Return the error of ours for a refused statement."""
    state, text = error.state, str(error)
    if error.fatal or state in _GONE:
        return OutcomeUnknown(f"the server ended the session while it was asked ({text})")
    if state == "42501":
        return Denied(f"the database refuses it ({text}): grant the right, {_SCHEMA}, or {_MAKE}")
    if state == "3F000":
        return Misconfigured(f"the schema for the locks is missing ({text}): {_SCHEMA}, or {_MAKE}")
    if state in ("42P01", "42883"):
        return Misconfigured(f"what the locks need is not in the database ({text}): {_MAKE}")
    if state == LOCK_TIMEOUT:
        return Unavailable(
            f"a transaction keeps the lock's row ({text}); nothing happened. See who has been in a "
            "transaction for long: SELECT * FROM pg_stat_activity"
        )
    if state == "25006":
        return Unavailable(
            f"this server cannot be written to, it is a standby ({text}); nothing happened. Name "
            "the primary, or all servers as host1,host2"
        )
    if state == "53200":
        return Unavailable(
            f"the server's lock table is full ({text}); nothing happened. Raise "
            "max_locks_per_transaction, hold fewer advisory locks, or use mode=lease"
        )
    if state in ("53100", "53400", "53300", "53000") or state[:2] in ("57", "58", "40"):
        return Unavailable(f"the server cannot do it now ({text}); nothing happened")
    return EngineError(f"the database refused a statement ({state}: {text}); nothing happened")


def unreachable(error: BaseException, where: str) -> FencelockError:
    """Return the error of ours for a connection that could not be opened."""
    text = " ".join(str(error).split())
    low = text.lower()
    if "authentication failed" in low or "pg_hba" in low or "no password" in low:
        return Denied(f"{where} refused the login: {text}")
    if "does not exist" in low or "invalid" in low or "certificate" in low:
        return Misconfigured(f"{where} cannot be used: {text}")
    return Unavailable(f"{where} cannot be reached; nothing happened. {text}")


def lost(error: BaseException | str) -> OutcomeUnknown:
    """Return the error for a connection that ended, or timed out, with a statement under way."""
    text = " ".join(str(error).split())
    return OutcomeUnknown(f"the connection was lost with a request under way ({text})")
