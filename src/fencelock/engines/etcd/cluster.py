"""Choose the member of a cluster that a call goes to, and map its errors to ours.

A call goes to one member and has a deadline. When that member cannot serve, the client switches to
the next one; a call that changes something is repeated there only when it was certainly not
received. Errors of gRPC and etcd are classified by the table below and nowhere else. The
connections are in ``wire/``.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Literal, Protocol, TypeAlias, TypeVar

from ...engine import Address
from ...errors import (
    Denied,
    EngineError,
    FencelockError,
    Misconfigured,
    OutcomeUnknown,
    Unavailable,
)
from ...model import Request
from ...wires.grpc.connection import OnEnd, OnMessage
from ...wires.grpc.server import Metadata
from ...wires.grpc.status import RpcError
from ...wires.tls import Tls
from ...world import World
from ..options import REQUEST_TIMEOUT_S, common, tls
from .messages import replies, requests
from .messages.requests import AUTHENTICATE, RANGE, TXN, WATCH
from .wire import WORK

T = TypeVar("T")

PORT = 2379
OPTIONS = common("prefix", "request_timeout", "tls", "ca", "cert", "key")

TRY_MIN_S = 0.5
SILENCE_S = 0.6  # a caller's own timeout may end long before that of a request

Verdict: TypeAlias = Literal["not sent", "elsewhere", "unknown", "token", "lease", "denied", "no"]
AGAIN: tuple[Verdict, ...] = ("not sent", "elsewhere")

# The first row whose code and words match decides. "elsewhere": nothing happened, and another
# member may be able to serve the request.
TABLE: tuple[tuple[str, str, Verdict], ...] = (
    ("UNAVAILABLE", "etcdserver: no leader", "elsewhere"),
    ("UNAVAILABLE", "not supported for learner", "elsewhere"),
    ("UNAVAILABLE", "", "unknown"),
    ("DEADLINE_EXCEEDED", "", "unknown"),
    ("CANCELLED", "", "unknown"),
    ("UNKNOWN", "", "unknown"),
    ("INTERNAL", "", "unknown"),
    ("NOT_FOUND", "requested lease not found", "lease"),
    ("UNAUTHENTICATED", "invalid auth token", "token"),
    ("INVALID_ARGUMENT", "auth: revision", "token"),  # roles have changed: the token is too old
    ("INVALID_ARGUMENT", "user name is empty", "token"),
    ("INVALID_ARGUMENT", "authentication failed", "denied"),
    ("FAILED_PRECONDITION", "authentication is not enabled", "denied"),
    ("UNAUTHENTICATED", "", "denied"),
    ("PERMISSION_DENIED", "", "denied"),
    ("", "", "no"),
)


class LeaseGone(Unavailable):
    """The etcd lease has ended, so all keys on it are gone; nothing happened."""


async def go_on(request: Request, step: Coroutine[Any, Any, T]) -> T:
    """Run a further step of an acquire whose key has been put.

    An owner that queues keeps its position when the step fails, so its error is raised as it is.
    For any other owner "nothing happened" would not be true: OutcomeUnknown.
    """
    try:
        return await step
    except EngineError as error:
        if request.queue:
            raise
        raise OutcomeUnknown(
            f"{request.name!r} was asked for, and then etcd did not serve ({error}): it may be "
            f"held for {request.ttl:g} s",
            until=request.ttl,
        ) from error


class Stream(Protocol):
    """A bidirectional stream of messages."""

    def send(self, message: bytes) -> None: ...

    def close(self) -> None: ...


class Wire(Protocol):
    """Carries bytes to the members of a cluster, and decides nothing. One for each flavor."""

    def call(
        self, member: int, channel: int, method: str, request: bytes, within: float, about: Metadata
    ) -> Coroutine[Any, Any, bytes]:
        """Send one request and return its reply, within the time, or raise RpcError."""
        ...

    def stream(
        self, member: int, method: str, about: Metadata, on_message: OnMessage, on_end: OnEnd
    ) -> Stream:
        """Open a stream; ``on_message`` gets each message, ``on_end`` is called once."""
        ...

    def leave(self, member: int, channel: int) -> None:
        """Start no more calls on this connection: it may be dead. Those in progress may finish."""
        ...

    async def close(self) -> None: ...

    def close_nowait(self) -> None: ...


class Cluster:
    """The members of one cluster, as one client calls them."""

    def __init__(
        self,
        wire: Wire,
        members: Sequence[str],
        request_timeout: float,
        now: Callable[[], float],
        user: str | None = None,
        password: str | None = None,
    ) -> None:
        self.wire = wire
        self.members = members
        self.epoch = 0
        """Counts the switches of member: what was learned in an earlier epoch may be stale."""
        self.try_s = max(request_timeout / len(members), TRY_MIN_S)
        self._now = now
        self._login = None if user is None else requests.authenticate(user, password or "")
        self._about: Metadata = ()

    @classmethod
    def at(cls, world: World, address: Address) -> Cluster:
        """Make a Cluster from an address and its options, with the wire of this flavor."""
        members, files = _members_of(address), tls(address.options)
        wire = _wire(world, members, None if files is None else Tls(*files))
        request_timeout = float(str(address.options.get("request_timeout", REQUEST_TIMEOUT_S)))
        return cls(wire, members, request_timeout, world.now, address.user, address.password)

    async def see_majority(self, key: bytes) -> None:
        """Read one key: the read is linearizable, so its reply proves that there is a majority."""
        await self.call(RANGE, requests.range_of(key, count_only=True), reads=True)

    async def revision(self) -> int:
        """Read the revision of the store."""
        answer = await self.call(RANGE, requests.range_of(b"\0", count_only=True), reads=True)
        return replies.read_range(answer).revision

    async def transact(self, request: bytes, asked_at: float) -> bytes:
        """Send a transaction and return its reply, for a caller that started at ``asked_at``.

        This is the hot path: one direct call, unless a token is missing or the call fails.
        """
        epoch = self.epoch
        try:
            if self._login is not None and not self._about:
                return await self.call(TXN, request)
            member = epoch % len(self.members)
            return await self.wire.call(member, WORK, TXN, request, self.try_s, self._about)
        except RpcError as error:
            return await self._retry(error, epoch, request)
        except BaseException:
            self._gave_up(epoch, asked_at)
            raise

    async def _retry(self, error: RpcError, epoch: int, request: bytes) -> bytes:
        """Retry a transaction that failed if that is safe, and return the reply; else raise."""
        verdict = self._failed(error, epoch, WORK)
        if verdict == "token" and self._login is not None:
            self._about = ()
            return await self.call(TXN, request)
        if verdict in AGAIN:
            return await self.call(TXN, request, tries=1)
        raise self._error(error, verdict, epoch, False) from error

    async def call(
        self,
        method: str,
        request: bytes,
        *,
        reads: bool = False,
        channel: int = WORK,
        within: float | None = None,
        tries: int = 0,
    ) -> bytes:
        """Send a request and return its reply; retry a read even if its outcome is unknown."""
        within = self.try_s if within is None else within
        silent, renewed_token = 0, False
        while True:
            epoch, asked_at = self.epoch, self._now()
            try:
                if self._login is not None and not self._about:
                    await self._log_in(epoch, channel, within)
                member = epoch % len(self.members)
                return await self.wire.call(member, channel, method, request, within, self._about)
            except RpcError as error:
                verdict = self._failed(error, epoch, channel)
                if verdict == "token" and self._login is not None and not renewed_token:
                    renewed_token, self._about = True, ()
                    continue
                tries += 1
                silent += error.late
                again = verdict in AGAIN or (reads and verdict == "unknown")
                if not again or tries > len(self.members) or silent == len(self.members):
                    raise self._error(error, verdict, epoch, reads) from error
            except BaseException:
                self._gave_up(epoch, asked_at, channel)
                raise

    def _gave_up(self, epoch: int, asked_at: float, channel: int = WORK) -> None:
        """Switch from a member that was silent until its caller was cancelled or interrupted."""
        if self._now() - asked_at >= SILENCE_S:
            self.switch_from(epoch)
            self.wire.leave(epoch % len(self.members), channel)

    def _failed(self, error: RpcError, epoch: int, channel: int) -> Verdict:
        """Classify an error, and switch from the member if the error says that it is in trouble."""
        verdict = classify(error)
        if verdict in (*AGAIN, "unknown"):
            self.switch_from(epoch)
        if error.code == "DEADLINE_EXCEEDED":
            self.wire.leave(epoch % len(self.members), channel)
        return verdict

    def switch_from(self, epoch: int) -> None:
        """Switch to the next member, unless another caller has since this epoch."""
        if self.epoch == epoch:
            self.epoch = epoch + 1

    def stream(self, on_message: OnMessage, on_end: OnEnd) -> Stream:
        """Open a watch stream that ends when its member has no leader."""
        about = (*self._about, ("hasleader", "true"))
        return self.wire.stream(self.epoch % len(self.members), WATCH, about, on_message, on_end)

    async def call_member(self, member: int, method: str, request: bytes, within: float) -> bytes:
        """Call one certain member, for diagnosis."""
        try:
            if self._login is not None and not self._about:
                await self._log_in(member, WORK, within)
            return await self.wire.call(member, WORK, method, request, within, self._about)
        except RpcError as error:
            raise self._error(error, classify(error), member, True) from error

    async def _log_in(self, epoch: int, channel: int, within: float) -> None:
        assert self._login is not None
        member = epoch % len(self.members)
        answer = await self.wire.call(member, channel, AUTHENTICATE, self._login, within, ())
        self._about = (("token", replies.read_token(answer)),)

    def _error(self, error: RpcError, verdict: Verdict, epoch: int, reads: bool) -> FencelockError:
        member = self.members[epoch % len(self.members)]
        said = f"etcd at {member} says {error.code}: {error.details[:300]}"
        if error.unsent:
            said = f"etcd at {member}: {error.details[:300]}"
        if verdict == "unknown" and not reads:
            return OutcomeUnknown(f"{said}; the request may have taken effect")
        if verdict in ("not sent", "elsewhere", "unknown"):
            return Unavailable(f"{said}; nothing happened. See that a majority of it is running")
        if verdict == "lease":
            return LeaseGone(f"{said}; nothing happened")
        if verdict in ("denied", "token"):
            return Denied(f"{said}; nothing happened. Check user, password and role of the address")
        if "space exceeded" in error.details:
            advice = "compact and defragment it, then disarm its alarm"
            return Unavailable(f"{said}; nothing happened. Its disk quota is used up: {advice}")
        return Misconfigured(f"{said}; nothing happened")


def classify(error: RpcError) -> Verdict:
    """Return the verdict of the table on an error."""
    if error.unsent:
        return "not sent"
    for code, words, verdict in TABLE:
        if code in ("", error.code) and words in error.details:
            return verdict
    raise AssertionError("unreachable")


def _members_of(address: Address) -> list[str]:
    """Return the members that an address lists, each as ``host:port``."""
    if not address.hosts:
        raise Misconfigured("etcd:// needs a host: write etcd://host:2379 or etcd://h1,h2,h3")
    if address.path not in ("", "/"):
        raise Misconfigured(
            f"{address.public} has a path, and etcd has no databases: "
            "write ?prefix=... to have all keys begin with something"
        )
    return [f"{host}:{port or PORT}" for host, port in address.hosts]


def _wire(world: World, members: Sequence[str], files: Tls | None) -> Wire:
    if world.flavor == "asyncio":
        from .wire.aio import AioWire

        return AioWire(members, files)
    if world.flavor == "threads":
        from .wire.threads import ThreadsWire

        return ThreadsWire(members, files, lambda: world.limit() - world.now())
    raise Misconfigured("etcd cannot be simulated: use memory:// there")
