"""The network between the members of a cluster, in which one of them can be cut off.

Members reach each other through a proxy in front of each. A connection comes from a member if its
other end is a socket of that member's process; so the proxy knows both ends, and a cut can concern
one pair and not another, as that of a switch does. Whoever is no member passes, unless the network
is for members only: clients that are told the same addresses still reach a member that was cut off.
Bytes of a cut connection are held back in silence; after healing those connections are reset, as
stale ones are. New ones are closed while it is cut. Datagrams between members that are cut off are
lost.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Generic, Self, TypeVar

from tests.servers.group import Group
from tests.servers.server import Server

CHUNK = 1 << 16
NAP_S = 0.02
LOOPBACK = "127.0.0.1"

Node = TypeVar("Node", bound=Server)


class _Connection:
    """One connection to a member, with a thread for each direction."""

    def __init__(
        self, network: PeerNetwork, source: int | None, to: int, client: socket.socket, port: int
    ) -> None:
        self._network = network
        self.source = source
        self.to = to
        self.held = False
        self._client = client
        self._server = socket.create_connection((LOOPBACK, port))

    def run(self) -> None:
        for source, target in ((self._client, self._server), (self._server, self._client)):
            pump = threading.Thread(target=self._pump, args=(source, target), daemon=True)
            pump.start()

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        try:
            while data := source.recv(CHUNK):
                while self._network.is_cut(self.source, self.to):
                    self.held = True
                    if self._network.closed.wait(NAP_S):
                        return
                if self.held:
                    break
                target.sendall(data)
        except OSError:
            pass
        finally:
            self.close()

    def close(self) -> None:
        for end in (self._client, self._server):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            end.close()


class PeerNetwork:
    """Addresses in front of members, each of which is a process."""

    def __init__(self, members: Sequence[Server]) -> None:
        self._members = members
        self._listeners: list[tuple[int, int, socket.socket]] = []
        self._datagrams: dict[int, tuple[int, socket.socket]] = {}
        self._parted: set[int] = set()
        self._frozen: set[int] = set()
        self.members_only = False
        """Whoever is no member is refused from now on."""
        self.closed = threading.Event()

    def front(self, member: Server, target: int, host: str = LOOPBACK, port: int = 0) -> int:
        """Listen in front of a port of a member; return where, if any port will do."""
        listener = socket.create_server((host, port))
        self._listeners.append((self._members.index(member), target, listener))
        return int(listener.getsockname()[1])

    def front_datagrams(self, member: Server, port: int, host: str) -> None:
        """Take datagrams on the same port of another address of loopback.

        A member sees those of another come from that one's address in this network, so that what
        it answers passes here too.
        """
        listener = socket.socket(type=socket.SOCK_DGRAM)
        listener.bind((host, port))
        self._datagrams[port] = self._members.index(member), listener

    def start(self) -> None:
        for to, target, listener in self._listeners:
            accept = threading.Thread(target=self._accept, args=(to, target, listener), daemon=True)
            accept.start()
        for port in self._datagrams:
            threading.Thread(target=self._pass_datagrams, args=(port,), daemon=True).start()

    def part(self, member: Server) -> None:
        """Let nothing pass between one member and the others."""
        self._parted = {*self._parted, self._members.index(member)}

    def freeze(self, member: Server) -> None:
        """Refuse new connections to a member: it stands still, and so does its machine.

        That of a frozen process would accept them, and say nothing. A member of Hazelcast that has
        something to send on such a connection spins, and with it the thread that sends for others.
        """
        self._frozen = {*self._frozen, self._members.index(member)}

    def heal(self) -> None:
        self._parted = set()

    def is_cut(self, source: int | None, to: int) -> bool:
        return source is not None and bool({source, to} & self._parted)

    def close(self) -> None:
        self.closed.set()
        for listener in (
            *(listener for _, _, listener in self._listeners),
            *(listener for _, listener in self._datagrams.values()),
        ):
            try:
                listener.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            listener.close()

    def _accept(self, to: int, target: int, listener: socket.socket) -> None:
        while not self.closed.is_set():
            try:
                client, _ = listener.accept()
            except OSError:
                return
            source = self._source(client)
            stranger = source is None and self.members_only
            if to in self._frozen or stranger or self.is_cut(source, to):
                client.close()  # nobody listens there for whoever comes now
                continue
            try:
                _Connection(self, source, to, client, target).run()
            except OSError:  # the member is down
                client.close()

    def _pass_datagrams(self, port: int) -> None:
        to, listener = self._datagrams[port]
        while not self.closed.is_set():
            try:
                data, sender = listener.recvfrom(CHUNK)
            except OSError:
                return
            if sender is None:  # it was shut down
                return
            source, back = self._datagrams.get(sender[1], (None, listener))
            if not self.is_cut(source, to):
                try:
                    back.sendto(data, (LOOPBACK, port))
                except OSError:
                    pass  # the member is down, or this is being closed

    def _source(self, client: socket.socket) -> int | None:
        """The member that has the other end of a connection, if one has."""
        inode = _inode(client.getpeername()[1], client.getsockname()[1])
        for number, member in enumerate(self._members):
            process = member.process
            if process is not None and f"socket:[{inode}]" in _descriptors(process.pid):
                return number
        return None


class PeerGroup(Group, Generic[Node]):
    """Members that reach each other through a network that can be cut."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.nodes = [*nodes]
        self.servers = [*nodes]
        self.network = PeerNetwork(self.nodes)

    def start(self) -> Self:
        self.network.start()
        self.start_again()
        self.join()
        return self

    def start_again(self) -> None:
        """Start all members; none of them answers before a majority runs."""
        with ThreadPoolExecutor(len(self.nodes)) as pool:
            list(pool.map(lambda node: node.start(), self.nodes))

    def others(self, node: Node) -> list[Node]:
        return [each for each in self.nodes if each is not node]

    def part(self, node: Node) -> None:
        """Cut one member off from the others; its clients still reach it."""
        self.network.part(node)

    def freeze(self, node: Node) -> None:
        """Have one member stand still, with its machine. It is not woken again."""
        self.network.freeze(node)
        node.pause()

    def heal(self) -> None:
        self.network.heal()

    def close(self) -> None:
        super().close()
        self.network.close()


def _inode(port: int, to: int) -> str | None:
    """The number of the socket that connects these two ports of loopback."""
    for table in ("tcp", "tcp6"):  # Java has sockets of the second kind for both
        for row in Path("/proc/net", table).read_text().splitlines()[1:]:
            _, here, there, *rest = row.split()
            if (int(here[-4:], 16), int(there[-4:], 16)) == (port, to):
                return rest[6]
    return None


def _descriptors(pid: int) -> set[str]:
    """What the descriptors of a process stand for."""
    found = set[str]()
    try:
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            try:
                found.add(os.readlink(descriptor))
            except OSError:
                pass  # it was closed just now
    except OSError:
        pass  # the process has ended
    return found
