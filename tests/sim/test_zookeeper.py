"""The ZooKeeper engine, unchanged, over the model of an ensemble: queues, crashes, cuts."""

from __future__ import annotations

import random
from collections.abc import Coroutine
from typing import Any

import pytest

from fencelock._client.client import Core
from fencelock._client.hold_state import HoldState
from fencelock._client.lock_options import make_lock_spec
from fencelock.engine import Engine
from fencelock.errors import EngineError, NotAcquired, OutcomeUnknown
from fencelock.model import Busy
from fencelock.sim import faults, zookeeper_clients
from fencelock.sim.model_zookeeper import DELETED
from fencelock.sim.network import Conditions, Host, Network
from fencelock.sim.scheduler import Draws
from fencelock.sim.world import Simulation, no_collection
from fencelock.sim.zookeeper import ZooKeeperBackend
from fencelock.sim.zookeeper_member import Member
from fencelock.world import sleep
from tests.sim.plan import CLIMATES
from tests.sim.runs import examine

SEAT = "seat"
TTL = 4.0
SEEDS = 5
DURABLE = [climate for climate in CLIMATES if climate != "amnesia"]
"""An ensemble whose majority has lost its logs counts anew, and its fences are lower then."""


class Play:
    """An ensemble, and what the actors have seen, each with its moment."""

    def __init__(self, seed: int, draws: Draws = "one", session_s: float = 6.0) -> None:
        self.simulation = Simulation(seed, draws=draws)
        self.network = Network(self.simulation, Conditions())
        self.backend = ZooKeeperBackend(self.network, 1.0)
        self.backend.session_s = session_s
        self.members: list[Member] = self.backend.hosts
        self.seen: list[tuple[float, str, str, int]] = []

    def __enter__(self) -> Play:
        return self

    def __exit__(self, *_: object) -> None:
        self.simulation.close()

    def note(self, who: str, what: str, fence: int = 0) -> None:
        self.seen.append((self.simulation.now, who, what, fence))
        self.simulation.note(who, what, fence)

    def said(self, *words: str) -> list[tuple[str, str]]:
        """Who said one of these words, in order."""
        return [(who, what) for _, who, what, _ in self.seen if not words or what in words]

    def moment(self, who: str, what: str) -> float:
        return next(when for when, *said, _ in self.seen if said == [who, what])

    def fences(self) -> list[int]:
        return [fence for *_, what, fence in self.seen if what == "holds"]

    def run(self, until: float) -> None:
        self.simulation.run(until=until)

    def leader(self) -> Member:
        (leader,) = [one for one in self.members if one.role == "leading" and one.serves]
        return leader

    def names(self) -> list[str]:
        return [member.name for member in self.members]

    def cut(self, ones: list[str], others: list[str]) -> None:
        self.network.cut([*faults.ways(ones, others), *faults.ways(others, ones)])

    def heal(self, ones: list[str], others: list[str]) -> None:
        self.network.heal([*faults.ways(ones, others), *faults.ways(others, ones)])

    def agree(self) -> None:
        """All members have the same nodes, sessions and numbers."""
        first, *others = self.members
        for other in others:
            assert other.tree.zxid == first.tree.zxid
            assert other.tree.sessions == first.tree.sessions
            stats = [{p: n.stat() for p, n in m.tree.nodes.items()} for m in (first, other)]
            assert stats[0] == stats[1]


class Lease:
    """A lease, in so far as the client needs one."""

    def __init__(self, hold: HoldState) -> None:
        self._hold = hold

    @property
    def hold(self) -> HoldState:
        return self._hold


class Actor:
    """A process with a client."""

    def __init__(self, play: Play, name: str) -> None:
        self._play = play
        self.name = name
        self.world = play.simulation.world(name)
        self.host = Host(name)
        self.core: Core[Lease] = Core(self.world, self._engine, self._lease)

    def _engine(self) -> Engine:
        return self._play.backend.engine(self.world, self.host)

    def _lease(self, core: Core[Lease], hold: HoldState) -> Lease:
        hold.hook = lambda: self._play.note(self.name, "lost")
        return Lease(hold)

    def start(self, work: Coroutine[Any, Any, None]) -> Actor:
        self._play.simulation.start(work, self.world)
        return self

    def visit(self, at: float, hold_s: float, timeout: float = 60.0, ttl: float = TTL) -> Actor:
        return self.start(self._visit(at, hold_s, timeout, ttl))

    async def _visit(self, at: float, hold_s: float, timeout: float, ttl: float) -> None:
        await sleep(self.world, at)
        note = self._play.note
        try:
            await self.core.open()
            note(self.name, "asks")
            spec = make_lock_spec(SEAT, ttl, timeout, True, None, None, False, None, None)
            lease = await self.core.attempt(spec, timeout)
            if isinstance(lease, Busy):
                note(self.name, "gives up")
                return
            hold = lease.hold
            note(self.name, "holds", hold.grant.fence)
            await sleep(self.world, hold_s)
            if not hold.ended:
                note(self.name, "leaves")
            await self.core.lifecycle.release(hold)
        except (EngineError, OutcomeUnknown, NotAcquired) as error:
            note(self.name, type(error).__name__)

    def crash(self) -> None:
        """Its power fails: nobody is told."""
        faults.crash(self.world, self.host, None)


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The kinds of the events that the members tell their clients."""
    kinds: list[int] = []
    tell = zookeeper_clients.Client.tell

    def noted(self: zookeeper_clients.Client, kind: int, path: str) -> None:
        kinds.append(kind)
        tell(self, kind, path)

    monkeypatch.setattr(zookeeper_clients.Client, "tell", noted)
    return kinds


@pytest.mark.parametrize("seed", range(5))
def test_whoever_came_first_is_served_first(seed: int) -> None:
    with Play(seed) as play:
        for number, name in enumerate("ABCD"):
            Actor(play, name).visit(0.5 + number, 5.0)
        play.run(until=4.5)
        assert len(play.backend.queue()) == 3
        play.run(until=60)
        turns = [(name, what) for name in "ABCD" for what in ("holds", "leaves")]
        assert play.said("holds", "leaves", "lost") == turns
        assert play.fences() == sorted(set(play.fences()))
        play.agree()


def test_a_holder_that_dies_wakes_one_waiter(told: list[int]) -> None:
    with Play(1) as play:
        first = Actor(play, "A").visit(0.5, 1000)
        Actor(play, "B").visit(1, 1000)
        Actor(play, "C").visit(2, 1000)
        play.simulation.at(10, first.crash)
        play.run(until=10)
        assert (play.said("holds"), told) == ([("A", "holds")], [])
        play.run(until=30)
        assert (play.said("holds"), told) == ([("A", "holds"), ("B", "holds")], [DELETED])
        assert play.moment("B", "holds") > 10 + 6.0 - 6.0 / 3  # a session after its last ping
        assert len(play.backend.queue()) == 1


@pytest.mark.parametrize("seed", range(5))
def test_a_holder_without_its_ensemble_is_told_before_another_holds(seed: int) -> None:
    """Its session is shorter than its ttl."""
    with Play(seed) as play:
        Actor(play, "A").visit(0.5, 1000, ttl=30)
        Actor(play, "B").visit(1, 1000)
        play.simulation.at(10, lambda: play.cut(["A"], play.names()))
        play.run(until=40)
        assert play.said("lost", "holds") == [("A", "holds"), ("A", "lost"), ("B", "holds")]
        play.heal(["A"], play.names())
        play.run(until=60)
        assert len(play.backend.queue()) == 0
        play.agree()


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("cut_off", ["node-0", "node-2"])
def test_a_minority_grants_nothing_and_a_majority_does(seed: int, cut_off: str) -> None:
    """node-2 leads at first."""
    with Play(seed) as play:
        others = [name for name in play.names() if name != cut_off]
        play.cut(["A", cut_off], ["B", *others])
        play.cut(["B"], [cut_off])
        Actor(play, "A").visit(5, 1, timeout=10)
        Actor(play, "B").visit(5, 1000)
        play.run(until=40)
        assert play.said("holds") == [("B", "holds")]
        (outcome,) = [what for who, what in play.said() if who == "A" and what != "asks"]
        assert outcome in ("Unavailable", "gives up", "OutcomeUnknown")
        assert play.leader().name in others
        play.heal(["A", cut_off], ["B", *others])
        play.heal(["B"], [cut_off])
        play.run(until=60)
        assert {member.serves for member in play.members} == {True}
        play.agree()


@pytest.mark.parametrize("seed", range(5))
def test_locks_and_sessions_outlive_the_leader(seed: int) -> None:
    """The holder is not there when another begins to lead: its session counts anew from then."""
    with Play(seed, session_s=20) as play:
        Actor(play, "A").visit(0.5, 30, ttl=12)
        Actor(play, "B").visit(1, 5)
        play.simulation.at(5, play.members[2].crash)
        play.simulation.at(5, lambda: play.cut(["A"], play.names()))
        play.simulation.at(9, lambda: play.heal(["A"], play.names()))
        play.run(until=10)
        assert play.leader() is not play.members[2]
        play.members[2].restart(forgets=False)
        play.run(until=60)
        assert play.said("holds", "leaves", "lost") == [
            (name, what) for name in "AB" for what in ("holds", "leaves")
        ]
        first, second = play.fences()
        assert second > first
        play.agree()


def test_members_agree_after_a_majority_has_lost_its_logs() -> None:
    with Play(1) as play:
        Actor(play, "A").visit(0.5, 1000)
        for member in play.members[:2]:
            play.simulation.at(5, member.crash)
        play.simulation.at(6, play.members[2].crash)
        play.run(until=7)
        for member in play.members[:2]:
            member.restart(forgets=True)
        play.run(until=12)
        play.members[2].restart(forgets=False)
        play.run(until=30)
        assert {member.serves for member in play.members} == {True}
        play.agree()


def digest(seed: int, draws: Draws) -> str:
    with no_collection(), Play(seed, draws) as play:
        first = Actor(play, "A").visit(0.5, 3)
        for name in "BCD":
            Actor(play, name).visit(1, 3)
        play.simulation.at(2, first.crash)
        play.simulation.at(12, lambda: play.members[2].crash())
        play.run(until=60)
        assert play.said("leaves")
        return play.simulation.digest()


@pytest.mark.parametrize("draws", ["one", "keyed"])
def test_the_same_seed_plays_the_same(draws: Draws) -> None:
    assert digest(3, draws) == digest(3, draws) != digest(4, draws)


def storm(play: Play, seed: int) -> None:
    """Freeze, crash and cut off members, one after the other, until a minute has passed."""
    draw = random.Random(seed)
    names, at = play.names(), 1.0
    while at < 60:
        member = draw.choice(play.members)
        for_s = draw.choice([0.5, 2.0, 5.0])
        others = [name for name in names if name != member.name]
        acts: list[tuple[Any, Any]] = [
            (member.crash, lambda member=member: member.restart(forgets=False)),
            (lambda member=member: _freeze(member), member.wake),
            (
                lambda one=member.name, others=others: play.cut([one], others),
                lambda one=member.name, others=others: play.heal([one], others),
            ),
        ]
        begin, end = draw.choice(acts)
        play.simulation.at(at, begin)
        play.simulation.at(at + for_s, end)
        at += for_s + draw.choice([0.1, 1.0, 4.0])


def _freeze(member: Member) -> None:
    member.is_paused = True


@pytest.mark.parametrize("seed", range(20))
def test_no_storm_gives_a_lock_to_two(seed: int) -> None:
    with Play(seed) as play:
        storm(play, seed)
        draw = random.Random(seed)
        for number in range(12):
            Actor(play, f"actor-{number}").visit(draw.uniform(0, 55), 2.0, timeout=20)
        play.run(until=70)
        Actor(play, "last").visit(0, 1.0)
        play.run(until=110)
        assert play.said()[-1] == ("last", "leaves")
        assert play.fences() == sorted(set(play.fences()))
        holder = ""
        for _, who, what, _ in play.seen:
            if what == "holds":
                assert not holder, (holder, who)
                holder = who
            elif what in ("lost", "leaves") and who == holder:
                holder = ""
        play.agree()


@pytest.mark.parametrize("climate", DURABLE)
def test_every_promise_holds_in_every_climate(climate: str) -> None:
    grants = sum(examine("zookeeper", climate, seed).grants for seed in range(SEEDS))
    few = SEEDS if climate == "slow" else 3 * SEEDS  # a write takes four ways, and is given up
    assert grants >= few, "a run in which nothing happens shows nothing"
