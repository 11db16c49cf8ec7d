"""A Redis server, and what tests ask of it over a plain socket."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self
from urllib.parse import quote

from tests.servers.resp import ANSWER_S, Line
from tests.servers.server import Server, free_port, program, until
from tests.servers.tls import make_certificate

DATABASES = 512  # one per test, taken in turn

PERSISTENCE: dict[str, dict[str, str]] = {
    "none": {"save": "", "appendonly": "no"},
    "rdb": {"save": "3600 1", "appendonly": "no"},  # when it stops in good order, or at SAVE
    "everysec": {"save": "", "appendonly": "yes", "appendfsync": "everysec"},
    "always": {"save": "", "appendonly": "yes", "appendfsync": "always"},
}


class Redis(Server):
    """One server.

    ``users`` are rules of its access list, as in ``"app on >secret ~* &* +@all"``. ``settings``
    are further lines of its configuration. A replica follows its primary as soon as it runs. With
    ``tls`` it listens on a second port, ``tls_url``, with a certificate that is its own authority.
    """

    package = "redis-server"
    scheme: ClassVar[str] = "redis"

    def __init__(
        self,
        folder: Path | None = None,
        port: int | None = None,
        *,
        persistence: str = "none",
        password: str | None = None,
        users: Sequence[str] = (),
        maxmemory: str = "0",
        eviction: str = "noeviction",
        replica_of: Redis | None = None,
        tls: bool = False,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(folder, port)
        self.password = password
        self.primary = replica_of
        self.users = tuple(users)
        self.tls_port = free_port() if tls else 0
        self.settings = {
            "bind": "127.0.0.1",
            "databases": str(DATABASES),
            "enable-debug-command": "yes",
            "maxmemory": maxmemory,
            "maxmemory-policy": eviction,
            "repl-diskless-sync-delay": "0",
            **PERSISTENCE[persistence],
            **(settings or {}),
        }
        self._numbers = itertools.count()
        self._looked = 0  # commands sent to count commands

    def binary(self) -> str:
        return program("redis-server", self.package)

    def command(self) -> Sequence[str]:
        return [self.binary(), str(self.configuration)]

    @property
    def configuration(self) -> Path:
        return self.folder / "server.conf"

    def prepare(self) -> None:
        lines = [f"{key} {value or quoted(value)}" for key, value in self.all_settings().items()]
        lines += [f"user {rule}" for rule in self.users]
        self.configuration.write_text("\n".join(lines) + "\n")

    @property
    def certificate(self) -> Path:
        """What a client must trust to come by TLS."""
        return self.folder / "certificate.pem"

    @property
    def tls_url(self) -> str:
        assert self.tls_port, "made without tls"
        return f"{self.scheme}s://{self.credentials}127.0.0.1:{self.tls_port}/0"

    def all_settings(self) -> dict[str, str]:
        """Its whole configuration but for the users."""
        settings = {"port": str(self.port), "dir": quoted(str(self.folder)), **self.settings}
        if self.tls_port:
            certificate, key = make_certificate(self.folder)
            settings |= {"tls-port": str(self.tls_port), "tls-auth-clients": "no"}
            settings |= {"tls-cert-file": str(certificate), "tls-key-file": str(key)}
            settings |= {"tls-ca-cert-file": str(certificate)}
        if self.password is not None:
            settings |= {"requirepass": quoted(self.password)}
        if self.primary is not None:
            settings |= {"replicaof": f"127.0.0.1 {self.primary.port}"}
            if self.primary.password is not None:
                settings |= {"masterauth": quoted(self.primary.password)}
        return settings

    def answers(self) -> bool:
        if self.primary is not None and self.role() == "slave" and not self.follows():
            return False
        return bool(self.cli("PING", within=1) == "PONG")

    @property
    def url(self) -> str:
        """For ``fencelock.connect``: the first database, as the user that may do everything."""
        return f"{self.scheme}://{self.credentials}{self.address}/0"

    @property
    def credentials(self) -> str:
        """The part of a URL that says who we are."""
        return "" if self.password is None else f":{quote(self.password, safe='')}@"

    def fresh_url(self) -> str:
        """The same with a database that is empty and that no other test uses now."""
        number = next(self._numbers) % DATABASES
        with self.line() as line:
            line.ask("SELECT", number)
            line.ask("FLUSHDB")
        return f"{self.url.removesuffix('/0')}/{number}"

    def line(self, within: float = ANSWER_S) -> Line:
        """A connection of the test's own."""
        line = Line(self.port, within=within)
        if self.password is not None:
            line.ask("AUTH", self.password)
        return line

    def cli(self, *words: object, within: float = ANSWER_S) -> Any:
        """Send one command on a connection of its own and return the reply, bytes as text."""
        with self.line(within) as line:
            return line.ask(*words)

    def info(self, section: str = "default") -> dict[str, str]:
        """What INFO says, by field."""
        text = str(self.cli("INFO", section))
        fields = (row.partition(":") for row in text.splitlines() if row and row[0] != "#")
        return {key: value for key, _, value in fields}

    def commands_processed(self) -> int:
        """How many commands it has executed, for differences: asking for it does not count."""
        count = int(self.info("stats")["total_commands_processed"]) - self._looked
        self._looked += 1 if self.password is None else 2
        return count

    def calls(self) -> dict[str, int]:
        """How often each command was called since the start or the last ``forget_calls``."""
        rows = self.info("commandstats").items()
        return {
            key.removeprefix("cmdstat_"): int(value.split(",")[0].removeprefix("calls="))
            for key, value in rows
        }

    def forget_calls(self) -> None:
        """Count commands from now on."""
        self.cli("CONFIG", "RESETSTAT")
        self._looked = 0

    def time(self) -> float:
        """Its wall clock, in seconds."""
        seconds, microseconds = self.cli("TIME")
        return int(seconds) + int(microseconds) / 1e6

    def clients(self) -> int:
        """How many others are connected: clients of the tests and replicas."""
        return len(str(self.cli("CLIENT", "LIST")).splitlines()) - 1

    def role(self) -> str:
        """``master`` or ``slave``, in the server's words."""
        return str(self.cli("ROLE")[0])

    def follows(self) -> bool:
        """Whether this replica has caught up with its primary's stream."""
        return self.info("replication").get("master_link_status") == "up"

    def promote(self) -> None:
        """Make this replica a primary of its own, as an operator or a sentinel does."""
        self.cli("REPLICAOF", "NO", "ONE")

    def caught_up(self) -> Self:
        """Wait until this replica has all that its primary has written until now."""
        assert self.primary is not None, "not a replica"
        offset = int(self.primary.info("replication")["master_repl_offset"])
        until(
            lambda: int(self.info("replication").get("slave_repl_offset", "-1")) >= offset,
            "the replica to catch up",
        )
        return self


def quoted(value: str) -> str:
    """A value of the configuration file that may be empty or hold blanks."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
