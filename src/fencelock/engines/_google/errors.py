"""Map the errors of gRPC, of a Google Cloud service and of its credentials to errors of ours.

Each engine has a table of its own for the errors of its service alone, before this one. The library
sends nothing twice by itself, so that an error is about the only attempt.
"""

from __future__ import annotations

from typing import Any

from ...errors import Denied, FencelockError, Misconfigured, OutcomeUnknown, Unavailable
from .settings import LOGIN

# The texts of gRPC, which has no code for it, where it had no connection to send a request over.
_UNSENT = ("failed to connect", "DNS resolution failed", "Getting metadata from")
_SILENT = {"CANCELLED", "UNKNOWN", "DEADLINE_EXCEEDED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS"}


class Unanswered(Unavailable):
    """There was no connection, or no answer to a request that changes nothing."""


def map_error(what: str, rights: str, code: str, words: str, *, writes: bool) -> FencelockError:
    """Return our error for a status of gRPC."""
    if code == "UNAUTHENTICATED":
        return Denied(f"{what} does not know who we are; nothing was done ({words}): {LOGIN}")
    if code == "PERMISSION_DENIED":
        return Denied(f"{what} refuses this account; nothing was done ({words}): {rights}")
    if code == "UNAVAILABLE" and words.startswith(_UNSENT):
        return Unanswered(f"{what} cannot be reached; nothing was done ({words})")
    if code == "RESOURCE_EXHAUSTED":
        return Unavailable(f"{what} cannot serve now; nothing was done ({words})")
    if code in _SILENT:
        return no_answer(what, words, writes=writes)
    return Misconfigured(f"{what} refuses the request; nothing was done: {words}")


def no_answer(what: str, why: object, *, writes: bool) -> FencelockError:
    """Return the error of a request that was not answered; a write may have been carried out."""
    if writes:
        return OutcomeUnknown(f"{what} did not answer ({why}): the change may have taken effect")
    return Unanswered(f"{what} did not answer ({why}); nothing was done")


def not_sent(what: str, extra: str, error: Exception) -> FencelockError:
    """Return the error of a request that was not sent: there was no usable client."""
    if type(error).__module__.startswith("google.auth"):
        return Denied(f"{what} was not asked: there are no credentials here ({error}): {LOGIN}")
    if isinstance(error, ImportError):
        advice = f'pip install "fencelock[{extra}]"'
        return Misconfigured(f"the client of {extra}:// cannot be loaded ({error}): {advice}")
    return Unavailable(f"{what} was not asked; nothing was done ({error})")


def status_of(error: Any) -> tuple[str, str]:
    """Return the code and the text of an error of gRPC."""
    code: Any = error.code() if callable(getattr(error, "code", None)) else None
    if code is None:
        return "UNKNOWN", f"{type(error).__name__}: {error}"
    return str(code.name), " ".join(str(error.details()).split())
