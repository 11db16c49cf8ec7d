"""Map errors of the server and of the drivers to errors of ours: one table.

A request that the server answers with an error was not executed, and neither was one whose
connection failed before it was sent. After that the outcome is unknown.
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
from .wire.codec import ServerError

DEADLOCK, LOCK_WAIT = 1213, 1205
BAD_ROW = {1048, 1062}  # a value is NULL that must not be, or the key exists
NO_TABLE, NO_DATABASE = 1146, 1049
INTERRUPTED = {1317, 1969, 3024}

_DENIED = {
    1044: "grant the account the use of the database",
    1045: "see the user and password of the URL",
    1142: "grant SELECT, INSERT, UPDATE and DELETE on the tables; "
    "`fencelock schema mysql` prints them for a migration if CREATE cannot be granted",
    1227: "grant the account what the message names",
    1370: "grant the account what the message names",
    1698: "see the user and password of the URL",
    3118: "unlock the account",
}
_MISCONFIGURED = {
    1032: "a crash has emptied the sequence of fences (…_sequence): drop it and connect again",
    NO_DATABASE: "create the database, or name another one in the URL",
    1054: "another program's table has this name: choose another prefix with table=",
    1286: "the server has no InnoDB, which locks need",
    1665: "set binlog_format to ROW or MIXED: locks need READ COMMITTED",
    3098: "group replication takes no table in memory, which mode=advisory needs: use mode=lease",
    NO_TABLE: "let fencelock make its tables, or run what `fencelock schema mysql` prints",
}
_LATER = {
    1021: "the server's disk is full: make room",
    1030: "see the server's log",
    1040: "the server has no connection left: raise max_connections, or lower pool=",
    1041: "the server is out of memory",
    1053: "the server is shutting down",
    1114: "the server's disk or tablespace is full: make room",
    1129: "the server has blocked this host: see max_connect_errors",
    1203: "the account has no connection left: raise max_user_connections, or lower pool=",
    1213: "the transaction met others in a deadlock again and again: see who else locks the tables",
    1205: "another transaction kept the row locked: see who, with SHOW ENGINE INNODB STATUS",
    1290: "the server is read-only, as a replica is: name the primary in the URL",
    1792: "the server is read-only, as a replica is: name the primary in the URL",
    1836: "the server is read-only: name the primary in the URL",
    1047: "the node has left its cluster: wait for it, or name another",
}


class RowRefused(EngineError):
    """A table did not take a row."""


def refused(error: ServerError, where: str, denied: str = "") -> EngineError:
    """Return the error for a refused statement; ``denied`` is advice on missing rights."""
    text = f"{where} refused: {error.message} ({error.code})"
    for kind, table in ((Denied, _DENIED), (Misconfigured, _MISCONFIGURED), (Unavailable, _LATER)):
        if error.code in table:
            advice = (denied if kind is Denied else "") or table[error.code]
            return kind(f"{text}; nothing happened. Advice: {advice}")
    if error.code in BAD_ROW:
        return RowRefused(f"{text}; nothing happened")
    if error.code in INTERRUPTED:
        return Unavailable(f"{text}; nothing happened. Try again")
    return EngineError(f"{text}; nothing happened")


def unreachable(error: Exception, where: str) -> Unavailable:
    """Return the error for a connection that could not be opened or used."""
    return Unavailable(f"{where} cannot be reached ({_say(error)}); nothing happened")


def unanswered(error: Exception, where: str) -> OutcomeUnknown:
    """Return the error for a connection that failed after the request was sent."""
    return OutcomeUnknown(f"{where} did not answer ({_say(error)})")


def not_connected(error: Exception, where: str) -> FencelockError:
    """Return the error for an exception that a driver raised while it connected."""
    code = error.args[0] if error.args else None
    if isinstance(code, int) and not isinstance(error, OSError) and not 2000 <= code < 3000:
        return refused(ServerError(code, str(error.args[1:] and error.args[1])), where)
    if isinstance(error, RuntimeError) and "package" in str(error):  # for an authentication plugin
        return Misconfigured(
            f"{where}: {error}; nothing happened. Advice: use TLS (tls=yes), or pip install "
            '"fencelock[mysql]", which has cryptography'
        )
    return unreachable(error, where)


def _say(error: Exception) -> str:
    return str(error) or type(error).__name__
