"""A ZooKeeper server, and an ensemble of three whose members a test can cut off from each other.

The tick is short, so that sessions of a second and elections within one are possible. Commands of
four letters tell what a server knows about itself.
"""

from __future__ import annotations

import itertools
import os
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.servers.group import Group
from tests.servers.proxy import Proxy
from tests.servers.server import Missing, Server, free_port, program, until

JAVA = Path("/usr/share/java")
JARS = (
    "zookeeper",
    "zookeeper-jute",
    "slf4j-api",
    "slf4j-simple",
    "metrics-core",
    "snappy-java",
    "netty-handler",
    "netty-common",
    "netty-transport",
    "netty-buffer",
    "netty-codec",
    "netty-resolver",
)
TICK_MS = 100
ANSWER_S = 20.0
STARTING_S = 1.0  # a connection that comes while it starts is accepted, and may never be answered
# A member that looks for the others asks them less and less often, up to once a minute; a test that
# has brought it back would wait for that.
ELECTION = {"zookeeper.fastleader.maxNotificationInterval": "500"}
QUICK = ("-Xms16m", "-Xmx96m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")


class ZooKeeper(Server):
    """One server, alone unless it is told of its peers.

    ``settings`` are further lines of its configuration, ``properties`` of its Java machine.
    """

    package = "zookeeper"

    def __init__(
        self,
        folder: Path | None = None,
        port: int | None = None,
        *,
        number: int = 0,
        peers: Sequence[str] = (),
        settings: dict[str, str] | None = None,
        properties: dict[str, str] | None = None,
    ) -> None:
        super().__init__(folder, port)
        self.number = number
        self.peers = tuple(peers)
        self.settings = settings or {}
        self.properties = {"znode.container.checkIntervalMs": "1000", **(properties or {})}
        self._roots = itertools.count()

    def command(self) -> Sequence[str]:
        jars = [JAVA / f"{name}.jar" for name in JARS]
        if not jars[0].exists():
            raise Missing(f"{jars[0]} is not there: sudo apt-get install {self.package}")
        log = {"org.slf4j.simpleLogger.defaultLogLevel": "warn"}
        given = [f"-D{key}={value}" for key, value in {**log, **self.properties}.items()]
        classes = os.pathsep.join(map(str, jars))
        main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        java = program("java", "default-jre-headless")
        return [java, *QUICK, *given, "-cp", classes, main, str(self.configuration)]

    @property
    def configuration(self) -> Path:
        return self.folder / "zoo.cfg"

    def prepare(self) -> None:
        data = self.folder / "data"
        data.mkdir()
        (data / "myid").write_text(f"{self.number}\n")
        settings = {
            "dataDir": str(data),
            "clientPort": str(self.port),
            "clientPortAddress": "127.0.0.1",
            "tickTime": str(TICK_MS),
            "initLimit": "50",
            "syncLimit": "20",
            "minSessionTimeout": "400",
            "maxSessionTimeout": "1200000",
            "maxClientCnxns": "0",
            "admin.enableServer": "false",
            "4lw.commands.whitelist": "*",
            **self.settings,
        }
        lines = [*(f"{key}={value}" for key, value in settings.items()), *self.peers]
        self.configuration.write_text("\n".join(lines) + "\n")

    def answers(self) -> bool:
        if self.peers:
            return self.ask("ruok", STARTING_S) == "imok"
        return self.mode(STARTING_S) == "standalone"

    def ask(self, word: str, within: float = ANSWER_S) -> str:
        """What it answers to a command of four letters."""
        with socket.create_connection(("127.0.0.1", self.port), within) as line:
            line.sendall(word.encode())
            return b"".join(iter(lambda: line.recv(65536), b"")).decode()

    def facts(self, word: str = "mntr") -> dict[str, str]:
        """What it knows about itself, by key."""
        rows = (line.partition("\t") for line in self.ask(word).splitlines())
        return {key: value for key, _, value in rows}

    def mode(self, within: float = ANSWER_S) -> str:
        """``standalone``, ``leader``, ``follower``, or nothing while it does not serve."""
        found = [x for x in self.ask("srvr", within).splitlines() if x.startswith("Mode:")]
        return found[0].removeprefix("Mode:").strip() if found else ""

    def requests(self) -> int:
        """How many packets it has had from clients, pings among them."""
        line = next(x for x in self.ask("srvr").splitlines() if x.startswith("Received:"))
        return int(line.removeprefix("Received:"))

    def sessions(self) -> int:
        """How many connections there are, without the one that asks."""
        return int(self.facts()["zk_num_alive_connections"]) - 1

    def nodes(self) -> set[str]:
        """The paths of all nodes that live with a session."""
        return {line.strip() for line in self.ask("dump").splitlines() if "\t/" in line}

    @property
    def url(self) -> str:
        """For ``fencelock.connect``."""
        return f"zookeeper://{self.address}/locks"

    def fresh_url(self) -> str:
        """The same with a root that no other test uses."""
        return f"zookeeper://{self.address}/test-{next(self._roots)}"


class Ensemble(Group):
    """Three servers that are one. Each reaches the others through proxies that a test may cut."""

    def __init__(
        self,
        count: int = 3,
        properties: Mapping[str, str] | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        numbers = range(1, count + 1)
        given = {**ELECTION, **(properties or {})}
        quorum = {number: free_port() for number in numbers}
        election = {number: free_port() for number in numbers}
        self._lines: dict[tuple[int, int], list[Proxy]] = {}
        self.members: list[ZooKeeper] = []
        for number in numbers:
            peers: list[str] = []
            for other in numbers:
                ports = [quorum[other], election[other]]
                if other != number:
                    proxies = [Proxy(port).start() for port in ports]
                    self._lines[number, other] = proxies
                    ports = [proxy.port for proxy in proxies]
                peers.append(f"server.{other}=127.0.0.1:{ports[0]}:{ports[1]}:participant")
            member = ZooKeeper(
                number=number, peers=peers, properties=given, settings=dict(settings or {})
            )
            self.members.append(member)
        self.servers = [*self.members]
        self._roots = itertools.count()

    def join(self) -> None:
        until(self.settled, "the ensemble to have a leader")

    def settled(self) -> bool:
        """Whether one leads and all others follow."""
        return sorted(member.mode() for member in self.members) == [
            *["follower"] * (len(self.members) - 1),
            "leader",
        ]

    @property
    def leader(self) -> ZooKeeper:
        """Who leads, once somebody does: on a busy machine they may be voting at any moment."""
        found: list[ZooKeeper] = []

        def led() -> bool:
            found.extend(member for member in self.members if _leads(member))
            return bool(found)

        until(led, "the ensemble to have a leader")
        return found[0]

    def led_without(self, member: ZooKeeper) -> bool:
        """Whether one of the others leads."""
        return any(_leads(other) for other in self.members if other is not member)

    @property
    def followers(self) -> list[ZooKeeper]:
        leader = self.leader
        return [member for member in self.members if member is not leader]

    def isolate(self, member: ZooKeeper, *, silently: bool = False) -> None:
        """Cut one member off from the others; clients still reach it.

        Silently: their connections stay and carry nothing, so that each side finds out late.
        """
        for ends, proxies in self._lines.items():
            if member.number in ends:
                for proxy in proxies:
                    proxy.block() if silently else proxy.cut()

    def heal(self) -> None:
        for proxies in self._lines.values():
            for proxy in proxies:
                proxy.heal()

    def mend(self) -> None:
        """Undo whatever a test has done to it."""
        self.heal()
        for member in self.members:
            if member.process is None:
                member.start()
            else:
                member.resume()
        until(self.settled, "the ensemble to be whole again")

    def url(self, *members: ZooKeeper) -> str:
        """For ``fencelock.connect``: some or all members, and a root that no other test uses."""
        hosts = ",".join(member.address for member in members or self.members)
        return f"zookeeper://{hosts}/test-{next(self._roots)}"

    def close(self) -> None:
        super().close()
        for proxies in self._lines.values():
            for proxy in proxies:
                proxy.close()


def _leads(member: ZooKeeper) -> bool:
    try:
        return member.process is not None and member.mode() == "leader"
    except OSError:  # it does not answer, so it does not lead
        return False
