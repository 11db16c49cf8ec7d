"""Redlock: a lock over several independent Redis servers, held by whoever has a majority of them.

The recipe is the published one: the key is set with ``NX PX`` at all nodes at once, it is ours when
a majority of the configured nodes says so, and what is left of the ttl is counted from before the
first byte was sent, less an allowance for clocks that drift. A node that is down or hangs costs
nothing but itself. The lock is released at all nodes, those that never answered included. So other
Redlock clients on the same keys are kept out, and keep us out.

What is added is a fence. Each node that grants the key tells the highest fence it has heard of; one
above all of them is written back to a majority, as long as the key is still ours there, and only
then the lease is handed out. Any later majority shares a node with that one, and at that node one
tenure had ended before the other began: so the later one has seen the fence of the earlier.

Nodes end leases by their own wall clocks, and one that restarts without its data votes twice: so
this is an engine for efficiency, and the fence is what protects the resource.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

from ... import observe
from ...engine import Address, Engine
from ...errors import EngineError, Misconfigured, OutcomeUnknown, Unavailable
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
    next_fence,
    renewed,
)
from ...world import Signal, World, sleep
from . import quorum
from .keys import keys_of, name_of, pattern
from .quorum import Ballot, Refusal, Sight, Vote
from .redlock_settings import OPTIONS, read
from .round import Ask, Round, make_rounds
from .scripts import script
from .wire import packed

LOOK_MIN_S, LOOK_MAX_S = 0.02, 0.25  # between two looks of a waiter, longer the longer it waits
SPLIT_S = 0.03  # before trying again when several tried at once and nobody has a majority
FENCE_TRIES = 3
ROUNDS_PER_TTL = 3  # the longest that one round may take
SETTLING_S = 0.005  # between the two rounds of an acquisition that others see half done
DOUBTS_MAX = 1000
SCAN_COUNT = 1000

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
        advice=ADVICE,
    )

    def __init__(self, world: World, address: Address) -> None:
        super().__init__(world, address)
        self._settings, fenced = read(address)
        self.traits = self.traits._replace(fence=fenced)
        self._nodes = len(self._settings.nodes)
        self._need = quorum.majority(self._nodes)
        self._main = make_rounds(world, self._settings)
        self._keeper = make_rounds(world, self._settings)
        self._acquire, self._release = script("redlock_acquire"), script("redlock_release")
        self._fence = script("redlock_fence")
        self._looks: dict[str, int] = {}
        self._doubts: dict[str, list[Round]] = {}
        """What undid an attempt of an owner that may try again, and was not answered everywhere."""

    async def open(self) -> None:
        if self._nodes < 3:
            observe.warn(
                f"{self.address.public} names {self._nodes} node(s): a Redlock that outlives the "
                "loss of one needs three"
            )
        ballot = Ballot(self._nodes, _any)
        round = await self._main.ask(packed("PING"), ballot.cast, self._until())
        if not ballot.carried:
            raise self._too_few(round, "nothing happened", happened=False)

    async def close(self) -> None:
        await self._main.close()
        await self._keeper.close()

    def abandon(self) -> None:
        self._main.abandon()
        self._keeper.abandon()

    def _until(self, ttl: float = 3600.0) -> float:
        return self.world.now() + min(self._settings.patience, ttl / ROUNDS_PER_TTL)

    # Acquiring

    async def acquire(self, request: Request) -> Grant | Busy:
        name, owner, ttl = request[:3]
        keys = keys_of(name, self._settings.prefix)[:2]
        ballot = Ballot(self._nodes, _is_grant)
        asked_at = self.world.now()
        ask = Ask(self._acquire, keys, (owner, _ms(ttl)))
        round = await self._main.ask(ask, ballot.cast, self._until(ttl))
        votes = self._votes(round, owner)
        if len(votes) >= self._need:
            self._doubts.pop(owner, None)
            if not self.traits.fence:
                return granted(name, owner, 0, ttl, asked_at)
            return await self._fenced(request, keys, votes, asked_at)
        refusals = [_refusal(answer) for answer in round.answers if _is_refusal(answer)]
        if len(votes) + len(refusals) >= self._need:
            await self._undo(request, keys, round)
            return self._busy(request, len(votes), refusals)
        if _is_definite(round):
            await self._undo(request, keys, round)
            raise self._too_few(round, f"{name!r} is not held", happened=False)
        raise self._too_few(round, f"{name!r} may be held at some nodes", happened=True)

    def _votes(self, round: Round, owner: str) -> list[Vote]:
        """The grants that can be believed: not where an earlier attempt may yet be undone."""
        doubtful = {
            place
            for undo in self._doubts.get(owner, ())
            for place, answer in enumerate(undo.answers)
            if answer is None or isinstance(answer, OutcomeUnknown)
        }
        return [
            Vote(int(answer[1]), answer[2] == 1, int(answer[3]))
            for place, answer in enumerate(round.answers)
            if _is_grant(answer) and place not in doubtful
        ]

    async def _fenced(
        self, request: Request, keys: tuple[str, ...], votes: Sequence[Vote], asked_at: float
    ) -> Grant | Busy:
        """Write a fence above all that a majority has seen to a majority, and hand it out."""
        name, owner, ttl, meta = request[:4]
        fence = quorum.draw(votes)
        for _ in range(FENCE_TRIES):
            ballot = Ballot(self._nodes, _is_one)
            ask = Ask(self._fence, keys, (owner, fence, _ms(ttl), meta))
            round = await self._main.ask(ask, ballot.cast, self._until(ttl))
            if ballot.carried:
                return granted(name, owner, fence, ttl, asked_at)
            ahead = [int(answer) for answer in round.answers if isinstance(answer, bytes)]
            if not ahead:
                break
            fence = next_fence(max(fence, *ahead), 0)
        if ballot.carried is None and not _is_definite(round):
            raise self._too_few(round, f"{name!r} may be held at some nodes", happened=True)
        await self._undo(request, keys, round)
        return Busy(SPLIT_S * self.world.random())

    def _busy(self, request: Request, votes: int, refusals: Sequence[Refusal]) -> Busy:
        """When to look again: soon if several tried at once, else ever more rarely."""
        chance = self.world.random()
        silent = self._nodes - votes - len(refusals)
        if not quorum.is_held(refusals, silent, self._need):
            return Busy(SPLIT_S * chance)
        looks = self._looks.get(request.owner, 0)
        if looks:
            self._looks[request.owner] = looks + 1
        look_in = min(LOOK_MIN_S * 1.5 ** min(looks, 20), LOOK_MAX_S) * (0.5 + chance)
        free_in = quorum.free_in(refusals, self._need - votes) + SPLIT_S * chance
        return Busy(min(look_in, free_in), holder=max(refusal.meta for refusal in refusals))

    async def _undo(self, request: Request, keys: tuple[str, ...], round: Round) -> None:
        """Give back what an attempt got, or may yet get, and wait for nobody."""
        places = {p for p, answer in enumerate(round.answers) if not _is_refusal(answer)}
        if places:
            until = self.world.now()
            ask = Ask(self._release, keys[:1], (request.owner,))
            undo = await self._main.ask(ask, _any, until, until + request.ttl, places)
            self._doubt(request.owner, undo)

    def _doubt(self, owner: str, undo: Round) -> None:
        """Until it is answered, a later grant for the same owner may be undone by it."""
        old = [one for one in self._doubts.pop(owner, ()) if not _is_answered(one)]
        if old or not _is_answered(undo):
            self._doubts[owner] = [*old, undo]
        while len(self._doubts) > DOUBTS_MAX:
            del self._doubts[next(iter(self._doubts))]

    async def watch(self, request: Request, signal: Signal) -> None:
        self._looks[request.owner] = 1

    async def unwatch(self, request: Request) -> None:
        self._looks.pop(request.owner, None)

    # Keeping and giving back

    async def renew(self, grants: Sequence[Grant]) -> list[Grant | Gone]:
        now = self.world.now()
        keys = [key for g in grants for key in keys_of(g.name, self._settings.prefix)[:2]]
        words = [word for grant in grants for word in (_ms(grant.ttl), grant.owner)]
        ballot = quorum.Renewal(self._nodes, len(grants))
        ask = Ask(script("renew"), tuple(keys), tuple(words))
        until = self._until(min(grant.ttl for grant in grants) / 2)
        round = await self._keeper.ask(ask, ballot.cast, until)
        if ballot.answers < self._need:
            raise self._too_few(round, "the leases may be renewed at some", happened=True)
        fresh = renewed(grants, now)
        answers: list[Grant | Gone] = []
        for number, old in enumerate(grants):
            carried = ballot.carried(number)
            if carried is False:
                answers.append(_gone(ballot.reasons.get(number, "")))
            else:  # where neither is known the old end stands, and the keeper asks again
                answers.append(fresh[number] if carried else old)
        if all(answer is old for answer, old in zip(answers, grants, strict=True)):
            raise self._too_few(round, "the leases may be renewed at some", happened=True)
        return answers

    async def release(self, grant: Grant) -> bool:
        ballot = Ballot(self._nodes, _is_one)
        round = await self._leave(grant.name, grant.owner, grant.ttl, ballot.cast)
        if ballot.carried is None:
            raise self._too_few(round, f"{grant.name!r} may be free", happened=True)
        return ballot.carried

    async def withdraw(self, request: Request) -> None:
        ballot = Ballot(self._nodes, _any)
        round = await self._leave(request.name, request.owner, request.ttl, ballot.cast)
        self._doubt(request.owner, round)
        if not ballot.carried:
            raise self._too_few(round, f"{request.name!r} may be held at some", happened=True)

    async def _leave(self, name: str, owner: str, ttl: float, cast: Callable[[Any], bool]) -> Round:
        keys = keys_of(name, self._settings.prefix)[:1]
        kept_until = self.world.now() + ttl
        return await self._main.ask(
            Ask(self._release, keys, (owner,)), cast, self._until(ttl), kept_until
        )

    # Looking

    async def inspect(self, name: str) -> State:
        return State(name, tuple(await self._holdings(name)))

    async def _holdings(self, name: str) -> list[Holding]:
        for pause in (SETTLING_S, 2 * SETTLING_S, 0.0):
            holder = await self._holder(name)
            if holder is None:
                return []
            holding = _holding(name, holder)
            if holding is not None or not pause:
                break
            await sleep(self.world, pause)  # it may be about to write its fence
        foreign = {"program": "not fencelock"}
        left = holder.remaining
        return [holding or Holding(name, 0, left, 0.0, left, foreign)]

    async def _holder(self, name: str) -> quorum.Holder | None:
        keys = keys_of(name, self._settings.prefix)[:2]
        sights: list[Sight] = []
        asked = 0

        def cast(answer: Any) -> bool:
            nonlocal asked
            asked += 1
            if not isinstance(answer, Exception):
                sights.append(_sight(answer))
            silent = self._nodes - asked
            found = quorum.holder_of(sights, 0, self._need)
            return (
                found is not None
                or quorum.holder_of(sights, silent, self._need) is None
                and (len(sights) >= self._need)
            )

        round = await self._main.ask(Ask(script("redlock_inspect"), keys, ()), cast, self._until())
        if len(sights) < self._need:
            raise self._too_few(round, "who holds it is unknown", happened=False)
        return quorum.holder_of(sights, self._nodes - len(sights), self._need)

    async def revoke(self, name: str, reason: str) -> bool:
        holder = await self._holder(name)
        if holder is None:
            return False
        keys = keys_of(name, self._settings.prefix)[:2]
        ballot = Ballot(self._nodes, _is_one)
        ask = Ask(script("redlock_revoke"), keys, (holder.value, reason))
        round = await self._main.ask(ask, ballot.cast, self._until())
        if ballot.carried is None:
            raise self._too_few(round, f"{name!r} may be revoked", happened=True)
        return ballot.carried

    async def scan(self, prefix: str) -> list[Holding]:
        names: set[str] = set()
        listed = 0
        for place in range(self._nodes):
            found = await self._names(place, prefix)
            names.update(found or ())
            listed += found is not None
        if listed < self._need:
            raise Unavailable(
                f"{listed} of {self._nodes} nodes listed their locks and {self._need} are needed; "
                "nothing happened"
            )
        return [holding for name in sorted(names) for holding in await self._holdings(name)]

    async def _names(self, place: int, prefix: str) -> set[str] | None:
        """The names of locks that one node knows; None when it does not answer."""
        own, match = self._settings.prefix, pattern(self._settings.prefix + prefix)
        names: set[str] = set()
        cursor = b"0"
        while True:
            command = packed("SCAN", cursor, "MATCH", match, "COUNT", SCAN_COUNT)
            round = await self._main.ask(command, _any, self._until(), places={place})
            answer = round.answers[place]
            if not isinstance(answer, list):
                return None
            cursor, records = answer
            found = (name_of(record.decode(), own) for record in records)
            names.update(name for name in found if name and name.startswith(prefix))
            if cursor == b"0":
                return names

    async def examine(self) -> list[Finding]:
        from .redlock_examine import examine

        return await examine(self._main, self._settings, self._until, self.world.wall_us)

    def _too_few(self, round: Round, state: str, happened: bool) -> Exception:
        """The error for a round that too few nodes have answered."""
        errors = [answer for answer in round.answers if isinstance(answer, Exception)]
        answered = sum(a is not None for a in round.answers) - len(errors)
        for error in errors:
            if isinstance(error, Misconfigured) and not happened:
                return error
        why = f" ({errors[0]})" if errors else ""
        text = (
            f"{answered} of {self._nodes} nodes answered and {self._need} are needed{why}; {state}. "
            "See that the nodes run and can be reached"
        )
        return OutcomeUnknown(text) if happened else Unavailable(text)


def _ms(seconds: float) -> int:
    return max(1, round(seconds * 1000))


def _any(answer: Any) -> bool:
    return True


def _is_one(answer: Any) -> bool:
    return bool(answer == 1)


def _is_grant(answer: Any) -> bool:
    return isinstance(answer, list) and answer[0] == 1


def _is_refusal(answer: Any) -> bool:
    return isinstance(answer, list) and answer[0] == 0


def _is_answered(round: Round) -> bool:
    return not any(a is None or isinstance(a, OutcomeUnknown) for a in round.answers)


def _is_definite(round: Round) -> bool:
    """Whether each node has answered, or has certainly not been asked."""
    return all(
        answer is not None and not isinstance(answer, OutcomeUnknown) for answer in round.answers
    )


def _refusal(answer: Sequence[Any]) -> Refusal:
    _, left_ms, holder, meta = answer
    return Refusal(left_ms / 1000 if left_ms >= 0 else float("inf"), holder, meta.decode())


def _sight(answer: Sequence[Any]) -> Sight:
    holder, left_ms, record, clock_ms = answer
    text = (record or b"").decode()
    return Sight(holder or b"", max(left_ms, 0) / 1000, text, int(clock_ms))


def _gone(reason: str) -> Gone:
    if reason:
        return Gone("revoked", reason)
    return Gone("expired", "its key is gone from a majority of the nodes")


def _holding(name: str, holder: quorum.Holder) -> Holding | None:
    """What the holder wrote about itself; None where it wrote nothing."""
    records = (_record(sight, holder.value.decode("utf-8", "replace")) for sight in holder.sights)
    known = [record for record in records if record is not None]
    if not known:
        return None
    fence, ttl, age, meta = max(known)
    return Holding(name, fence, ttl, age, holder.remaining, json.loads(meta))


def _record(sight: Sight, owner: str) -> tuple[int, float, float, str] | None:
    fields = sight.record.split(" ", 5)
    if len(fields) < 6 or fields[1] != owner:
        return None
    fence, _, _, ttl_ms, since, meta = fields
    return int(fence), int(ttl_ms) / 1000, max(0, sight.clock_ms - int(since)) / 1000, meta
