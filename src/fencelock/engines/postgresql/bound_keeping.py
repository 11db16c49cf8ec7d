"""The locks of transactions from when they are granted to their end: renewed, lost, committed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ...errors import EngineError, FencelockError, OutcomeUnknown
from ...model import Gone, Grant, granted
from ...world import World
from .bonded import BondedMode
from .modes import Transaction, Wire
from .release_once import Endings
from .rows import soon
from .settings import Settings
from .statements import BoundStatements
from .transaction_pool import Stock
from .warden import BoundHold, Hold, Warden

WHY_MAX = 100
_IN_FAILED = "25P02"  # the server's word for a statement in a transaction that has failed
_ENDED = "the transaction that held it has ended"
_NOT_COMMITTED = "the transaction was not committed: all that was done in it is undone"


class Doubt(NamedTuple):
    """A transaction of which nobody knows yet how it has ended."""

    transaction: Transaction
    xid: str
    keeps: bool
    """Whether it was to be committed."""


class BoundKeeping(BondedMode):
    """What a client does with the transactions by which it holds."""

    def __init__(self, world: World, wire: Wire, settings: Settings) -> None:
        self._say = BoundStatements(settings.table, settings.schema, settings.mode == "row")
        super().__init__(world, wire, settings, self._say.whose)
        self._holds: dict[str, Hold] = {}
        self._doubtful: dict[str, Doubt] = {}
        """Owners whose last word is under way, or was not answered."""
        self._why: dict[str, Gone] = {}
        """Why holds were gone when they were released."""
        self._stock = Stock(wire, self._say, self._ended)
        self._endings = Endings(world, self._holds)
        self._warden = Warden(world, self._holds, self._give_up)

    async def renew(self, grants: Sequence[Grant]) -> list[Grant | Gone]:
        now = self.world.now()
        asked = {g: beaten for g in grants if (beaten := await self._beat(g, now)) is not None}
        kept: set[str] = set()
        if asked:
            names, owners, _, ttls, _, _ = map(list, zip(*asked, strict=True))
            within = soon(list(asked))
            xids = [beaten.xid for beaten in asked.values()]
            rows = await self.wire.keep(self._say.renew, names, owners, ttls, xids, within=within)
            kept = {(row[0] or b"").decode() for row in rows}
        over = [grant.owner for grant in grants if grant.owner not in kept]
        why: dict[str, str] = {}
        for owner in over:  # after those that still have time to lose
            if isinstance(hold := self._holds.get(owner), BoundHold):
                failed = hold.transaction.failed
                why[owner] = _ended_by(hold, failed) if hold.until > now else _ENDED
                await self._give_up(owner, hold)
        await self._endings.settled(over, soon(grants))
        answers: list[Grant | Gone] = []
        for grant in grants:
            hold = self._holds.get(grant.owner)
            if hold is not None and grant.owner in kept:
                hold.ttl, hold.until = grant.ttl, now + grant.ttl
                self._warden.expect(hold.until)
                answers.append(granted(grant.name, grant.owner, grant.fence, grant.ttl, now))
            else:
                answers.append(Gone("session", why.get(grant.owner, _ENDED)))
        return answers

    async def _beat(self, grant: Grant, now: float) -> BoundHold | None:
        """Say a word in the transaction, so that the server does not take it for idle."""
        hold = self._holds.get(grant.owner)
        if not isinstance(hold, BoundHold) or hold.is_over(now):
            return None
        try:
            await hold.transaction.whisper(self._say.beat)
        except FencelockError:
            if self._holds.pop(grant.owner, None) is not None:
                hold.transaction.drop()
            return None
        return hold

    def _ended(self, transaction: Transaction) -> None:
        """Tell whoever held by a connection that has ended."""
        owners = {o for o, hold in list(self._holds.items()) if hold.session is transaction}
        for owner in owners:
            self._holds.pop(owner, None)
        if owners and not self._closing:
            self.tell(owners, Gone("session", "the session of its transaction has ended"))

    async def release(self, grant: Grant) -> bool:
        """Commit if the body ended well and nobody was told of a loss; else roll back.

        That is decided before the commit is sent. From then on its outcome decides.
        """
        owner, hold = grant.owner, self._holds.get(grant.owner)
        in_time = keeps = False
        if isinstance(hold, BoundHold):
            in_time = min(hold.until, grant.valid_until) > self.world.now()
            keeps = in_time and not hold.failed
            # First: whatever breaks this off, who asks again finds out how far it came.
            self._doubtful[owner] = Doubt(hold.transaction, hold.xid, keeps)
            if self._holds.pop(owner, None) is not hold:  # somebody else is about to end it
                self._doubtful.pop(owner, None)
                hold = None
        if not isinstance(hold, BoundHold):
            await self._endings.settled([owner], self.settings.request_timeout)
            return await self._look_up(owner)
        freed = await self._end(owner, hold, keeps)
        self._doubtful.pop(owner, None)
        return freed and in_time

    async def _end(self, owner: str, hold: BoundHold, keeps: bool) -> bool:
        """Say the last word of a transaction; False when it had ended before."""
        transaction, last = hold.transaction, self._say.rollback
        if not transaction.open and not transaction.dead:
            return await self._was_ended(owner, hold, hold.transaction.failed)
        if keeps:
            last = self._say.commit_of(hold.xid) if hold.used else self._say.commit
        try:
            await transaction.end(last)
        except OutcomeUnknown:
            transaction.drop()
            raise
        except FencelockError as error:
            if transaction.dead:
                return False
            if keeps and transaction.failed:  # it did not come to the commit
                return await self._was_ended(owner, hold, _IN_FAILED in str(error))
            transaction.drop()
            self._doubtful.pop(owner, None)
            if keeps:
                raise EngineError(f"{_NOT_COMMITTED}: {error}") from error
            return True
        self._stock.put_back(transaction, hold.used)
        return True

    async def _was_ended(self, owner: str, hold: BoundHold, failed: bool) -> bool:
        """The transaction did not last as long as its block: keep what there is to say of it."""
        if len(self._why) >= WHY_MAX:
            self._why.clear()
        self._why[owner] = Gone("session", _ended_by(hold, failed))
        await self._stock.undo(hold.transaction, hold.used)
        return False

    def why_gone(self, grant: Grant) -> Gone | None:
        return self._why.pop(grant.owner, None)

    async def _look_up(self, owner: str) -> bool:
        """Find out what has become of a transaction whose last word was not answered."""
        doubt = self._doubtful.get(owner)
        if doubt is None:
            return False
        doubt.transaction.drop()  # whoever was about to speak over it is gone
        status = (await self.wire.ask(self._say.status, doubt.xid))[0][0]
        if status == b"in progress":
            raise OutcomeUnknown("the server is still busy with the transaction")
        self._doubtful.pop(owner, None)
        if status is None:
            raise OutcomeUnknown("the server no longer knows what became of the transaction")
        if status == b"committed" or not doubt.keeps:
            return True
        raise EngineError(_NOT_COMMITTED)

    async def _give_up(self, owner: str, hold: Hold) -> None:
        """The lease is over: the transaction must not go on."""
        assert isinstance(hold, BoundHold)
        if not self._endings.begin(owner, hold):
            return
        try:
            if self._holds.pop(owner, None) is not None and not hold.transaction.dead:
                await self._roll_back(hold.transaction)
        finally:
            self._endings.done(owner)

    async def _roll_back(self, transaction: Transaction) -> None:
        try:
            if await transaction.whisper(self._say.rollback) is None:
                await self.wire.ask(self._say.terminate, transaction.pid)
        except FencelockError:
            pass  # the server does it, once the connection is closed
        self._stock.put_back(transaction, used=True)


def _ended_by(hold: BoundHold, failed: bool) -> str:
    """Why a transaction is over, if its holder has ended it."""
    if not hold.used or hold.transaction.dead:
        return _ENDED
    if failed:
        return f"{_ENDED}: a statement over lease.connection has failed, which undid all of it"
    return (
        f"{_ENDED}: inside the block, by a commit, rollback or close of lease.connection. What "
        "was done before is as that left it, what came after was done without the lock"
    )
