"""Consul: one server, or three of which a test may stop, freeze or kill any.

The agents are servers, whose HTTP ports the tests use as any agent's. Sessions of a second are
allowed, so that a dead holder's lock is free in two.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.servers import consul_program
from tests.servers.peers import PeerGroup
from tests.servers.server import Missing, Server, free_port, until

ANSWER_S = 20.0
PEERS = "127.0.0.2"  # where the servers of a cluster reach each other


def program() -> str:
    found = consul_program.find()
    if found is None:
        raise Missing(consul_program.ADVICE)
    return found


class Consul(Server):
    """One server, alone unless it is told of its peers. ``settings`` are added to its own."""

    package = "consul"

    def __init__(
        self,
        folder: Path | None = None,
        port: int | None = None,
        *,
        name: str = "n0",
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(folder, port)
        self.name = name
        self.settings = dict(settings or {})
        self.serf_port, self.server_port = free_port(), free_port()
        self.peers: list[str] = []
        self.advertised = "127.0.0.1"
        """The address at which the others reach it."""
        self.token: str | None = None
        """Sent by ``ask`` and ``run``, where access is controlled."""
        self._numbers = itertools.count()

    def prepare(self) -> None:
        ports = {"http": self.port, "serf_lan": self.serf_port, "server": self.server_port}
        none = dict.fromkeys(("dns", "grpc", "https", "serf_wan"), -1)
        settings: dict[str, Any] = {
            "node_name": self.name,
            "server": True,
            "bootstrap_expect": len(self.peers) or 1,
            "data_dir": str(self.folder / "data"),
            "bind_addr": "127.0.0.1",
            "advertise_addr": self.advertised,
            "client_addr": "127.0.0.1",
            "ports": {**none, **ports},
            "retry_join": self.peers,
            "retry_interval": "1s",
            "session_ttl_min": "1s",
            "performance": {"raft_multiplier": 1},
            "limits": {"http_max_conns_per_client": 2000},
            "disable_update_check": True,
            "disable_host_node_id": True,
            "log_level": "warn",
            **self.settings,
        }
        (self.folder / "consul.json").write_text(json.dumps(settings))

    def command(self) -> Sequence[str]:
        return [program(), "agent", "-config-file", str(self.folder / "consul.json")]

    def answers(self) -> bool:
        """Whether it can write: it has a leader, and its own node is registered."""
        if not self.ask("GET", "status/leader"):
            return False
        made = self.ask("PUT", "session/create", {"TTL": "10s"})
        self.ask("PUT", f"session/destroy/{made['ID']}")
        return True

    def start_unseen(self) -> None:
        """Start, and do not wait until it answers: it may need others for that."""
        answers, self.answers = self.answers, lambda: True  # type: ignore[method-assign]
        self.start()
        self.answers = answers  # type: ignore[method-assign]

    def ask(self, method: str, path: str, body: object = None) -> Any:
        """What the API answers; None for nothing there."""
        data = None if body is None else body if isinstance(body, bytes) else json.dumps(body)
        request = urllib.request.Request(
            f"http://{self.address}/v1/{path}",
            data.encode() if isinstance(data, str) else data,
            {} if self.token is None else {"x-consul-token": self.token},
            method=method,
        )
        try:
            with urllib.request.urlopen(request, timeout=ANSWER_S) as answer:
                return json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            error.close()
            if error.code == 404:
                return None
            raise

    def pair(self, key: str) -> Any:
        """A key as it is, or nothing."""
        found = self.ask("GET", f"kv/{key}?consistent")
        return found[0] if found else None

    def sessions(self) -> list[Any]:
        """All sessions that locks use."""
        found = self.ask("GET", "session/list?consistent")
        return [one for one in found if one["Name"] == "fencelock"]

    def cli(self, *words: str) -> list[str]:
        """The command line of Consul's own program for this agent: first its command."""
        token = [] if self.token is None else [f"-token={self.token}"]
        return [program(), words[0], f"-http-addr=http://{self.address}", *token, *words[1:]]

    def run_words(self, command: str, verb: str, *words: object) -> None:
        """Run Consul's own program, as in ``consul snapshot save FILE``, and wait for its end."""
        token = [] if self.token is None else [f"-token={self.token}"]
        address = f"-http-addr=http://{self.address}"
        line = [program(), command, verb, address, *token, *map(str, words)]
        subprocess.run(line, capture_output=True, text=True, timeout=60, check=True)

    @property
    def url(self) -> str:
        """For ``fencelock.connect``."""
        return f"consul://{self.address}?session_ttl_min=1"

    def fresh_url(self) -> str:
        """The same with a prefix that no other test uses."""
        return f"{self.url}&prefix=test-{next(self._numbers)}/"


class ConsulCluster(PeerGroup[Consul]):
    """Three servers. What they say to each other passes a network that can be cut.

    Each is told to the others by another address of loopback, where the network has its ports.
    """

    def __init__(self, size: int = 3) -> None:
        super().__init__([Consul(name=f"n{number}") for number in range(size)])
        for node in self.nodes:
            node.advertised = PEERS
            node.peers = [f"{PEERS}:{each.serf_port}" for each in self.nodes]
            for port in (node.serf_port, node.server_port):
                self.network.front(node, port, PEERS, port)
            self.network.front_datagrams(node, node.serf_port, PEERS)

    @property
    def url(self) -> str:
        hosts = ",".join(node.address for node in self.nodes)
        return f"consul://{hosts}?session_ttl_min=1"

    def join(self) -> None:
        def all_follow() -> bool:
            return all(
                len(node.ask("GET", "status/peers")) == len(self.nodes) for node in self.nodes
            )

        until(all_follow, "the servers to know each other")

    def leader(self, *, among: Sequence[Consul] | None = None) -> Consul:
        """The leader, once there is one that is among those given."""
        found: list[Consul] = []

        def led() -> bool:
            for node in among or self.nodes:
                leader = str(node.ask("GET", "status/leader")).rpartition(":")[2]
                found.extend(n for n in among or self.nodes if str(n.server_port) == leader)
            return bool(found)

        until(led, "a leader")
        return found[0]
