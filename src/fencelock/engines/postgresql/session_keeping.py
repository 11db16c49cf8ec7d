"""The locks of sessions from when they are granted to their end: renewed, lost, or given back."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence

from ...errors import FencelockError, OutcomeUnknown, Unavailable
from ...model import Gone, Grant, Request, granted
from ...world import World
from .bonded import BondedMode
from .held_locks import Holdings
from .holder_table import Notes
from .modes import Session, Wire
from .release_once import Endings
from .rows import soon
from .session_pool import Sessions
from .settings import Settings
from .statements import SessionStatements
from .warden import NEVER, Hold, Warden
from .wire.connection import Rows

REST_S = 0.5  # after so long with nothing held, a session may be silent for as long as it likes


class SessionKeeping(BondedMode):
    """What a client does with the advisory locks that it has."""

    def __init__(self, world: World, wire: Wire, settings: Settings) -> None:
        self._say = SessionStatements(settings.table, settings.schema)
        super().__init__(world, wire, settings, self._say.whose)
        self._sessions = Sessions(wire, settings, self._say, self._ended)
        self._holdings = Holdings(world)
        self._holds = self._holdings.by_owner
        self._endings = Endings(world, self._holds)
        self._notes = Notes(world, wire, self._say, self._holds)
        self._rest_at = NEVER
        self._warden = Warden(world, self._holds, self._give_back, self._chores)

    def _keep(
        self, request: Request, key: int, session: Session, fence: bytes | None, asked_at: float
    ) -> None:
        hold = Hold.of(request, key, session, int(fence or 0), asked_at)
        self._holdings.add(request.owner, hold)
        self._warden.expect(min(hold.until, self._notes.add(request.owner, hold)))

    async def _chores(self, now: float) -> float:
        """Note what is still held after a moment; let sessions rest that hold nothing."""
        again = await self._notes.write(now)
        if now >= self._rest_at:
            self._rest_at = NEVER
            await self._sessions.let_rest()
        return min(again, self._rest_at)

    async def renew(self, grants: Sequence[Grant]) -> list[Grant | Gone]:
        now = self.world.now()
        by_session: dict[Session, list[Grant]] = {}
        over: list[str] = []
        for grant in grants:
            hold = self._holds.get(grant.owner)
            if hold is None or hold.until <= now:
                over.append(grant.owner)
            else:
                self._holdings.change(hold, grant.ttl)
                by_session.setdefault(hold.session, []).append(grant)
        for session, some in by_session.items():
            await self._beat(session, some, now)
        for owner in over:  # after those that still have time to lose
            if (hold := self._holds.get(owner)) is not None:
                await self._end(owner, hold)
        await self._endings.settled(over, soon(grants))
        return [self._after(grant, now) for grant in grants]

    async def _beat(self, session: Session, grants: Sequence[Grant], now: float) -> None:
        names, owners, _, ttls, _, _ = map(list, zip(*grants, strict=True))
        unnoted = await self._notes.keep_back([grant.owner for grant in grants], soon(grants))
        try:
            await self._sessions.beat(session, names, owners, ttls)
            for grant in grants:
                if (hold := self._holds.get(grant.owner)) is not None:
                    hold.until = now + grant.ttl
                    self._warden.expect(hold.until)
        except (OutcomeUnknown, Unavailable):
            if not session.dead:
                raise
            self._bury(session)
        finally:
            self._warden.expect(self._notes.go_on(unnoted))

    def _after(self, grant: Grant, now: float) -> Grant | Gone:
        hold = self._holds.get(grant.owner)
        if hold is not None and hold.until > now:
            return granted(grant.name, grant.owner, grant.fence, grant.ttl, now)
        return Gone("session", "the session that held it has ended, or it was not renewed in time")

    def _ended(self, session: Session) -> None:
        """Tell those who held by a session that has ended."""
        owners = set(session.holds)
        self._bury(session)
        if owners and not self._closing:
            self.tell(owners, Gone("session", "the session that held it has ended"))

    def _bury(self, session: Session) -> None:
        """A session has ended: whatever it held is gone."""
        for owner in self._holdings.bury(session):
            self._notes.drop(owner)

    async def release(self, grant: Grant) -> bool:
        if (hold := self._holds.get(grant.owner)) is not None:
            return await self._give_back(grant.owner, hold)
        await self._endings.settled([grant.owner], self.settings.request_timeout)
        self._holdings.forget(grant.owner)
        return False

    def _give_back(self, owner: str, hold: Hold) -> Awaitable[bool]:
        """Unlock, unless somebody else does; say whether that came in time."""
        in_time = hold.until > self.world.now()
        return self._let_go(owner, hold) if in_time else self._end(owner, hold)

    async def _end(self, owner: str, hold: Hold) -> bool:
        """Unlock what is over."""
        if not self._endings.begin(owner, hold):
            await self._endings.settled([owner], self.settings.request_timeout)
            return False
        try:
            await self._let_go(owner, hold)
        finally:
            self._endings.done(owner)
        return False

    async def _let_go(self, owner: str, hold: Hold) -> bool:
        """Unlock; only then may this client ask for the key again on a shared session."""
        session, leaver = hold.session, object()
        rows: Rows = []
        try:
            if not self._holdings.remove(owner, hold, leaver):
                return False
            self._notes.drop(owner)
            rows = await self._unlock(session, owner, hold)
            hold.leaver = None
        except BaseException as error:
            if hold.leaver is not leaver:
                raise
            if not session.dead:  # it is still ours, and will be asked for again
                self._holdings.add(owner, hold)
                raise
            self._bury(session)
            if not isinstance(error, FencelockError):
                raise
        self._holdings.free(hold.key, owner)
        if not session.holds:
            self._sessions.done_with(session)
        return bool(rows) and rows[0][0] == b"t"

    def _unlock(self, session: Session, owner: str, hold: Hold) -> Awaitable[Rows]:
        if not session.ttls and self._rest_at == NEVER:  # nobody holds by it now
            self._rest_at = self.world.now() + REST_S
            self._warden.expect(self._rest_at)
        return self._sessions.unlock(session, owner, hold)
