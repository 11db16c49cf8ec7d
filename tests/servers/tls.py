"""A certificate for 127.0.0.1 that signs itself, so that it is its own authority."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.servers.server import program


def make_certificate(folder: Path) -> tuple[Path, Path]:
    """The certificate and its key, made in this folder."""
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    subprocess.run(
        [
            *(program("openssl", "openssl"), "req", "-x509", "-nodes", "-days", "2"),
            *("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"),
            *("-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"),
            *("-keyout", str(key), "-out", str(certificate)),
        ],
        check=True,
        capture_output=True,
    )
    return certificate, key
