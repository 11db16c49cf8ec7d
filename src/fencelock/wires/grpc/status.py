"""Read how a gRPC call ended: the codes of its status, and the error for those that failed."""

from __future__ import annotations

from collections.abc import Mapping

# fmt: off
CODES = (
    "OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND",
    "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED",
    "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED",
)
# fmt: on
_BY_NUMBER = {str(number): code for number, code in enumerate(CODES)}
# What a reply that is not gRPC means, by its HTTP status. It comes from something in between.
BY_STATUS = {
    "400": "INTERNAL",
    "401": "UNAUTHENTICATED",
    "403": "PERMISSION_DENIED",
    "404": "UNIMPLEMENTED",
    "429": "UNAVAILABLE",
    "502": "UNAVAILABLE",
    "503": "UNAVAILABLE",
    "504": "UNAVAILABLE",
}


class RpcError(Exception):
    """A call that failed: the status code of gRPC and its message."""

    def __init__(self, code: str, details: str, unsent: bool = False, late: bool = False) -> None:
        super().__init__(f"{code}: {details}")
        self.code = code
        self.details = details
        self.unsent = unsent
        """Whether it is certain that the server did not act on the call."""
        self.late = late or code == "DEADLINE_EXCEEDED"
        """Whether the server did not answer within the time that the call had."""


def cannot_connect(error: OSError) -> RpcError:
    """Make the error for a server that was not reached, or with which TLS failed."""
    late = isinstance(error, TimeoutError)
    why = "no answer in time" if late else error.strerror or str(error)
    return RpcError("UNAVAILABLE", f"cannot connect ({why})", unsent=True, late=late)


def refusal(headers: Mapping[str, str]) -> RpcError | None:
    """Return the error in the trailers of a call; None for a success."""
    status = headers.get("grpc-status")
    if status == "0":
        return None
    if status is not None:
        code = _BY_NUMBER.get(status, "UNKNOWN")
        return RpcError(code, _unquoted(headers.get("grpc-message", "")))
    http = headers.get(":status", "none")
    code = BY_STATUS.get(http, "UNKNOWN")
    return RpcError(code, f"what answered is no gRPC server (HTTP status {http})")


def _unquoted(text: str) -> str:
    if "%" not in text:
        return text
    from urllib.parse import unquote

    return unquote(text)
