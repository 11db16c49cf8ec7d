"""Redlock: a lock over several independent Redis servers, held by whoever has a majority of them.

The recipe is the published one: the key is set with ``NX PX`` at all nodes at once, it is ours when
a majority of the configured nodes says so, and what is left of the ttl is counted from before the
first byte was sent, less an allowance for clocks that drift. A node that is down or hangs costs
nothing but itself. The lock is released at all nodes, those that never answered included. So other
Redlock clients on the same keys are kept out, and keep us out.

What is added is a fence. The client proposes one along with the request, from the nodes' clocks; a
node that grants the key takes it only if it is above all that the node has heard of. What a
majority has taken is handed out. If some have seen a higher one, one above all of them is written
to a majority in a second round, as long as the key is still ours there, and only then the lease is
handed out. Any later majority shares a node with that one, and at that node one tenure had ended
before the other began: so the later one has seen the fence of the earlier.

Nodes end leases by their own wall clocks, and one that restarts without its data votes twice: so
this is an engine for efficiency, and the fence is what protects the resource.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any, ClassVar

from ... import observe
from ...engine import Address, Engine
from ...model import (
    Busy,
    Finding,
    Gone,
    Grant,
    Holding,
    Request,
    State,
    Traits,
    granted,
    renewed,
)
from ...world import Signal, World
from . import quorum
from .doubts import Doubts
from .keys import keys_of
from .phrases import ms
from .quorum import Ballot, Election, Everyone
from .redlock_answers import (
    anything,
    gone,
    is_definite,
    is_grant,
    is_one,
    is_refusal,
    too_few,
)
from .redlock_fences import Fences
from .redlock_look import Look
from .redlock_pace import Pace
from .redlock_settings import CONNECT_S, OPTIONS, read
from .round import Ask, Round
from .rounds import make_rounds
from .scripts import script
from .wire import packed

RENEWALS_PER_TTL = 6  # the longest that one renewal may take: it cannot be hurried by asking again
OTHERS_S = 0.1  # for a minority to be there too, when a client begins
LIFTS_MAX = 3
ROUNDS_PER_TTL = 3  # the longest that one round may take

ADVICE = (
    "Redlock counts on the clocks of its nodes and on nodes that do not forget. Check the fence at "
    "the resource, or use postgresql, etcd or zookeeper"
)


class RedlockEngine(Engine):
    """``redlock://host:port,host:port,host:port``: an odd number of independent servers."""

    schemes = ("redlock",)
    options: ClassVar = OPTIONS
    drivers = ("redis", "hiredis")
    traits = Traits(
        safety="efficiency",
        scope="network",
        fence=True,
        fifo=False,
        push=False,
        durable=False,
        portable=True,
        advice=ADVICE,
    )

    def __init__(self, world: World, address: Address) -> None:
        super().__init__(world, address)
        self._settings, fenced = read(address)
        self.traits = self.traits._replace(fence=fenced)
        self._nodes = len(self._settings.nodes)
        self._need = quorum.majority(self._nodes)
        self._main = make_rounds(world, self._settings, "redlock_acquire")
        self._keeper = make_rounds(world, self._settings, "renew")
        self._acquire, self._release = script("redlock_acquire"), script("redlock_release")
        self._keys_of = lru_cache(maxsize=300)(partial(keys_of, prefix=self._settings.prefix))
        self._fences = Fences()
        self._pace = Pace(world.random, self._need)
        self._look = Look(self._main, self._settings, self._until)
        self._doubts = Doubts()

    async def open(self) -> None:
        if self._nodes < 3:
            observe.warn(
                f"{self.address.public} names {self._nodes} node(s): a Redlock that outlives the "
                "loss of one needs three"
            )
        ballot = Ballot(self._nodes, anything)
        now = self.world.now()
        round = await self._main.ask(packed("TIME"), ballot.cast, now + CONNECT_S)
        if not ballot.carried:
            raise too_few(round, self._need, "nothing happened", happened=False)
        self._fences.begin(round, now)
        # The others get as long again: whoever locks at once should do so at all nodes.
        took = max(self.world.now() - now, OTHERS_S)
        everyone = Everyone(self._nodes)
        await self._main.ask(packed("PING"), everyone.cast, self.world.now() + took)
        # The keeper's connections are made beside: its first renewal should not have to wait.
        await self._keeper.ask(packed("PING"), anything, self.world.now())

    async def close(self) -> None:
        await self._main.close()
        await self._keeper.close()

    def close_nowait(self) -> None:
        self._main.close_nowait()
        self._keeper.close_nowait()

    def _until(self, ttl: float = 3600.0) -> float:
        return self.world.now() + min(self._settings.request_timeout, ttl / ROUNDS_PER_TTL)

    # Acquiring

    async def acquire(self, request: Request) -> Grant | Busy:
        name, owner, ttl, meta = request[:4]
        keys = self._keys_of(name)[:2]
        asked_at = self.world.now()
        fence = self._fences.propose(asked_at) if self.traits.fence else 0
        words = (owner, ms(ttl), str(fence), meta)
        election = Election(self._nodes)
        round = await self._main.ask(
            Ask(self._acquire, keys, words), election.cast, self._until(ttl)
        )
        if owner in self._doubts:
            election = self._recount(round, owner)
        if election.fence is not None:
            self._doubts.forget(owner)
            self._fences.learn(round, asked_at)
            return granted(name, owner, election.fence, ttl, asked_at)
        if election.grants >= self._need:
            return await self._lift(request, keys, round, asked_at)
        if not election.impossible:
            raise too_few(round, self._need, f"{name!r} may be held at some nodes", happened=True)
        await self._undo(request, keys, round)
        if election.answered < self._need:
            raise too_few(round, self._need, f"{name!r} is not held", happened=False)
        return self._pace.busy(owner, election.grants, round)

    def _recount(self, round: Round, owner: str) -> Election:
        """Count only what can be believed: not where an earlier attempt may yet be undone."""
        doubtful = self._doubts.places(owner)
        election = Election(self._nodes)
        for place, answer in enumerate(round.answers):
            election.cast(None if place in doubtful else answer)
        return election

    async def _lift(
        self, request: Request, keys: tuple[str, ...], votes: Round, asked_at: float
    ) -> Grant | Busy:
        """Write a fence above all that a majority has seen to a majority, and hand it out."""
        name, owner, ttl, meta = request[:4]
        seen = [int(answer[1]) for answer in votes.answers if is_grant(answer)]
        doubtful = self._doubts.places(owner)
        round, lifts = votes, 0
        while seen and lifts < LIFTS_MAX:
            fence = self._fences.above(seen)
            ask = Ask(script("redlock_fence"), keys, (owner, ms(ttl), str(fence), meta))
            round = await self._main.ask(ask, Ballot(self._nodes, is_one).cast, self._until(ttl))
            # Only where the key was set in this very attempt does it last for the whole ttl.
            taken = sum(
                is_one(answer) and is_grant(votes.answers[place]) and place not in doubtful
                for place, answer in enumerate(round.answers)
            )
            if taken >= self._need:
                self._doubts.forget(owner)
                return granted(name, owner, fence, ttl, asked_at)
            seen = [int(answer) for answer in round.answers if isinstance(answer, bytes)]
            lifts += 1
        if not is_definite(round):
            raise too_few(round, self._need, f"{name!r} may be held at some nodes", happened=True)
        await self._undo(request, keys, round)
        return self._pace.split()

    async def _undo(self, request: Request, keys: tuple[str, ...], round: Round) -> None:
        """Give back what an attempt got, or may yet get, and wait for nobody."""
        places = {p for p, answer in enumerate(round.answers) if not is_refusal(answer)}
        if places:
            now = self.world.now()
            ask = Ask(self._release, keys[:1], (request.owner,))
            undo = await self._main.ask(ask, anything, now, now + request.ttl, places)
            self._doubts.add(request.owner, undo, now)

    async def watch(self, request: Request, signal: Signal) -> None:
        self._pace.begin(request.owner)

    async def unwatch(self, request: Request) -> None:
        self._pace.end(request.owner)

    # Keeping and giving back

    async def renew(self, grants: Sequence[Grant]) -> list[Grant | Gone]:
        now = self.world.now()
        keys = [key for g in grants for key in keys_of(g.name, self._settings.prefix)[:2]]
        words = [word for grant in grants for word in (ms(grant.ttl), grant.owner)]
        ballot = quorum.Renewal(self._nodes, len(grants))
        ask = Ask(script("renew"), tuple(keys), tuple(words))
        until = now + min(grant.ttl for grant in grants) / RENEWALS_PER_TTL
        round = await self._keeper.ask(ask, ballot.cast, until)
        if ballot.answers < self._need:
            raise too_few(round, self._need, "the leases may be renewed at some", happened=True)
        fresh = renewed(grants, now)
        answers: list[Grant | Gone] = []
        for number, old in enumerate(grants):
            carried = ballot.carried(number)
            if carried is False:
                answers.append(gone(ballot.reasons.get(number, "")))
            else:  # where neither is known the old end stands, and the keeper asks again
                answers.append(fresh[number] if carried else old)
        if all(answer is old for answer, old in zip(answers, grants, strict=True)):
            raise too_few(round, self._need, "the leases may be renewed at some", happened=True)
        return answers

    async def release(self, grant: Grant) -> bool:
        ballot = Ballot(self._nodes, is_one)
        round = await self._leave(grant.name, grant.owner, grant.ttl, ballot.cast)
        if ballot.carried is None:
            raise too_few(round, self._need, f"{grant.name!r} may be free", happened=True)
        return ballot.carried

    async def withdraw(self, request: Request) -> None:
        ballot = Ballot(self._nodes, anything)
        round = await self._leave(request.name, request.owner, request.ttl, ballot.cast)
        self._doubts.add(request.owner, round, self.world.now())
        if not ballot.carried:
            raise too_few(round, self._need, f"{request.name!r} may be held at some", happened=True)

    async def _leave(self, name: str, owner: str, ttl: float, cast: Callable[[Any], bool]) -> Round:
        keys = self._keys_of(name)[:1]
        kept_until = self.world.now() + ttl
        return await self._main.ask(
            Ask(self._release, keys, (owner,)), cast, self._until(ttl), kept_until
        )

    # Looking

    async def inspect(self, name: str) -> State:
        return State(name, tuple(await self._look.holdings(name)))

    async def revoke(self, name: str, reason: str) -> bool:
        return await self._look.revoke(name, reason)

    async def scan(self, prefix: str) -> list[Holding]:
        return await self._look.scan(prefix)

    async def diagnose(self) -> list[Finding]:
        from .redlock_doctor import diagnose

        return await diagnose(self._main, self._settings, self._until, self.world.wall_us)
