"""What both wires share: where to connect, how long to wait, and what an error means.

A wire keeps one connection to one member of the ensemble, goes to the next member when that breaks
or falls silent, and keeps the session alive meanwhile. It decides nothing about locks. It knows
when a majority of the ensemble last heard of us: the server may forget the session only a
``timeout`` after that, and whoever holds a lock may believe in it for ``limit``, which is less.
"""

from __future__ import annotations

import ssl
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

from ....engine import Address
from ....errors import (
    Denied,
    EngineError,
    FencelockError,
    Misconfigured,
    OutcomeUnknown,
    Unavailable,
)
from ....world import World
from . import messages
from .messages import Request, Watcher
from .session import Ended, Garbled, Refused, Session

PORT = 2181
BELIEVED = 0.75  # of a session. A follower tells its leader of us every half tick, and a session
# is at least two ticks long: what the leader knows may be a quarter of a session old.
REQUEST_TIMEOUT_MIN_S, REQUEST_TIMEOUT_MAX_S = 0.25, 5.0
PINGS = 3  # in the time of a session, when there is nothing else to say
RETRY_S = 0.2  # between two rounds through all members
TRIES = 3  # to send something, when the connection breaks each time before that


class Settings(NamedTuple):
    """What a wire must know of an address."""

    hosts: tuple[tuple[str, int], ...]
    session_s: float
    credentials: tuple[tuple[str, str], ...]
    tls: bool
    ca: str | None
    cert: str | None
    key: str | None


def read_settings(address: Address) -> Settings:
    """The settings of an address whose options were read already."""
    options: Any = address.options
    if not address.hosts:
        raise Misconfigured(f"{address.public} names no server: write zookeeper://host:port/root")
    credential = f"{address.user}:{address.password or ''}"
    return Settings(
        hosts=tuple((host.strip("[]"), port or PORT) for host, port in address.hosts),
        session_s=options.get("session", 20.0),
        credentials=(("digest", credential),) if address.user else (),
        tls=bool(options.get("tls") or options.get("ca") or options.get("cert")),
        ca=options.get("ca"),
        cert=options.get("cert"),
        key=options.get("key"),
    )


def make_wire(world: World, address: Address) -> Wire:
    """The wire of a world's flavor."""
    settings = read_settings(address)
    if world.flavor == "asyncio":
        from .aio import AioWire

        return AioWire(settings, world)
    from .threads import ThreadsWire

    return ThreadsWire(settings, world)


class Wire(ABC):
    """One session on an ensemble."""

    def __init__(self, settings: Settings, world: World) -> None:
        self._settings = settings
        self._now = now = world.now
        self._link = Session(settings.session_s, settings.credentials)
        # In any order, so that clients spread over the members.
        self._hosts = deque(sorted(settings.hosts, key=lambda _: world.random()))
        self._context: ssl.SSLContext | None = None
        self._why: FencelockError = Unavailable("no member has answered yet")
        self._closed = False
        self._broken_at = now()
        self.contact_at = 0.0
        """Before the last request was sent that a majority has answered."""

    @property
    def session(self) -> int:
        """The id of the session; 0 until there is one."""
        return self._link.id

    @property
    def timeout(self) -> float:
        """Seconds after which the ensemble forgets a session it does not hear of."""
        return self._link.timeout

    @property
    def limit(self) -> float:
        """Seconds after the last contact for which a holder may believe in its lock."""
        return self._link.timeout * BELIEVED

    @property
    def request_timeout(self) -> float:
        """Seconds within which a request must be answered."""
        return min(max(self._link.timeout / 4, REQUEST_TIMEOUT_MIN_S), REQUEST_TIMEOUT_MAX_S)

    @property
    def hurry(self) -> float:
        """Seconds within which a member must take us: one that is silent leaves time for others."""
        return max(self.request_timeout / len(self._hosts), REQUEST_TIMEOUT_MIN_S)

    @property
    def allowed(self) -> float:
        """Seconds that the member we are connected to may be silent."""
        return self.request_timeout if self._link.welcomed else self.hurry

    @property
    def round(self) -> float:
        """Seconds within which all members have been tried."""
        return self.hurry * len(self._hosts) + RETRY_S

    @property
    def respite(self) -> float:
        """Seconds to wait for another member: little, when none has answered for long."""
        left = self._broken_at + self.request_timeout - self._now()
        return min(self.request_timeout, max(left, 2 * RETRY_S))

    @abstractmethod
    async def open(self) -> None:
        """Begin a session."""

    @abstractmethod
    async def ready(self) -> None:
        """Wait for a connection; Unavailable when there is none in time."""

    @abstractmethod
    async def call(self, *wanted: Request, session: int = 0) -> list[Any]:
        """Send requests in one go; their answers in order, ordinary errors among them.

        With a session they are sent in that one only, not in one that has taken its place.
        Raise Unavailable when nothing can have happened, OutcomeUnknown when a write may have.
        """

    @abstractmethod
    async def close(self, end: bool) -> None:
        """Leave. ``end`` ends the session, else the ensemble keeps it until its timeout."""

    @abstractmethod
    def close_nowait(self) -> None:
        """Leave at once, without a word."""

    def unwatch(self, path: str, watcher: Watcher) -> None:
        """Call a watcher no more."""
        self._link.unwatch(path, watcher)

    def tls(self) -> ssl.SSLContext | None:
        """How to encrypt, made once: reading certificates takes a while."""
        if not self._settings.tls or self._context is not None:
            return self._context
        try:
            self._context = ssl.create_default_context(cafile=self._settings.ca)
            if self._settings.cert:
                self._context.load_cert_chain(self._settings.cert, self._settings.key)
        except (OSError, ssl.SSLError) as error:
            raise Misconfigured(f"the certificates cannot be read ({error})") from error
        return self._context

    def _see(self, session: int) -> None:
        """See that a request is about to be sent in the session that it is meant for."""
        if session not in (0, self._link.id):
            raise Unavailable("the ZooKeeper session has ended; nothing was sent. Try again")

    def _answered(self, wanted: Sequence[Request], answers: list[Any], sent_at: float) -> list[Any]:
        """Judge answers; note the contact that they prove."""
        for answer in answers:
            if isinstance(answer, Exception) and not isinstance(answer, messages.ORDINARY):
                raise self._failure(wanted, answers, answer)
        if any(map(messages.is_write, wanted)):
            self.contact_at = max(self.contact_at, sent_at)
        return answers

    def _failure(
        self, wanted: Sequence[Request], answers: list[Any], error: Exception
    ) -> FencelockError:
        """What one answer that is a surprise means for all that was asked for with it."""
        failure = translate(error)
        done = [not isinstance(answer, Exception) for answer in answers]
        if any(did and messages.is_write(one) for one, did in zip(wanted, done, strict=True)):
            return OutcomeUnknown(f"a part of the request took effect, and then: {failure}")
        return failure

    def _unanswered(self, wanted: Sequence[Request], broke: bool = True) -> FencelockError:
        """What it means that the connection broke or was silent: a read has changed nothing."""
        why = "the connection to ZooKeeper broke before it answered"
        if not broke:
            why = "ZooKeeper did not answer in time"
        if any(map(messages.is_write, wanted)):
            return OutcomeUnknown(f"{why}; the request may have taken effect")
        return Unavailable(f"{why}; nothing happened")

    def _next_host(self) -> tuple[str, int]:
        """The next member to try: the one that failed last is tried last."""
        self._hosts.rotate(-1)
        return self._hosts[-1]

    def _failed(self, host: tuple[str, int], error: Exception) -> None:
        """Remember why there is no connection."""
        where = f"{host[0]}:{host[1]}"
        if isinstance(error, Refused):
            self._why = Denied(f"{where} refused the user or the password")
        elif isinstance(error, ssl.SSLCertVerificationError):
            self._why = Misconfigured(f"{where} has no certificate that we trust ({error})")
        elif isinstance(error, Garbled):
            self._why = Misconfigured(f"{where}: {error}")
        elif isinstance(error, FencelockError):
            self._why = error
        elif not isinstance(error, Ended):
            words = str(error) or repr(error)
            self._why = Unavailable(f"{where} cannot be reached or does not serve ({words})")


def translate(error: Exception) -> FencelockError:
    """What an error of the server means for the caller: the one table of them."""
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
