"""PgBouncer for the tests: each transaction, or each session, gets a connection of its pool."""

from __future__ import annotations

import os
import pwd
from collections.abc import Sequence
from pathlib import Path

import psycopg

from tests.servers.postgresql import USER, Postgresql, as_user
from tests.servers.server import Server, program

SERVERS_MAX = 4  # fewer than the clients that a test has, so that they have to share


class Pgbouncer(Server):
    """A pooler before a server, both of them ours."""

    package = "pgbouncer"

    def __init__(
        self,
        server: Postgresql | None = None,
        folder: Path | None = None,
        pool_mode: str = "transaction",
    ) -> None:
        super().__init__(folder)
        self.server = server or Postgresql()
        self._owns_server = server is None
        self._pool_mode = pool_mode

    def prepare(self) -> None:
        if self._owns_server:
            self.server.start()
        users = self.folder / "users.txt"
        users.write_text(f'"{USER}" ""\n')
        pool_size = SERVERS_MAX if self._pool_mode == "transaction" else 50
        (self.folder / "pgbouncer.ini").write_text(
            "[databases]\n"
            f"postgres = host=127.0.0.1 port={self.server.port} dbname=postgres user={USER}\n"
            "[pgbouncer]\n"
            f"listen_addr = 127.0.0.1\nlisten_port = {self.port}\nunix_socket_dir =\n"
            f"auth_type = any\nauth_file = {users}\npool_mode = {self._pool_mode}\n"
            f"default_pool_size = {pool_size}\nmax_client_conn = 200\n"
        )
        if os.getuid() == 0:
            who = pwd.getpwnam(USER)
            for path in (self.folder, *self.folder.iterdir()):
                os.chown(path, who.pw_uid, who.pw_gid)

    def command(self) -> Sequence[str]:
        return as_user([program("pgbouncer", self.package), str(self.folder / "pgbouncer.ini")])

    def answers(self) -> bool:
        with psycopg.connect(
            f"host=127.0.0.1 port={self.port} user={USER} dbname=postgres"
        ) as link:
            return link.execute("SELECT 1").fetchone() == (1,)

    def url(self, options: str = "") -> str:
        return f"postgresql://{USER}@{self.address}/postgres{'?' if options else ''}{options}"

    def close(self) -> None:
        super().close()
        if self._owns_server:
            self.server.close()
