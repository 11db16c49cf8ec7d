"""One member of a simulated ZooKeeper ensemble: it leads or follows.

* The leader gives each write a number (a zxid: the epoch of the leader, then a count) and proposes
  it to the others. An entry in the logs of a majority is committed; all members apply it in order.
* A member answers reads from what it has applied, and a write when it has applied that itself.
* The leader ends a session from which no member has received anything for the session's timeout.
* A follower that receives nothing from its leader, and a leader that receives nothing from a
  majority, serves no clients. Members that look for a leader elect the one with the newest log.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

from . import zookeeper_wire as wire
from .connection import Connection, Server
from .model_zookeeper import Answer, Entry, Tree
from .network import Network, Pipe
from .world import WALL_S
from .zookeeper_clients import TICK_S, ClientPort
from .zookeeper_wire import Op

SYNC_S = 3 * TICK_S  # how long a leader and its followers may receive nothing from each other
CONTAINERS_S = 60.0  # how often the leader checks for containers that are not used any more
SESSION_MOVED = -118

Role = Literal["looking", "following", "leading"]


class Record(NamedTuple):
    """An entry of the log, and the member and request (``tag``) that it belongs to."""

    entry: Entry
    origin: str = ""
    tag: int = 0


class Member(Server):
    """One server of an ensemble, with a clock of its own."""

    on_role: Callable[[], object] | None = None
    """Called when it begins to look for a leader, to follow or to lead, if an observer set it."""

    def __init__(
        self, network: Network, number: int, ahead: float, pace: float, name: str = ""
    ) -> None:
        super().__init__(name or f"node-{number}")
        self.number = number
        self.ahead = ahead
        """Seconds by which its wall clock is ahead; set it to make that clock step."""
        self.watchers: list[Callable[[], object]] = []
        """Called whenever it has applied an entry."""
        self._network = network
        self._simulation = network.simulation
        self._pace, self._offset = pace, 0.0
        self._pipes: dict[str, Pipe] = {}
        self._clients = ClientPort(self, network.simulation)
        self.forget()

    def forget(self) -> None:
        """Lose the log, the tree and the epochs, and look for a leader."""
        self.tree = Tree()
        self._log: list[Record] = []
        self._applied = 0
        """How many entries of the log are applied."""
        self._epoch = self._accepted = 0
        """The epoch of the leader whose log it has; the last epoch that it promised to follow."""
        self._be("looking")

    def _be(self, role: Role) -> None:
        self.role: Role = role
        self._leader: str = self.name if role == "leading" else ""
        self.serves = False
        """Whether it has a leader that a majority follows."""
        self._seen: dict[str, tuple[float, int, tuple[int, int, int]]] = {}
        """The other members that look for a leader: when each last said so, the epoch that it has
        accepted, and its vote (epoch, last zxid, number)."""
        self._votes: set[str] = set()
        self._stood_at = self.now() - TICK_S
        self._last_contact: dict[str, float] = {}
        self._touched: dict[int, None] = {}
        # Used by a leader only:
        self._acked: dict[str, int] = {}
        self._committed = self._zxid = 0
        self._ends: dict[int, float] = {}
        self._owners: dict[int, str] = {}
        self._syncs: list[tuple[int, str, int]] = []
        self._containers_at = self.now() + CONTAINERS_S
        if self.on_role is not None:
            self.on_role()

    def join(self, members: Sequence[Member]) -> None:
        """Join an ensemble of these members, and start ticking."""
        for other in members:
            if other is not self:
                take = partial(other.receive_from, self.name)
                self._pipes[other.name] = self._network.pipe(self, other, take)
        self._majority = len(members) // 2 + 1
        self._after_tick(None)

    def begin(self, leader: Member) -> None:
        """Begin with this leader in place, without an election."""
        if leader is self:
            self.lead(1)
            for name in self._pipes:
                self._on_ack(name, 0)
        else:
            self._on_lead(leader.name, 1, ())
            self.serves = True

    @property
    def leader(self) -> str:
        """The name of its leader, which may be itself; empty while it has none."""
        return self._leader

    def session_end(self, session: int) -> float | None:
        """Return when, in true time, this leader ends a session unless it is touched; else None."""
        end = self._ends.get(session)
        return None if end is None else (end - self._offset) / self._pace

    # Time

    def now(self) -> float:
        return self._offset + self._pace * self._simulation.now

    def wall_us(self) -> float:
        return (WALL_S + self.ahead + self.now()) * 1e6

    def slew(self, pace: float) -> None:
        """Run its clock at another pace from now on, without a step."""
        self._offset += (self._pace - pace) * self._simulation.now
        self._pace = pace

    def _after_tick(self, _: None) -> None:
        self._simulation.call_at(self._simulation.now + TICK_S / 2, self._tick, None)

    def _tick(self, _: None) -> None:
        if not self.is_down and not self.is_paused:
            if self.role == "looking":
                self._look()
            elif self.role == "following":
                if self.now() > self._last_contact[self._leader] + SYNC_S:
                    self._look_anew()
            else:
                self._lead_on()
        self._after_tick(None)

    # Faults

    def crash(self) -> None:
        """Crash: all connections are lost, and new ones are refused."""
        self.is_down = True
        self.is_paused, self.mail = False, []
        self._clients.drop("the server is gone")
        self._be("looking")

    def restart(self, forgets: bool) -> None:
        """Restart, with its log or with none, and look for a leader."""
        self.is_down = False
        if forgets:
            self.forget()
        self._look_anew()

    # Clients

    def accept(self, connection: Connection) -> None:
        self._clients.accept(connection)

    def receive(self, connection: Connection, payload: bytes) -> None:
        self._clients.receive(connection, payload)

    def leave(self, connection: Connection) -> None:
        self._clients.leave(connection)

    def send_to_leader(self, what: str, tag: int, session: int, op: Op | None) -> None:
        """Send a request of a client to the leader; ``ClientPort.answered`` gets the answer."""
        self._send(self._leader, what, tag, session, op)

    def touch(self, session: int) -> None:
        """Note that the client of a session has sent something, which prolongs the session."""
        if self.role != "leading":
            self._touched[session] = None
        elif session in self._ends:
            timeout = self.tree.sessions.get(session, 0) / 1000
            self._ends[session] = ((self.now() + timeout) // TICK_S + 1) * TICK_S

    # Messages between members

    def _send(self, name: str, what: str, *words: object) -> None:
        message = (what, self._epoch, *words)
        if name == self.name:
            self.receive_from(name, message)
        else:
            self._pipes[name].carry(message)

    def _send_all(self, what: str, *words: object) -> None:
        for name in self._pipes:
            self._send(name, what, *words)

    def receive_from(self, name: str, message: tuple[Any, ...]) -> None:
        """Handle a message of another member, or of this one to itself."""
        if self.is_down:
            return
        what, epoch, *words = message
        if what in ("looking", "elect", "elected", "lead"):
            getattr(self, f"_on_{what}")(name, epoch, *words)
            return
        to_leader = what in ("ack", "pong", "write", "sync", "revalidate")
        if epoch == self._epoch and (self.role == "leading" if to_leader else name == self._leader):
            self._last_contact[name] = self.now()
            getattr(self, f"_on_{what}")(name, *words)

    # Elections

    @property
    def last_zxid(self) -> int:
        """The zxid of the last entry in its log, committed or not; 0 if the log is empty."""
        return self._log[-1].entry.zxid if self._log else 0

    def _look_anew(self) -> None:
        self._clients.drop("the server has lost its leader")
        self._be("looking")
        self._look()

    def _look(self) -> None:
        """Send the others its vote, and stand for election when no vote seen is higher."""
        mine = (self._epoch, self.last_zxid, self.number)
        self._send_all("looking", self._accepted, mine)
        since = self.now() - TICK_S
        seen = [one for one in self._seen.values() if one[0] > since]
        if len(seen) + 1 < self._majority or any(theirs > mine for _, _, theirs in seen):
            return
        if self.now() >= self._stood_at + TICK_S:
            self._stood_at = self.now()
            self._accepted = max([self._accepted, *(accepted for _, accepted, _ in seen)]) + 1
            self._votes = set()
            self._send_all("elect", self._accepted, mine)
            self._on_elected(self.name, self._epoch, self._accepted)

    def _on_looking(
        self, name: str, epoch: int, accepted: int, theirs: tuple[int, int, int]
    ) -> None:
        if self.role == "leading":
            if accepted > self._epoch:  # it has promised to follow a later leader, and not this one
                self._look_anew()
            else:
                self._acked.pop(name, None)
                self._send(name, "lead", tuple(self._log))
        elif self.role == "looking":
            self._seen[name] = (self.now(), accepted, theirs)

    def _on_elect(self, name: str, _: int, wanted: int, theirs: tuple[int, int, int]) -> None:
        has_as_much = theirs[:2] >= (self._epoch, self.last_zxid)
        if self.role == "looking" and wanted > self._accepted and has_as_much:
            self._accepted, self._votes = wanted, set()
            self._send(name, "elected", wanted)

    def _on_elected(self, name: str, _: int, wanted: int) -> None:
        is_mine = name == self.name or self.name in self._votes
        if self.role == "looking" and is_mine and wanted == self._accepted:
            self._votes.add(name)
            if len(self._votes) >= self._majority:
                self.lead(wanted)

    def lead(self, epoch: int) -> None:
        """Lead: when a majority has taken over its log, all entries in it are committed."""
        self._epoch = self._accepted = epoch
        self._be("leading")
        now = self.now()
        self._last_contact = dict.fromkeys(self._pipes, now)
        self._zxid = epoch << 32
        self._send_all("lead", tuple(self._log))
        self._on_ack(self.name, self.last_zxid)

    def _on_lead(self, name: str, epoch: int, log: tuple[Record, ...]) -> None:
        if epoch < self._accepted or self.role == "leading":
            return
        if self.role == "following" and (name, epoch) != (self._leader, self._epoch):
            self._clients.drop("the server has another leader")
        if self._leader != name or self._epoch != epoch or self.role != "following":
            self._be("following")
        self._leader = name
        self._epoch = self._accepted = epoch
        # Applied entries differ only if a majority has lost its logs.
        if self._log[: self._applied] != list(log[: self._applied]):
            self.tree, self._applied = Tree(), 0
        self._log = list(log)
        self._last_contact[name] = self.now()
        self._send(name, "ack", self.last_zxid, True)

    # Following

    def _on_propose(self, name: str, record: Record) -> None:
        self._log.append(record)
        self._send(name, "ack", record.entry.zxid)

    def _on_commit(self, name: str, zxid: int) -> None:
        self.serves = True
        self._apply(zxid)

    def _on_ping(self, name: str) -> None:
        touched, self._touched = self._touched, {}
        self._send(name, "pong", tuple(touched))

    def _on_answer(self, name: str, tag: int, answer: Answer, zxid: int) -> None:
        self._clients.answered(tag, answer, zxid or self.tree.zxid)

    def _apply(self, zxid: int) -> None:
        """Apply the entries up to a zxid, and answer this member's own clients."""
        while self._applied < len(self._log) and self._log[self._applied].entry.zxid <= zxid:
            entry, origin, tag = self._log[self._applied]
            self._applied += 1
            answer = self.tree.apply(entry)
            if origin == self.name:
                self._clients.answered(tag, answer, entry.zxid)
            if entry.op.kind == wire.CLOSE:
                self._clients.end_session(entry.session)
            for watch in self.watchers:
                watch()

    # Leading

    def _lead_on(self) -> None:
        """Do a leader's work of a tick: ping, end sessions, delete unused containers."""
        now = self.now()
        followers = [name for name, at in self._last_contact.items() if at > now - SYNC_S]
        if len(set(followers) | {self.name}) < self._majority:
            self._look_anew()
            return
        self._send_all("ping")
        if not self.serves:
            return
        for session in [session for session, end in self._ends.items() if end <= now]:
            self._submit(session, Op(wire.CLOSE))
        if now >= self._containers_at:
            self._containers_at = now + CONTAINERS_S
            for path in self.tree.unused_containers():
                self._submit(0, Op(wire.DELETE_CONTAINER, path))

    def _on_ack(self, name: str, zxid: int, has_joined: bool = False) -> None:
        self._acked[name] = max(zxid, self._acked.get(name, 0))
        if len(self._acked) < self._majority:
            return
        is_first = not self.serves
        zxid = sorted(self._acked.values(), reverse=True)[self._majority - 1]
        if zxid > self._committed or is_first:
            self._committed = max(zxid, self._committed)
            self._send_all("commit", self._committed)
            self._apply(self._committed)
        elif has_joined:
            self._send(name, "commit", self._committed)
        if is_first:
            self.serves = True
            self._ends = dict.fromkeys(self.tree.sessions, 0.0)
            for session in self._ends:
                self.touch(session)
        due = [one for one in self._syncs if one[0] <= self._committed]
        self._syncs = [one for one in self._syncs if one[0] > self._committed]
        for _, origin, tag in due:
            self._give(origin, tag, Answer(0), 0)

    def _on_pong(self, name: str, touched: tuple[int, ...]) -> None:
        for session in touched:
            self.touch(session)

    def _give(self, name: str, tag: int, answer: Answer, zxid: int) -> None:
        if name == self.name:
            self._clients.answered(tag, answer, zxid or self.tree.zxid)
        else:
            self._send(name, "answer", tag, answer, zxid)

    def _on_write(self, name: str, tag: int, session: int, op: Op) -> None:
        if self._owners.setdefault(session, name) != name:
            self._give(name, tag, Answer(SESSION_MOVED), 0)
        else:
            self._submit(session, op, name, tag)

    def _submit(self, session: int, op: Op, origin: str = "", tag: int = 0) -> None:
        """Give a write its zxid, append it to the log, and propose it to the others."""
        self._zxid += 1
        time_ms = int(self.wall_us() / 1000)
        record = Record(Entry(self._zxid, session, op, time_ms), origin, tag)
        self._log.append(record)
        if op.kind == wire.OPEN_SESSION:
            self._ends[session] = self.now() + op.version / 1000
        elif op.kind == wire.CLOSE:
            self._ends.pop(session, None)
            self._owners.pop(session, None)
        self._send_all("propose", record)
        self._on_ack(self.name, self._zxid)

    def _on_sync(self, name: str, tag: int, session: int, op: Op) -> None:
        if self.last_zxid <= self._committed:
            self._give(name, tag, Answer(0), 0)
        else:
            self._syncs.append((self.last_zxid, name, tag))

    def _on_revalidate(self, name: str, tag: int, session: int, _: None) -> None:
        timeout_ms = self.tree.sessions[session] if session in self._ends else 0
        if timeout_ms:
            self._owners[session] = name
            self.touch(session)
        self._give(name, tag, Answer(0, wire.integer(timeout_ms)), 0)


def ensemble(network: Network, count: int = 3) -> list[Member]:
    """Start an ensemble that has a leader already: its last member."""
    members: list[Member] = []
    for number in range(count):
        random = network.simulation.stream(f"clock node-{number}")
        ahead, pace = random() * 2.0, 1 + (random() - 0.5) * 0.006
        members.append(Member(network, number, ahead, pace))
    begin_together(members)
    return members


def begin_together(members: Sequence[Member]) -> None:
    """Make members an ensemble that has a leader already: the last one."""
    for member in members:
        member.join(members)
    for member in members[:-1]:
        member.begin(members[-1])
    members[-1].begin(members[-1])
