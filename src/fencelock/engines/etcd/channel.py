"""How gRPC is set up, for both flavors. gRPC itself is imported when a client connects."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

from ...errors import Misconfigured

if TYPE_CHECKING:
    import grpc

# Retries of the driver are off: whether a request may be sent twice is for the protocol to decide.
# A connection is not shared with other clients, and a server that hangs is noticed by pings; etcd
# takes no more than one in five seconds. What gRPC does on every call about compression, sizes and
# idleness is left out: a lock needs none of it.
OPTIONS: list[tuple[str, Any]] = [
    ("grpc.enable_retries", 0),
    ("grpc.minimal_stack", 1),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 3_000),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 500),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    ("grpc.max_receive_message_length", -1),
]


class Tls(NamedTuple):
    """Files in PEM format: who may be trusted, and who we are."""

    ca: str | None = None
    cert: str | None = None
    key: str | None = None


def load_grpc() -> Any:
    """The gRPC package, able to live through a fork where nobody has decided otherwise."""
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "1")
    import grpc
    import grpc.aio  # pyright: ignore[reportUnusedImport]  # loads it into the package

    return grpc


def credentials(tls: Tls) -> grpc.ChannelCredentials:
    """What gRPC needs for TLS, read from files."""
    if (tls.cert is None) != (tls.key is None):
        raise Misconfigured("a certificate of the client needs both options: cert and key")
    found: grpc.ChannelCredentials = load_grpc().ssl_channel_credentials(
        _read(tls.ca), _read(tls.key), _read(tls.cert)
    )
    return found


def _read(path: str | None) -> bytes | None:
    if path is None:
        return None
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise Misconfigured(f"{path} cannot be read ({error.strerror}): see the TLS options") from (
            error
        )
