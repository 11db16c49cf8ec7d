"""What became of a request that had no answer: it was not sent, or nobody knows."""

from __future__ import annotations

from ...errors import Misconfigured, OutcomeUnknown, Unavailable


def silent(where: str, why: object) -> OutcomeUnknown:
    """The error of a call that was sent and not answered."""
    return OutcomeUnknown(f"{where} did not answer ({why}): the call may have taken effect")


def unreachable(where: str, why: object) -> Unavailable:
    """The error of a call that was not sent."""
    return Unavailable(f"{where} cannot be reached ({why}); nothing happened")


def untrusted(where: str, why: object) -> Misconfigured:
    """The error of a node whose certificate, or whose view of ours, does not fit."""
    return Misconfigured(
        f"{where}: TLS failed ({why}); nothing was sent. Name the authority of its certificate by "
        "ca=, see that it is for this host, and name cert= and key= if it asks for one"
    )
