"""The lock service itself: one node over an engine, or several that share a store."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from http.client import HTTPConnection, HTTPSConnection
from pathlib import Path
from ssl import create_default_context

from tests.servers.group import Group
from tests.servers.server import Server
from tests.servers.tls import make_certificate

LOOK_S = 5.0


class Service(Server):
    """One node, which everybody may call."""

    package = "fencelock"

    def __init__(
        self,
        engine: str | None = None,
        folder: Path | None = None,
        port: int | None = None,
        *,
        tls: bool = False,
        words: Sequence[str] = (),
    ) -> None:
        """Without an engine, it is a file of its own."""
        super().__init__(folder, port)
        self.engine = engine or f"sqlite:///{self.folder}/locks.db"
        self.words = words
        self.certificate, self.key = make_certificate(self.folder) if tls else (Path(), Path())
        self.tls = tls

    @property
    def url(self) -> str:
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self.port}"

    def command(self) -> list[str]:
        files = ["--tls-cert", str(self.certificate), "--tls-key", str(self.key)]
        return [
            *(sys.executable, "-W", "error", "-m", "fencelock", "serve"),
            *("--url", self.engine, "--port", str(self.port), "--drain", "0s"),
            *(files if self.tls else ()),
            *(self.words or ["--insecure"]),
        ]

    def answers(self) -> bool:
        if self.tls:
            context = create_default_context(cafile=str(self.certificate))
            connection: HTTPConnection = HTTPSConnection(
                "127.0.0.1", self.port, timeout=LOOK_S, context=context
            )
        else:
            connection = HTTPConnection("127.0.0.1", self.port, timeout=LOOK_S)
        try:
            connection.request("GET", "/readyz")
            return connection.getresponse().status == 200
        finally:
            connection.close()


class Services(Group):
    """Nodes that share a store: replicas of one service."""

    def __init__(self, engine: str | None = None, count: int = 2) -> None:
        first = Service(engine)
        self.nodes = [first, *(Service(first.engine) for _ in range(count - 1))]
        self.servers = [*self.nodes]

    def join(self) -> None:
        """They know nothing of each other."""

    @property
    def url(self) -> str:
        return "http://" + ",".join(node.address for node in self.nodes)
