"""The errors of a request without a response: it was not sent, or its outcome is unknown."""

from __future__ import annotations

from ...errors import Misconfigured, OutcomeUnknown, Unavailable


def silent(where: str, why: object) -> OutcomeUnknown:
    """Return the error of a call that was sent and not answered."""
    return OutcomeUnknown(f"{where} did not answer ({why}): the call may have taken effect")


def unreachable(where: str, why: object) -> Unavailable:
    """Return the error of a call that was not sent."""
    return Unavailable(f"{where} cannot be reached ({why}); nothing happened")


def untrusted(where: str, why: object) -> Misconfigured:
    """Return the error of a TLS handshake that failed, by the node's certificate or by ours."""
    return Misconfigured(
        f"{where}: TLS failed ({why}); nothing was sent. Name the authority of its certificate by "
        "ca=, see that it is for this host, and name cert= and key= if it asks for one"
    )
