"""Keeping what is held: one keep-alive for many keys, and a look that each is still there.

A renewal never takes a lock again. A key that is gone, or that has another create revision, is a
lost lease; a holder that was revoked finds the reason under a key of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...model import Gone, Grant, granted
from ...wires.grpc.call import RpcError
from ...world import World
from . import replies, requests
from .link import LEASE_GRANT, RANGE, TXN, LeaseGone, Link
from .listing import Listing
from .naming import Naming, owner_of
from .session import Sessions
from .standing import Standing
from .tenancy import Session

CHECKS_MAX = 100  # comparisons in one transaction: etcd takes 128 by default
TOLD_MIN_S, TOLD_MAX_S = 60, 86_400  # how long the reason of a revocation is kept


class Renewing:
    """Renews, finds and takes away what is held."""

    def __init__(
        self, world: World, link: Link, sessions: Sessions, standing: Standing, naming: Naming
    ) -> None:
        self._world = world
        self._link = link
        self._sessions = sessions
        self._standing = standing
        self._naming = naming

    async def renew(self, grants: Sequence[Grant]) -> list[Grant | Gone]:
        answers: dict[str, Grant | Gone] = {}
        together: dict[Session, list[Grant]] = {}
        for grant in grants:
            place = self._standing.places.get(grant.owner)
            if place is None or grant.ttl > place.session.ttl:
                answers[grant.owner] = await self._move(grant)
            else:
                together.setdefault(place.session, []).append(grant)
        for session, those in together.items():
            answers.update(await self._renew_together(session, those))
        return [answers[grant.owner] for grant in grants]

    async def _renew_together(
        self, session: Session, grants: Sequence[Grant]
    ) -> dict[str, Grant | Gone]:
        asked_at = self._world.now()
        there: set[str] = set()
        try:
            if session.ended:
                raise LeaseGone
            for start in range(0, len(grants), CHECKS_MAX):
                there |= await self._check(session, grants[start : start + CHECKS_MAX], start == 0)
        except LeaseGone:
            return {grant.owner: await self._gone(grant, session) for grant in grants}
        answers: dict[str, Grant | Gone] = {}
        for grant in grants:
            if grant.owner not in there:
                answers[grant.owner] = await self._gone(grant, session)
                continue
            place = self._standing.places.get(grant.owner)
            if place is not None:
                place.until = asked_at + grant.ttl
            new = granted(grant.name, grant.owner, grant.fence, grant.ttl, asked_at)
            answers[grant.owner] = new
        return answers

    async def _check(self, session: Session, grants: Sequence[Grant], first: bool) -> set[str]:
        """Whose keys are still there with their own create revision; the first call extends."""
        places = self._standing.places
        keys = {g.owner: (places[g.owner].key, g.fence) for g in grants if g.owner in places}
        same = [requests.equal(requests.CREATED, key, fence) for key, fence in keys.values()]
        one_by_one = [
            requests.do_range(requests.range_of(key, keys_only=True)) for key, _ in keys.values()
        ]
        request = requests.txn(same, [], one_by_one)
        if first:
            answer = await self._sessions.extend_surely(session, request)
        else:
            answer = await self._link.call(TXN, request, reads=True)
        outcome = replies.read_txn(answer)
        if outcome.succeeded:
            return {*keys}
        found = {(pair.key, pair.created) for each in outcome.found for pair in each.pairs}
        return {owner for owner, key in keys.items() if key in found}

    async def _move(self, grant: Grant) -> Grant | Gone:
        """Put a key that another client made, or that wants a longer ttl, on a lease of ours."""
        session = await self._sessions.fresh(grant.ttl)
        asked_at = self._world.now()
        await self._sessions.extend_surely(session)
        pair = await self.find(grant)
        if pair is None:
            return await self._gone(grant, session)
        same = requests.equal(requests.CREATED, pair.key, grant.fence)
        attach = requests.do_put(requests.attach(pair.key, session.lease))
        self._standing.expect(grant.owner, pair, session, asked_at + session.ttl)
        answer = await self._link.call(TXN, requests.txn([same], [attach]))
        if not replies.read_txn(answer).succeeded:
            session.places.pop(grant.owner, None)
            return await self._gone(grant, session)
        self._standing.adopt(grant.owner, pair, session).until = asked_at + session.ttl
        return granted(grant.name, grant.owner, grant.fence, session.ttl, asked_at)

    async def find(self, grant: Grant) -> replies.KeyValue | None:
        """The key of a grant; asked of etcd when another client has made it."""
        place = self._standing.places.get(grant.owner)
        if place is not None:
            return replies.KeyValue(place.key, grant.fence, place.value, place.session.lease)
        ways = self._naming.ways(grant.name)
        look = requests.range_of(
            ways.lower, ways.upper, created_min=grant.fence, created_max=grant.fence
        )
        found = replies.read_range(await self._link.call(RANGE, look, reads=True))
        ours = [pair for pair in found.pairs if owner_of(pair.value) == grant.owner]
        return ours[0] if ours else None

    async def release(self, grant: Grant) -> bool:
        """Delete the key if it has the create revision of the grant."""
        place = self._standing.places.get(grant.owner)
        pair = place or await self.find(grant)
        if pair is None:
            return False
        steps = place.steps if place is not None else None
        leave = (steps or self._naming.steps(grant.name, pair.key, 0)).leave(grant.fence)
        link, turn, asked_at = self._link, self._link.turn, self._world.now()
        try:
            answer = await link.transact(turn, leave)
        except RpcError as error:
            answer = await link.settle(error, turn, leave)
        except BaseException:
            link.gave_up(turn, asked_at)
            raise
        freed = replies.succeeded(answer)
        if place is not None:
            self._standing.forget(place)
        return freed

    async def revoke(self, name: str, reason: str, listing: Listing) -> bool:
        """Take the lock from whoever holds it, and leave the reason for it."""
        contenders = await listing.contenders(name)
        if not contenders:
            return False
        holder = contenders[0]
        ttl = min(max(await listing.ttl(holder.lease), TOLD_MIN_S), TOLD_MAX_S)
        lease = replies.read_lease(
            await self._link.call(LEASE_GRANT, requests.lease_grant(int(ttl)))
        )
        told = requests.put(self._naming.told(owner_of(holder.value)), reason.encode(), lease.id)
        same = requests.equal(requests.CREATED, holder.key, holder.created)
        both = [requests.do_delete(requests.delete(holder.key)), requests.do_put(told)]
        outcome = await self._link.call(TXN, requests.txn([same], both))
        return replies.read_txn(outcome).succeeded

    async def _gone(self, grant: Grant, session: Session) -> Gone:
        """Why a key is not there any more."""
        place = self._standing.places.get(grant.owner)
        if place is not None:
            self._standing.forget(place)
        why = requests.range_of(self._naming.told(grant.owner))
        found = replies.read_range(await self._link.call(RANGE, why, reads=True))
        if found.pairs:
            return Gone("revoked", found.pairs[0].value.decode())
        if session.ended:
            return Gone("expired", f"its etcd lease of {session.ttl:g} s has ended")
        return Gone("revoked", "its key was deleted from etcd")
