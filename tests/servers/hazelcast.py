"""Hazelcast: three CP members in one process, or each in its own for a test to stop or kill.

A CP Subsystem has three members at least. The time to live of a session is that of the cluster, so
there are two kinds: one whose leases last as long as the checks of every engine ask for, and one
where the locks of a dead holder are soon free.
"""

from __future__ import annotations

import itertools
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from tests.servers import hazelcast_program
from tests.servers.peers import PeerGroup
from tests.servers.server import Missing, Server, free_port, until

CLUSTER = "fencelock-tests"
QUICK = ("-Xms32m", "-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
JOINED = "CP Subsystem is initialized with"


def java(*words: str) -> list[str]:
    """The command that runs one of our programs over Hazelcast."""
    jar = hazelcast_program.find()
    if jar is None:
        raise Missing(hazelcast_program.ADVICE)
    return ["java", *QUICK, "-cp", hazelcast_program.classpath(jar), *words]


class Hazelcast(Server):
    """One process with one member or several. It waits for the CP Subsystem unless told not to."""

    package = "hazelcast"

    def __init__(
        self,
        folder: Path | None = None,
        port: int | None = None,
        *,
        members: int = 3,
        cp_members: int = 3,
        session_ttl: int = 90,
        ready: str = JOINED,
    ) -> None:
        super().__init__(folder, port)
        self.ports = [self.port, *(free_port() for _ in range(members - 1))]
        self.public_ports = self.ports
        """At which the members tell each other and clients that they are reached."""
        self.peers = self.ports
        self.cp_members = cp_members
        self.session_ttl = session_ttl
        self.ready = ready
        self._numbers = itertools.count()

    def command(self) -> Sequence[str]:
        kinds = (self.ports, self.public_ports, self.peers)
        ports = (",".join(map(str, each)) for each in kinds)
        return java("Members", CLUSTER, str(self.cp_members), str(self.session_ttl), *ports)

    def answers(self) -> bool:
        """Whether every member says that it is ready, since this process was started."""
        return self.said().count(self.ready) >= len(self.ports)

    def start(self) -> Self:
        self.log.unlink(missing_ok=True)
        return super().start()

    def said(self) -> str:
        return self.log.read_text(errors="replace")

    @property
    def url(self) -> str:
        """For ``fencelock.connect``."""
        return url_at(self.ports)

    def fresh_url(self) -> str:
        """The same with a prefix that no other test uses."""
        return f"{self.url}?prefix=test-{next(self._numbers)}:"


def url_at(ports: Sequence[int]) -> str:
    """The address of members, for ``fencelock.connect``."""
    return f"hazelcast://{','.join(f'127.0.0.1:{port}' for port in ports)}/{CLUSTER}"


def brief_sessions() -> Hazelcast:
    """One on which the locks of a dead holder are free after a few seconds."""
    return Hazelcast(session_ttl=5)


class HazelcastCluster(PeerGroup[Hazelcast]):
    """Three members, each a process of its own. Their network can be cut.

    Clients are told the addresses in that network, too.
    """

    def __init__(self, session_ttl: int = 150) -> None:
        super().__init__([Hazelcast(members=1, session_ttl=session_ttl) for _ in range(3)])
        for node in self.nodes:
            node.public_ports = [self.network.front(node, node.port)]
        for node in self.nodes:
            node.peers = [port for each in self.nodes for port in each.public_ports]
            node.ready = "is STARTED"

    @property
    def url(self) -> str:
        return url_at([node.port for node in self.nodes])

    def start_again(self) -> None:
        for node in self.nodes:
            node.answers = lambda: True  # type: ignore[method-assign]  # it needs the others
            node.start()

    def join(self) -> None:
        until(lambda: all(JOINED in node.said() for node in self.nodes), "three CP members")

    def leader(self) -> Hazelcast:
        """The leader of the CP group of the locks, which has been used before."""
        found: list[Hazelcast] = []

        def led() -> bool:
            terms = {node: _led(node.said()) for node in self.nodes if node.process is not None}
            found[:] = sorted((n for n in terms if terms[n]), key=lambda n: terms[n])
            return bool(found)

        until(led, "a leader of the group of the locks")
        return found[-1]


def _led(said: str) -> int:
    """The last term in which a member has led the group of the locks; 0 for none."""
    groups = re.findall(
        r"\{groupId: default\(\d+\), size:\d+, term:(\d+)(.*?)\n\]", said, re.DOTALL
    )
    mine = (term for term, members in groups if "LEADER this" in members)
    return max(map(int, mine), default=0)


def run_contender(server: Hazelcast, name: str, *words: str) -> subprocess.Popen[str]:
    """Start the Java client, at one member."""
    address = f"127.0.0.1:{server.ports[0]}"
    return subprocess.Popen(
        java("Contender", CLUSTER, address, name, *words),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
