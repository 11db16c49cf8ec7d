"""Make TLS contexts from files, for all engines that encrypt."""

from __future__ import annotations

import ssl
from typing import NamedTuple

from ..errors import Misconfigured


class Tls(NamedTuple):
    """Files in PEM format: the trusted authorities, and the client's certificate and key."""

    ca: str | None = None
    cert: str | None = None
    key: str | None = None


def context_of(tls: Tls, protocol: str) -> ssl.SSLContext:
    """Make a TLS context from files; without ``ca``, the system's authorities are trusted.

    ``protocol`` is the protocol over TLS, as ALPN names it.
    """
    if (tls.cert is None) != (tls.key is None):
        raise Misconfigured("a certificate of the client needs both options: cert and key")
    for path in tls:
        _see(path)
    try:
        context = ssl.create_default_context(cafile=tls.ca)
        if tls.cert is not None:
            context.load_cert_chain(tls.cert, tls.key, _no_password)
    except (ssl.SSLError, ValueError) as error:
        raise Misconfigured(
            f"the files for TLS are no certificates and keys in PEM format ({error})"
        ) from error
    context.set_alpn_protocols([protocol])
    return context


def _see(path: str | None) -> None:
    try:
        if path is not None:
            with open(path, "rb"):
                pass
    except OSError as error:
        raise Misconfigured(f"{path} cannot be read ({error.strerror}): see the TLS options") from (
            error
        )


def _no_password() -> str:
    raise ValueError("the key is encrypted: give one without a password")
