"""The locks of transactions from when they are granted to their end: renewed, lost, committed."""

from __future__ import annotations

from collections.abc import Sequence

from ...errors import EngineError, FencelockError, OutcomeUnknown, Unavailable
from ...model import Gone, Grant, granted
from ...world import World
from .bonded import BondedMode
from .endings import Endings
from .modes import Transaction, Wire
from .reading import soon
from .settings import Settings
from .statements import BoundStatements
from .stock import Stock
from .warden import BoundHold, Hold, Warden


class BoundKeeping(BondedMode):
    """What a client does with the transactions by which it holds."""

    def __init__(self, world: World, wire: Wire, settings: Settings) -> None:
        self._say = BoundStatements(settings.table, settings.schema, settings.mode == "row")
        super().__init__(world, wire, settings, self._say.whose)
        self._holds: dict[str, Hold] = {}
        self._doubtful: dict[str, str] = {}
        """Owners whose commit was not answered, with their transaction's number."""
        self._stock = Stock(wire, self._say, self._ended)
        self._endings = Endings(world, self._holds)
        self._warden = Warden(world, self._holds, self._give_up)

    async def renew(self, grants: Sequence[Grant]) -> list[Grant | Gone]:
        now = self.world.now()
        asked = [grant for grant in grants if await self._beat(grant, now)]
        kept: set[str] = set()
        if asked:
            names, owners, _, ttls, _, _ = map(list, zip(*asked, strict=True))
            within = soon(asked)
            rows = await self.wire.keep(self._say.renew, names, owners, ttls, within=within)
            kept = {(row[0] or b"").decode() for row in rows}
        over = [grant.owner for grant in grants if grant.owner not in kept]
        for owner in over:  # after those that still have time to lose
            if isinstance(hold := self._holds.get(owner), BoundHold) and hold.is_over(now):
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
                answers.append(Gone("session", "the transaction that held it has ended"))
        return answers

    async def _beat(self, grant: Grant, now: float) -> bool:
        """Say a word in the transaction, so that the server does not take it for idle."""
        hold = self._holds.get(grant.owner)
        if not isinstance(hold, BoundHold) or hold.is_over(now):
            return False
        try:
            await hold.transaction.whisper(self._say.beat)
        except FencelockError:
            self._holds.pop(grant.owner, None)
            return False
        return True

    def _ended(self, transaction: Transaction) -> None:
        """Tell whoever held by a connection that has ended."""
        owners = {o for o, hold in list(self._holds.items()) if hold.session is transaction}
        for owner in owners:
            self._holds.pop(owner, None)
        if owners and not self._closing:
            self.tell(owners, Gone("session", "the session of its transaction has ended"))

    async def release(self, grant: Grant) -> bool:
        hold = self._holds.pop(grant.owner, None)
        if not isinstance(hold, BoundHold):
            await self._endings.settled([grant.owner], self.settings.patience)
            return await self._look_up(grant.owner)
        in_time, transaction = hold.until > self.world.now(), hold.transaction
        if not transaction.open and not transaction.dead:
            await self._stock.undo(transaction)
            return False  # its holder has ended the transaction, or a statement in it failed
        last = self._say.rollback if hold.spoiled else self._say.commit
        try:
            await transaction.end(last)
        except OutcomeUnknown:
            transaction.drop()
            if hold.spoiled:
                return False
            self._doubtful[grant.owner] = hold.xid
            raise
        except Unavailable:
            return False
        self._stock.put_back(transaction, hold.used)
        return in_time

    async def _look_up(self, owner: str) -> bool:
        """Find out what has become of a commit that was not answered."""
        xid = self._doubtful.get(owner)
        if xid is None:
            return False
        status = (await self.wire.ask(self._say.status, xid))[0][0]
        if status == b"in progress":
            raise OutcomeUnknown("the server is still busy with the transaction")
        self._doubtful.pop(owner, None)
        if status == b"committed":
            return True
        raise EngineError("the transaction was not committed: all that was done in it is undone")

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
