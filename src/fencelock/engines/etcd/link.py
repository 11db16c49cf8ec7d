"""The way to a cluster: which member is spoken to, and what its errors mean.

A call goes to one member and has a deadline. When that member cannot serve, the next one is turned
to; a call that changes something is repeated there only when it was certainly not heard. The table
below is the one place where errors of gRPC and etcd are read. How bytes travel is the wire's.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Literal, Protocol, TypeAlias

from ...errors import (
    Denied,
    EngineError,
    FencelockError,
    Misconfigured,
    OutcomeUnknown,
    Unavailable,
)
from ...wires.grpc.call import Metadata, RpcError
from . import replies, requests

WORK, RENEWAL = 0, 1  # channels: a renewal never queues behind other work
TRY_MIN_S = 0.5
SILENCE_S = 0.6  # a caller's own time may be over long before that of a request

RANGE = "/etcdserverpb.KV/Range"
TXN = "/etcdserverpb.KV/Txn"
DELETE = "/etcdserverpb.KV/DeleteRange"
LEASE_GRANT = "/etcdserverpb.Lease/LeaseGrant"
LEASE_REVOKE = "/etcdserverpb.Lease/LeaseRevoke"
LEASE_LOOK = "/etcdserverpb.Lease/LeaseTimeToLive"
# A stream in etcd's API. One request and the end of the requests is one answer and the end of the
# answers, which is what an ordinary call looks like.
LEASE_KEEP_ALIVE = "/etcdserverpb.Lease/LeaseKeepAlive"
WATCH = "/etcdserverpb.Watch/Watch"
AUTHENTICATE = "/etcdserverpb.Auth/Authenticate"
STATUS = "/etcdserverpb.Maintenance/Status"
MEMBERS = "/etcdserverpb.Cluster/MemberList"

Verdict: TypeAlias = Literal["not sent", "elsewhere", "unknown", "token", "lease", "denied", "no"]
AGAIN: tuple[Verdict, ...] = ("not sent", "elsewhere")

# The first row whose code and words fit decides. "elsewhere": nothing happened, and another member
# may do better.
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
    ("INVALID_ARGUMENT", "auth: revision", "token"),  # roles were changed: the token is too old
    ("INVALID_ARGUMENT", "user name is empty", "token"),
    ("INVALID_ARGUMENT", "authentication failed", "denied"),
    ("FAILED_PRECONDITION", "authentication is not enabled", "denied"),
    ("UNAUTHENTICATED", "", "denied"),
    ("PERMISSION_DENIED", "", "denied"),
    ("", "", "no"),
)


class LeaseGone(EngineError):
    """The etcd lease has ended, so all keys on it are gone; nothing happened."""


class Stream(Protocol):
    """A call that goes on: messages both ways."""

    def send(self, message: bytes) -> None: ...

    def close(self) -> None: ...


class Wire(Protocol):
    """Carries bytes to the members of a cluster, and decides nothing. One for each flavor."""

    def call(
        self, member: int, channel: int, method: str, request: bytes, within: float, about: Metadata
    ) -> Coroutine[Any, Any, bytes]:
        """One request, one answer, or RpcError when the time is up at the latest."""
        ...

    def stream(
        self,
        member: int,
        method: str,
        about: Metadata,
        on_message: Callable[[bytes], None],
        on_end: Callable[[], None],
    ) -> Stream:
        """Open a stream; ``on_message`` gets each message, ``on_end`` is called once."""
        ...

    def leave(self, member: int, channel: int) -> None:
        """Use this connection no more: it may be dead without saying so. Calls on it may end."""
        ...

    async def close(self) -> None: ...

    def close_nowait(self) -> None: ...


class Link:
    """One client's way to one cluster."""

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
        self.turn = 0
        """Grows with every change of the member: what was learned before may be out of date."""
        self.try_s = max(request_timeout / len(members), TRY_MIN_S)
        self._now = now
        self._login = None if user is None else requests.authenticate(user, password or "")
        self._about: Metadata = ()

    def transact(self, turn: int, request: bytes) -> Coroutine[Any, Any, bytes]:
        """Send a transaction by the shortest way. RpcError is for ``settle`` to judge."""
        if self._login is not None and not self._about:
            return self.call(TXN, request)
        member = turn % len(self.members)
        return self.wire.call(member, WORK, TXN, request, self.try_s, self._about)

    async def settle(self, error: RpcError, turn: int, request: bytes) -> bytes:
        """Go on after a transaction was refused: return the answer of another try, or raise."""
        verdict = self._heed(error, turn, WORK)
        if verdict == "token" and self._login is not None:
            self._about = ()
            return await self.call(TXN, request)
        if verdict in AGAIN:
            return await self.call(TXN, request, tries=1)
        raise self._trouble(error, verdict, turn, False) from error

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
        """Send a request and return its answer. One that only reads may be sent again elsewhere."""
        within = self.try_s if within is None else within
        silent, renewed_token = 0, False
        while True:
            turn, asked_at = self.turn, self._now()
            try:
                if self._login is not None and not self._about:
                    await self._log_in(turn, channel, within)
                member = turn % len(self.members)
                return await self.wire.call(member, channel, method, request, within, self._about)
            except RpcError as error:
                verdict = self._heed(error, turn, channel)
                if verdict == "token" and self._login is not None and not renewed_token:
                    renewed_token, self._about = True, ()
                    continue
                tries += 1
                silent += error.late
                again = verdict in AGAIN or (reads and verdict == "unknown")
                if not again or tries > len(self.members) or silent == len(self.members):
                    raise self._trouble(error, verdict, turn, reads) from error
            except BaseException:
                self.gave_up(turn, asked_at, channel)
                raise

    def gave_up(self, turn: int, asked_at: float, channel: int = WORK) -> None:
        """Somebody was cancelled or interrupted: a member that was silent meanwhile is left."""
        if self._now() - asked_at >= SILENCE_S:
            self.turn_from(turn)
            self.wire.leave(turn % len(self.members), channel)

    def _heed(self, error: RpcError, turn: int, channel: int) -> Verdict:
        """Find out what an error means, and leave a member that is in trouble."""
        verdict = judge(error)
        if verdict in (*AGAIN, "unknown"):
            self.turn_from(turn)
        if error.code == "DEADLINE_EXCEEDED":
            self.wire.leave(turn % len(self.members), channel)
        return verdict

    def turn_from(self, turn: int) -> None:
        """Speak to the next member, unless somebody else has turned already."""
        if self.turn == turn:
            self.turn = turn + 1

    def stream(self, on_message: Callable[[bytes], None], on_end: Callable[[], None]) -> Stream:
        """Open a watch stream that ends when its member has no leader."""
        about = (*self._about, ("hasleader", "true"))
        return self.wire.stream(self.turn % len(self.members), WATCH, about, on_message, on_end)

    async def ask(self, member: int, method: str, request: bytes, within: float) -> bytes:
        """Ask one certain member, for those who look at the cluster itself."""
        try:
            if self._login is not None and not self._about:
                await self._log_in(member, WORK, within)
            return await self.wire.call(member, WORK, method, request, within, self._about)
        except RpcError as error:
            raise self._trouble(error, judge(error), member, True) from error

    async def _log_in(self, turn: int, channel: int, within: float) -> None:
        assert self._login is not None
        member = turn % len(self.members)
        answer = await self.wire.call(member, channel, AUTHENTICATE, self._login, within, ())
        self._about = (("token", replies.read_token(answer)),)

    def _trouble(self, error: RpcError, verdict: Verdict, turn: int, reads: bool) -> FencelockError:
        member = self.members[turn % len(self.members)]
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


def judge(error: RpcError) -> Verdict:
    """What an error means for the request that met it."""
    if error.unsent:
        return "not sent"
    for code, words, verdict in TABLE:
        if code in ("", error.code) and words in error.details:
            return verdict
    raise AssertionError("unreachable")
