"""A Redis server for contestants: started for each of them, and looked at from any process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from bench.contestant import Contestant, Gauge, Served
from tests.servers.redis import Redis
from tests.servers.resp import Line
from tests.servers.server import Missing, program

SCRIPTS = ("cmdstat_eval", "cmdstat_evalsha")


class OnRedis(Contestant):
    """Competes over a server of its own, without persistence."""

    field = "redis"
    only_scripts = False
    """Whether all that it asks is to run a script."""

    @classmethod
    def missing(cls) -> str:
        return super().missing() or redis_is_absent()

    @classmethod
    def stage(cls, folder: Path) -> AbstractContextManager[str]:
        return _serve(folder)

    @property
    def port(self) -> int:
        port = urlsplit(self.place).port
        assert port is not None
        return port

    def gauge(self) -> Gauge:
        return RedisGauge(self.port, self.only_scripts)


class RedisGauge(Gauge):
    """Counts requests by what the server reads.

    It counts the commands within a script like those of clients, so that number says nothing. What
    it reads at once is one request, unless that is long: one who sends long requests is counted by
    the scripts it runs.
    """

    def __init__(self, port: int, only_scripts: bool) -> None:
        self._line = Line(port)
        self._only_scripts = only_scripts
        self._reads = 0

    def look(self) -> Served:
        info = _fields(self._ask("INFO", "all"))
        requests = int(info["total_reads_processed"]) - self._reads
        if self._only_scripts:
            requests = sum(_calls(info[name]) for name in SCRIPTS if name in info)
        clients = [_words(row) for row in self._ask("CLIENT", "LIST").splitlines()]
        listening = [one for one in clients if one["sub"] != "0" or "b" in one["flags"]]
        return Served(requests, len(clients) - 1, len(listening))

    def _ask(self, *words: str) -> str:
        self._reads += 1
        return str(self._line.ask(*words))

    def close(self) -> None:
        self._line.close()


def _fields(text: str) -> dict[str, str]:
    rows = (row.partition(":") for row in text.splitlines())
    return {key: value for key, _, value in rows}


def _calls(figures: str) -> int:
    return int(figures.split(",")[0].removeprefix("calls="))


def _words(row: str) -> dict[str, str]:
    words = (word.partition("=") for word in row.split())
    return {key: value for key, _, value in words}


@contextmanager
def _serve(folder: Path) -> Iterator[str]:
    with Redis(folder) as server:
        yield server.url


def redis_is_absent() -> str:
    """What to install, or nothing."""
    try:
        program("redis-server", Redis.package)
    except Missing as error:
        return str(error)
    return ""
