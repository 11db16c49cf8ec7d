"""Map the errors of the client and of the members to ours: one table.

It is known whether a request was sent: one that was not has done nothing. After one that was, an
error of the client, or of a member that lost its leader, leaves the outcome unknown.
"""

from __future__ import annotations

from ....errors import Denied, Misconfigured, OutcomeUnknown, Unavailable
from ..settings import Settings

READS = ("group", "heartbeat", "ownership", "create_session", "close_session", "put", "get")
"""Operations that neither take nor release a lock: they do no harm without a reply."""
NO_CP = (
    "the CP Subsystem of this cluster is not enabled, and without it a FencedLock excludes nobody "
    "for sure: set cp-member-count to 3 or more in the members' configuration, and start as many"
)


class SessionGone(Exception):
    """A CP session has ended."""


class GroupGone(SessionGone):
    """The CP group was destroyed, and its sessions with it."""


class WaitCancelled(Exception):
    """A waiting request was removed from the queue by another one of the same endpoint."""


class NotOwner(Exception):
    """The lock is not held by this endpoint."""


_ANSWERS = {
    "SessionExpiredError": SessionGone,
    "CPGroupDestroyedError": GroupGone,
    "WaitKeyCancelledError": WaitCancelled,
    "IllegalMonitorStateError": NotOwner,
}
_DENIED = {"AccessControlError", "SecurityError", "AuthenticationError", "LoginError"}
_REFUSED = {"IllegalArgumentError", "UnsupportedOperationError", "HazelcastSerializationError"}


def map_error(error: BaseException, operation: str, sent: bool) -> Exception:
    """Return our error for an error of the client."""
    name, text = type(error).__name__, _first_line(error)
    if name in _ANSWERS:
        return _ANSWERS[name](text)
    if name == "DistributedObjectDestroyedError":
        return Misconfigured(
            f"this FencedLock was destroyed, and Hazelcast never makes one of the same name again "
            f"in its CP group: lock another name, or use another group= ({text})"
        )
    if "CP Subsystem is not enabled" in text:
        return Misconfigured(f"{NO_CP} ({text})")
    if name in _DENIED:
        return Denied(f"Hazelcast does not allow {operation} to this client: {text}")
    if name in _REFUSED:
        return Misconfigured(f"Hazelcast refuses {operation}, nothing was done: {text}")
    if not sent or operation in READS:
        return Unavailable(f"Hazelcast cannot serve now, nothing was done ({name}: {text})")
    return OutcomeUnknown(f"Hazelcast has not confirmed {operation} ({name}: {text})")


def no_answer(operation: str, seconds: float, sent: bool = True) -> Exception:
    """Return the error of a request that was not answered in time."""
    within = f"within {seconds:.1f} s"
    if operation == "group":
        return Unavailable(
            f"Hazelcast's CP Subsystem does not answer {within}, though a member does: it begins "
            "once cp-member-count members have started, and needs a majority of them afterwards. "
            "Start the others, or see the members' logs"
        )
    if not sent or operation in READS:
        return Unavailable(f"Hazelcast has not answered {within}, nothing was done: {operation}")
    return OutcomeUnknown(f"Hazelcast has not answered {within}: {operation} may have taken effect")


def not_connected(error: BaseException | None, settings: Settings) -> Exception:
    """Return the error of a client that cannot connect to any member."""
    if type(error).__name__ in ("TypeError", "ValueError", "InvalidConfigurationError"):
        return Misconfigured(f"Hazelcast's client refuses its settings: {error}")
    if isinstance(error, OSError) and not isinstance(error, TimeoutError):  # a file of TLS
        return Misconfigured(f"Hazelcast's client cannot use its settings: {error}")
    members = ", ".join(settings.members)
    return Unavailable(
        f"no member of a Hazelcast cluster {settings.cluster!r} can be reached at {members} within "
        f"{settings.connect_timeout:g} s: see that one runs there, and that its cluster-name is "
        f"{settings.cluster!r} ({error or 'no answer'}); Python's logger hazelcast says more"
    )


def _first_line(error: BaseException) -> str:
    lines = str(error).splitlines() or [type(error).__name__]
    return lines[0].removeprefix("Exception from server: ")[:300]
