"""A primary with replicas, and sentinels that watch it and promote a replica when it dies."""

from __future__ import annotations

from pathlib import Path

from tests.servers.group import Group
from tests.servers.redis import Redis, quoted
from tests.servers.server import until

SERVICE = "fencelock"

# Shorter than any default, so that a test sees a failover within two seconds. Sentinels find each
# other by messages in the primary, sent every two seconds unless told otherwise. The other periods
# stay as they are: how fresh a replica's news must be is measured in pings.
DOWN_AFTER_MS = 500
FAILOVER_TIMEOUT_MS = 1000
PERIODS = {"info-period": 200, "publish-period": 100}


class Sentinel(Redis):
    """One watcher: the same program in another role."""

    def __init__(self, watched: Redis, quorum: int, folder: Path | None = None) -> None:
        super().__init__(folder)
        self._watched = watched
        self._quorum = quorum

    def binary(self) -> str:
        return self._watched.binary()

    def command(self) -> list[str]:
        return [self.binary(), str(self.configuration), "--sentinel"]

    def prepare(self) -> None:
        secret = self._watched.password
        lines = [
            f"port {self.port}",
            "bind 127.0.0.1",
            f"dir {self.folder}",
            f"sentinel monitor {SERVICE} 127.0.0.1 {self._watched.port} {self._quorum}",
            f"sentinel down-after-milliseconds {SERVICE} {DOWN_AFTER_MS}",
            f"sentinel failover-timeout {SERVICE} {FAILOVER_TIMEOUT_MS}",
            *([] if secret is None else [f"sentinel auth-pass {SERVICE} {quoted(secret)}"]),
        ]
        self.configuration.write_text("\n".join(lines) + "\n")

    def hurry(self) -> None:
        """Have it look and tell more often than its defaults."""
        for what, milliseconds in PERIODS.items():
            self.cli("SENTINEL", "DEBUG", what, milliseconds)

    def sees(self, kind: str) -> list[dict[str, str]]:
        """What it knows about the ``MASTER`` (one), the ``REPLICAS`` or the other ``SENTINELS``."""
        answer = self.cli("SENTINEL", kind, SERVICE)
        rows = [answer] if kind == "MASTER" else answer
        return [dict(zip(row[::2], row[1::2], strict=True)) for row in rows]

    def primary_port(self) -> int:
        """Where it sends clients now."""
        return int(self.cli("SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE)[1])


class Sentinels(Group):
    """One primary, its replicas, and an odd number of sentinels."""

    def __init__(
        self,
        replicas: int = 2,
        sentinels: int = 3,
        *,
        make: type[Redis] = Redis,
        password: str | None = None,
        persistence: str = "none",
    ) -> None:
        # Any of them may become the primary, so all know the password by which a replica comes.
        known = {} if password is None else {"masterauth": quoted(password)}
        first = make(password=password, persistence=persistence, settings=known)
        self.data = [first]
        for _ in range(replicas):
            self.data.append(
                make(password=password, persistence=persistence, replica_of=first, settings=known)
            )
        self.sentinels = [Sentinel(first, sentinels // 2 + 1) for _ in range(sentinels)]
        self.servers = [*self.data, *self.sentinels]

    @property
    def url(self) -> str:
        where = ",".join(sentinel.address for sentinel in self.sentinels)
        return f"redis+sentinel://{self.data[0].credentials}{where}/{SERVICE}"

    def join(self) -> None:
        for sentinel in self.sentinels:
            sentinel.hurry()
        until(self.settled, "the sentinels to know each other and every replica")

    def settled(self) -> bool:
        """Whether every sentinel sees every other process, all of them well."""
        running = [server for server in self.data if server.process is not None]
        watchers = [sentinel for sentinel in self.sentinels if sentinel.process is not None]
        return all(
            _well(sentinel.sees("REPLICAS")) >= len(running) - 1
            and _well(sentinel.sees("SENTINELS")) >= len(watchers) - 1
            and sentinel.sees("MASTER")[0]["flags"] == "master"
            and sentinel.primary_port() == watchers[0].primary_port()
            for sentinel in watchers
        )

    def primary(self) -> Redis:
        """The server that the sentinels name now."""
        port = self.sentinels[0].primary_port()
        return next(server for server in self.data if server.port == port)

    def replicas(self) -> list[Redis]:
        """The other servers that run."""
        primary = self.primary()
        return [one for one in self.data if one is not primary and one.process is not None]

    def wait_for_another_primary(self, than: Redis) -> Redis:
        """Wait until all sentinels name another server, and it serves as a primary."""
        until(lambda: self._agree_on_another(than), "the sentinels to promote a replica")
        return self.primary()

    def _agree_on_another(self, than: Redis) -> bool:
        ports = {one.primary_port() for one in self.sentinels if one.process is not None}
        return len(ports) == 1 and than.port not in ports and self.primary().role() == "master"

    def fail_over(self) -> Redis:
        """Kill the primary and return the server that takes its place."""
        old = self.primary()
        old.kill()
        return self.wait_for_another_primary(old)


def _well(rows: list[dict[str, str]]) -> int:
    return sum(
        "down" not in row["flags"]
        and "disconnected" not in row["flags"]
        and row.get("master-link-status", "ok") == "ok"
        for row in rows
    )
