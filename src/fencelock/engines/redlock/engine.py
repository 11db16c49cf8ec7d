"""Redlock: a lock over several independent Redis servers, held by the owner of a majority of them.

The recipe is the published one: the key is set with ``NX PX`` at all nodes at once, it is ours when
a majority of the configured nodes has granted it, and what is left of the ttl is counted from
before the first byte was sent, less an allowance for clocks that drift. A node that is down or
hangs costs nothing but its own vote. The lock is released at all nodes, including those that never
answered. So other Redlock clients on the same keys are kept out, and keep us out.

What is added is a fence. The client proposes one along with the request, from the nodes' clocks; a
node that grants the key takes the fence only if it is above all that the node has seen. A fence
that a majority has taken is handed out. If some have seen a higher one, one above all of them is
written to a majority in a second round trip, as long as the key is still ours there, and only then
the lease is handed out. Any later majority shares a node with that one, and at that node one tenure
had ended before the other began: so the later one has seen the fence of the earlier.

Nodes end leases by their own wall clocks, and one that restarts without its data votes twice: so
this is an engine for efficiency, and the fence is what protects the resource.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any, ClassVar

from ... import observe
from ...engine import Address, Engine
from ...model import Busy, Finding, Gone, Grant, Holding, Request, State, Traits, granted, renewed
from ...world import Signal, World
from ..redis import scripts
from ..redis.keys import keys_of
from ..redis.prepacked import ms
from ..redis.wire.connection import ScriptCall, packed
from . import FANOUTS, quorum
from .backoff import Backoff
from .fanout import Broadcast
from .fences import Fences
from .inspect import Inspector
from .pending_undos import PendingUndos
from .quorum import Ballot, Election, Everyone
from .scripts import script
from .settings import CONNECT_S, OPTIONS, read
from .votes import anything, gone, is_definite, is_grant, is_one, is_refusal, too_few

RENEWALS_PER_TTL = 6  # one renewal may take a ttl divided by this: a retry would not be faster
OTHERS_S = 0.1  # for a minority to connect too, when a client begins
FENCE_TRIES_MAX = 3
BROADCASTS_PER_TTL = 3  # one broadcast may take a ttl divided by this

ADVICE = (
    "Redlock counts on the clocks of its nodes and on nodes that do not forget. Check the fence at "
    "the resource, or use postgresql, etcd or zookeeper"
)


class RedlockEngine(Engine):
    """``redlock://host:port,host:port,host:port``: an odd number of independent servers."""

    schemes = ("redlock",)
    options: ClassVar = OPTIONS
    drivers = ("redis", "hiredis")
    traits = Traits("efficiency", "network", fence=True, portable=True, advice=ADVICE)

    def __init__(self, world: World, address: Address) -> None:
        super().__init__(world, address)
        self._settings, fenced = read(address)
        self.traits = self.traits._replace(fence=fenced)
        self._nodes = len(self._settings.nodes)
        self._need = quorum.majority(self._nodes)
        self._acquire, self._release = script("acquire"), script("release")
        self._renew = scripts.script("renew")
        fan_out = FANOUTS[world.flavor]
        self._main = fan_out(world, self._settings, [self._acquire])
        self._keeper = fan_out(world, self._settings, [self._renew])
        self._keys_of = lru_cache(maxsize=300)(partial(keys_of, prefix=self._settings.prefix))
        self._fences = Fences()
        self._backoff = Backoff(world.random, self._need)
        self._inspector = Inspector(self._main, self._settings, self._until)
        self._undos = PendingUndos()

    async def open(self) -> None:
        if self._nodes < 3:
            observe.warn(
                f"{self.address.public} names {self._nodes} node(s): a Redlock that outlives the "
                "loss of one needs three"
            )
        ballot = Ballot(self._nodes, anything)
        now = self.world.now()
        sent = await self._main.send(packed("TIME"), ballot.count_vote, now + CONNECT_S)
        if not ballot.outcome:
            raise too_few(sent, self._need, "nothing happened", happened=False)
        self._fences.begin(sent, now)
        # The others get as long again: a client that locks at once should do so at all nodes.
        took = max(self.world.now() - now, OTHERS_S)
        everyone = Everyone(self._nodes)
        await self._main.send(packed("PING"), everyone.count_vote, self.world.now() + took)
        # The keeper's connections are made in the background: its first renewal should not wait.
        await self._keeper.send(packed("PING"), anything, self.world.now())

    async def close(self) -> None:
        await self._main.close()
        await self._keeper.close()

    def close_nowait(self) -> None:
        self._main.close_nowait()
        self._keeper.close_nowait()

    def _until(self, ttl: float = 3600.0) -> float:
        return self.world.now() + min(self._settings.request_timeout, ttl / BROADCASTS_PER_TTL)

    # Acquire

    async def acquire(self, request: Request) -> Grant | Busy:
        name, owner, ttl, meta = request[:4]
        keys = self._keys_of(name)[:2]
        asked_at = self.world.now()
        fence = self._fences.propose(asked_at) if self.traits.fence else 0
        words = (owner, ms(ttl), str(fence), meta)
        election = Election(self._nodes)
        sent = await self._main.send(
            ScriptCall(self._acquire, keys, words), election.count_vote, self._until(ttl)
        )
        if owner in self._undos:
            election = self._recount(sent, owner)
        if election.fence is not None:
            self._undos.forget(owner)
            self._fences.learn(sent, asked_at)
            return granted(name, owner, election.fence, ttl, asked_at)
        if election.grants >= self._need:
            return await self._raise_fence(request, keys, sent, asked_at)
        if not election.impossible:
            raise too_few(sent, self._need, f"{name!r} may be held at some nodes", happened=True)
        await self._undo(request, keys, sent)
        if election.answered < self._need:
            raise too_few(sent, self._need, f"{name!r} is not held", happened=False)
        return self._backoff.busy(owner, election.grants, sent)

    def _recount(self, sent: Broadcast, owner: str) -> Election:
        """Count again without the nodes at which an earlier attempt may yet be undone."""
        doubtful = self._undos.nodes(owner)
        election = Election(self._nodes)
        for index, answer in enumerate(sent.answers):
            election.count_vote(None if index in doubtful else answer)
        return election

    async def _raise_fence(
        self, request: Request, keys: tuple[str, ...], votes: Broadcast, asked_at: float
    ) -> Grant | Busy:
        """Write a fence that is above all that the granting nodes have seen to a majority, and
        return the grant with it."""
        name, owner, ttl, meta = request[:4]
        seen = [int(answer[1]) for answer in votes.answers if is_grant(answer)]
        doubtful = self._undos.nodes(owner)
        sent, tries = votes, 0
        while seen and tries < FENCE_TRIES_MAX:
            fence = self._fences.above(seen)
            call = ScriptCall(script("fence"), keys, (owner, ms(ttl), str(fence), meta))
            sent = await self._main.send(
                call, Ballot(self._nodes, is_one).count_vote, self._until(ttl)
            )
            # Only where the key was set in this very attempt does it last for the whole ttl.
            taken = sum(
                is_one(answer) and is_grant(votes.answers[index]) and index not in doubtful
                for index, answer in enumerate(sent.answers)
            )
            if taken >= self._need:
                self._undos.forget(owner)
                return granted(name, owner, fence, ttl, asked_at)
            seen = [int(answer) for answer in sent.answers if isinstance(answer, bytes)]
            tries += 1
        if not is_definite(sent):
            raise too_few(sent, self._need, f"{name!r} may be held at some nodes", happened=True)
        await self._undo(request, keys, sent)
        return self._backoff.split()

    async def _undo(self, request: Request, keys: tuple[str, ...], sent: Broadcast) -> None:
        """Give back what an attempt got, or may yet get, without waiting for any node."""
        nodes = {i for i, answer in enumerate(sent.answers) if not is_refusal(answer)}
        if nodes:
            now = self.world.now()
            call = ScriptCall(self._release, keys[:1], (request.owner,))
            undo = await self._main.send(call, anything, now, now + request.ttl, nodes)
            self._undos.add(request.owner, undo, now)

    async def watch(self, request: Request, signal: Signal) -> None:
        self._backoff.begin(request.owner)

    async def unwatch(self, request: Request) -> None:
        self._backoff.end(request.owner)

    # Renew, release

    async def renew(self, grants: Sequence[Grant]) -> list[Grant | Gone]:
        now = self.world.now()
        keys = [key for g in grants for key in keys_of(g.name, self._settings.prefix)[:2]]
        words = [word for grant in grants for word in (ms(grant.ttl), grant.owner)]
        ballot = quorum.Renewal(self._nodes, len(grants))
        call = ScriptCall(self._renew, keys, words)
        until = now + min(grant.ttl for grant in grants) / RENEWALS_PER_TTL
        sent = await self._keeper.send(call, ballot.count_vote, until)
        if ballot.answers < self._need:
            raise too_few(sent, self._need, "the leases may be renewed at some", happened=True)
        fresh = renewed(grants, now)
        answers: list[Grant | Gone] = []
        for number, old in enumerate(grants):
            outcome = ballot.outcome(number)
            if outcome is False:
                answers.append(gone(ballot.reasons.get(number, "")))
            else:  # where neither is known the old end stands, and the keeper retries
                answers.append(fresh[number] if outcome else old)
        if all(answer is old for answer, old in zip(answers, grants, strict=True)):
            raise too_few(sent, self._need, "the leases may be renewed at some", happened=True)
        return answers

    async def release(self, grant: Grant) -> bool:
        ballot = Ballot(self._nodes, is_one)
        sent = await self._leave(grant.name, grant.owner, grant.ttl, ballot.count_vote)
        if ballot.outcome is None:
            raise too_few(sent, self._need, f"{grant.name!r} may be free", happened=True)
        return ballot.outcome

    async def withdraw(self, request: Request) -> None:
        ballot = Ballot(self._nodes, anything)
        sent = await self._leave(request.name, request.owner, request.ttl, ballot.count_vote)
        self._undos.add(request.owner, sent, self.world.now())
        if not ballot.outcome:
            raise too_few(sent, self._need, f"{request.name!r} may be held at some", happened=True)

    async def _leave(
        self, name: str, owner: str, ttl: float, count_vote: Callable[[Any], bool]
    ) -> Broadcast:
        keys = self._keys_of(name)[:1]
        kept_until = self.world.now() + ttl
        return await self._main.send(
            ScriptCall(self._release, keys, (owner,)), count_vote, self._until(ttl), kept_until
        )

    # Inspect

    async def inspect(self, name: str) -> State:
        return State(name, tuple(await self._inspector.holdings(name)))

    async def revoke(self, name: str, reason: str) -> bool:
        return await self._inspector.revoke(name, reason)

    async def scan(self, prefix: str) -> list[Holding]:
        return await self._inspector.scan(prefix)

    async def diagnose(self) -> list[Finding]:
        from .doctor import diagnose

        return await diagnose(self._main, self._settings, self._until, self.world.wall_us)
