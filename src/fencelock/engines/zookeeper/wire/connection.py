"""The base of both flavors of a connection: choice of member, timeouts, mapping of errors.

A connection is to one member of the ensemble at a time. It switches to the next member when the TCP
connection breaks or the member falls silent, and keeps the session alive. It decides nothing about
locks. It records when a majority of the ensemble last took part in a request of ours: the ensemble
can expire the session no earlier than a ``session_timeout`` after that, and a holder may rely on
its lock for ``ttl_max``, which is less.
"""

from __future__ import annotations

import ssl
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

from ....errors import (
    Denied,
    EngineError,
    FencelockError,
    Misconfigured,
    OutcomeUnknown,
    Unavailable,
)
from ....world import World
from ...options import TlsFiles
from . import messages
from .messages import Request, Watcher
from .session import AuthFailed, ProtocolError, Session, SessionExpired

TTL_SHARE = 0.75  # of the session timeout. A follower reports its sessions to the leader every half
# tick, and a timeout is at least two ticks: what the leader knows may be a quarter of it old.
REQUEST_TIMEOUT_MIN_S, REQUEST_TIMEOUT_MAX_S = 0.25, 5.0
PINGS = 3  # in a session timeout, if nothing else is sent
RETRY_S = 0.2  # after all members have failed
TRIES = 3  # to send a batch, if the connection breaks before that each time


class Settings(NamedTuple):
    """The settings of a connection, read from the address."""

    hosts: tuple[tuple[str, int], ...]
    session_s: float
    credentials: tuple[tuple[str, str], ...]
    tls: TlsFiles | None


class Connection(ABC):
    """One session on an ensemble, over a connection to one member at a time."""

    def __init__(self, settings: Settings, world: World) -> None:
        self._now = now = world.now
        self._session = Session(settings.session_s, settings.credentials)
        # In random order, so that clients spread over the members.
        self._hosts = deque(sorted(settings.hosts, key=lambda _: world.random()))
        self._tls_files = settings.tls
        self._context: ssl.SSLContext | None = None
        self._error: FencelockError = Unavailable("no member has answered yet")
        """Why the last tried member did not serve."""
        self._closed = False
        self._broken_at = now()
        self._connected_at = 0.0
        """When the present connection's first message was sent."""
        self._sent_at = 0.0
        self._silent_since: float | None = None
        """When bytes were first sent since the server last sent any; None if none were."""
        self.contact_at = 0.0
        """A moment before the last request was sent in which a majority took part."""

    @property
    def session_id(self) -> int:
        """The id of the session; 0 until there is one."""
        return self._session.id

    @property
    def session_timeout(self) -> float:
        """Seconds after which the ensemble expires a session that sends nothing."""
        return self._session.timeout

    @property
    def ttl_max(self) -> float:
        """Seconds after the last contact for which a holder may rely on its lock."""
        return self._session.timeout * TTL_SHARE

    @property
    def request_timeout(self) -> float:
        """Seconds within which a request must be answered."""
        return min(max(self._session.timeout / 4, REQUEST_TIMEOUT_MIN_S), REQUEST_TIMEOUT_MAX_S)

    @property
    def connect_timeout(self) -> float:
        """Seconds within which a member must accept the session; short, to try all in time."""
        return max(self.request_timeout / len(self._hosts), REQUEST_TIMEOUT_MIN_S)

    @property
    def open_timeout(self) -> float:
        """Seconds within which all members can be tried."""
        return self.connect_timeout * len(self._hosts) + RETRY_S

    @property
    def silence_max(self) -> float:
        """Seconds for which the connected member may be silent."""
        return self.request_timeout if self._session.connected else self.connect_timeout

    @property
    def reconnect_timeout(self) -> float:
        """Seconds to wait for another member: few if none has answered for long."""
        left = self._broken_at + self.request_timeout - self._now()
        return min(self.request_timeout, max(left, 2 * RETRY_S))

    @abstractmethod
    async def open(self) -> None:
        """Connect and begin a session; raise if no member serves."""

    @abstractmethod
    async def ready(self) -> None:
        """Wait until a member serves the session; Unavailable if none does in time."""

    @abstractmethod
    async def call(self, *requests: Request, session: int = 0) -> list[Any]:
        """Send requests as one batch; return their replies in order, expected errors among them.

        With ``session`` they are sent in that session only, not in one that has replaced it. Raise
        Unavailable if nothing can have happened, OutcomeUnknown if a write may have.
        """

    @abstractmethod
    async def close(self, end_session: bool) -> None:
        """Disconnect. Without ``end_session`` the ensemble keeps the session until its timeout."""

    @abstractmethod
    def close_nowait(self) -> None:
        """Disconnect at once, without waiting."""

    def unwatch(self, path: str, watcher: Watcher) -> None:
        """Remove a watcher: it is not called any more."""
        self._session.unwatch(path, watcher)

    # Connecting

    def _next_host(self) -> tuple[str, int]:
        """Return the next member to try, in rotation."""
        self._hosts.rotate(-1)
        return self._hosts[-1]

    def _tls(self) -> ssl.SSLContext | None:
        """Make the TLS context once, as reading certificates takes a while; None without TLS."""
        files = self._tls_files
        if files is None or self._context is not None:
            return self._context
        try:
            self._context = ssl.create_default_context(cafile=files.ca)
            if files.cert:
                self._context.load_cert_chain(files.cert, files.key)
        except (OSError, ssl.SSLError) as error:
            raise Misconfigured(f"the certificates cannot be read ({error})") from error
        return self._context

    def _member_failed(self, host: tuple[str, int], error: Exception) -> None:
        """Store the error of a member as the reason why there is no connection."""
        where = f"{host[0]}:{host[1]}"
        if isinstance(error, AuthFailed):
            self._error = Denied(f"{where} refused the user or the password")
        elif isinstance(error, ssl.SSLCertVerificationError):
            self._error = Misconfigured(f"{where} has no certificate that we trust ({error})")
        elif isinstance(error, ProtocolError):
            self._error = Misconfigured(f"{where}: {error}")
        elif isinstance(error, FencelockError):
            self._error = error
        elif not isinstance(error, SessionExpired):
            words = str(error) or repr(error)
            self._error = Unavailable(f"{where} cannot be reached or does not serve ({words})")

    # Pings, and servers that are silent

    def _writing(self) -> None:
        """Record that bytes are written now."""
        self._sent_at = now = self._now()
        if self._silent_since is None:
            self._silent_since = now

    def _ping_due(self) -> bool:
        """Return whether a ping must be sent; TimeoutError if the server is silent for too long."""
        now = self._now()
        if self._silent_since is not None and now >= self._silent_since + self.silence_max:
            raise TimeoutError("the server is silent")
        return self._session.connected and now >= self._sent_at + self.session_timeout / PINGS

    def _seconds_until_check(self) -> float:
        """Return the seconds until a ping must be sent or the silence is too long."""
        due = self._sent_at + self.session_timeout / PINGS
        if self._silent_since is not None:
            due = min(due, self._silent_since + self.silence_max)
        return max(0.0, due - self._now())

    # Requests and replies

    def _require_session(self, session: int) -> None:
        """Raise if the present session is not the one that a request is meant for."""
        if session not in (0, self._session.id):
            raise Unavailable("the ZooKeeper session has ended; nothing was sent. Try again")

    def _checked(
        self, requests: Sequence[Request], replies: list[Any], sent_at: float
    ) -> list[Any]:
        """Raise the first unexpected error in the replies; else record the contact of a write."""
        for reply in replies:
            if isinstance(reply, Exception) and not isinstance(reply, messages.EXPECTED):
                raise self._failure(requests, replies, reply)
        if any(map(messages.is_write, requests)):
            self.contact_at = max(self.contact_at, sent_at)
        return replies

    def _failure(
        self, requests: Sequence[Request], replies: list[Any], error: Exception
    ) -> FencelockError:
        """Return the error to raise for a batch in which one request failed unexpectedly."""
        failure = translate(error)
        done = [not isinstance(reply, Exception) for reply in replies]
        if any(did and messages.is_write(one) for one, did in zip(requests, done, strict=True)):
            return OutcomeUnknown(f"a part of the request took effect, and then: {failure}")
        return failure

    def _no_reply(self, requests: Sequence[Request], broke: bool = True) -> FencelockError:
        """Return the error for a batch without reply: a read has changed nothing."""
        why = "the connection to ZooKeeper broke before it answered"
        if not broke:
            why = "ZooKeeper did not answer in time"
        if any(map(messages.is_write, requests)):
            return OutcomeUnknown(f"{why}; the request may have taken effect")
        return Unavailable(f"{why}; nothing happened")


def failure_of(results: Sequence[Any]) -> Exception | None:
    """Return the expected error that failed a transaction, None if none; raise any other."""
    for one in results:
        if isinstance(one, Exception) and not isinstance(one, messages.NOT_TO_BLAME):
            if not isinstance(one, messages.EXPECTED):
                raise translate(one)
            return one
    return None


def translate(error: Exception) -> FencelockError:
    """Map an error of the server to one of ours: the only table."""
    name = type(error).__name__.removesuffix("Error")
    match name:
        case "NoAuth" | "AuthFailed" | "SessionClosedRequireSasl":
            return Denied(f"ZooKeeper's access control refused us ({name}); nothing happened")
        case "InvalidACL" | "BadArguments" | "QuotaExceeded" | "NoChildrenForEphemerals":
            return Misconfigured(f"ZooKeeper refused the request ({name}); nothing happened")
        case "SessionExpired" | "SessionMoved" | "ThrottledOp" | "NotReadOnlyCall":
            return Unavailable(f"ZooKeeper cannot serve now ({name}); nothing happened")
        case "ConnectionLoss" | "OperationTimeout" | "RequestTimeout":
            return OutcomeUnknown(f"ZooKeeper did not answer in time ({name})")
        case _:
            return EngineError(f"ZooKeeper answered with an error ({error!r}); nothing happened")
