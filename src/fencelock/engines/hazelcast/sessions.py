"""Keep the CP sessions of one client: one at a time, for all its locks.

A session has the time to live that the members are configured with, the same for all clients. Each
member counts it on its own clock, from when it applied the heartbeat; the leader closes expired
sessions. We count it from before the heartbeat was sent. So no lease is relied on for longer than
its session lives, as long as no member's clock is set forward meanwhile.

A session is replaced after ``USES_MAX`` locks, and closed when it holds nothing any more: until
then every member stores the results of all its lock and unlock requests.
"""

from __future__ import annotations

from typing import Any

from ...errors import FencelockError, Misconfigured, Unavailable
from ...wires.single_flight import SingleFlight
from ...world import World
from ..shared_session import SharedSession
from .settings import GROUP, Settings
from .wire import Wire
from .wire.errors import NO_CP, GroupGone, SessionGone

SHORT = 0.1  # of a ttl: a new lease may be shorter by that, because its session is older
BEATS_PER_TTL = 3
USES_MAX = 5000
OBJECT = "fencelock"  # a CP group is requested by the name of an object in it


class Session(SharedSession):
    """One CP session, in one CP group."""

    def __init__(self, group: Any, id: int, ttl: float, beat: float, asked_at: float) -> None:
        super().__init__(ttl, asked_at)
        self.group = group
        self.id = id
        self.beat = min(beat, ttl / BEATS_PER_TTL)
        """The interval of its heartbeats, in seconds."""
        self.uses = 0


class Sessions:
    """The sessions of one client."""

    def __init__(self, world: World, wire: Wire, settings: Settings) -> None:
        self._world = world
        self._wire = wire
        self._settings = settings
        self._flights = SingleFlight(world)
        self._current: Session | None = None
        self._group: Any = None
        self.by_id: dict[int, Session] = {}

    async def call(self, operation: str, *arguments: Any) -> Any:
        """Send one request: return its reply, or raise."""
        (answer,) = await self._wire.call_all([(operation, arguments)])
        if isinstance(answer, GroupGone):
            self._group = None
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def group(self) -> Any:
        """Return the CP group of the locks, which Hazelcast creates if needed.

        It is requested once: the METADATA group may have no leader while this one has.
        """
        if self._group is None:
            wanted = self._settings.group
            found = await self.call("group", OBJECT)
            if found.name != GROUP:  # the reply names the object instead: there are no groups
                raise Misconfigured(NO_CP)
            if wanted != GROUP:
                found = await self.call("group", f"{OBJECT}@{wanted}")
            self._group = found
        return self._group

    async def fresh(self, ttl: float) -> Session:
        """Return a session on which a lease of this ttl lasts about as long."""
        while True:
            session, now = self._current, self._world.now()
            if session is None or session.is_over(now) or session.uses >= USES_MAX:
                await self._flights.do("open", self._open)
                continue
            session.used_at = now
            try:
                await self.renew_if_needed(session, now - ttl * SHORT, ttl)
            except SessionGone:
                continue
            session.uses += 1
            return session

    async def renew_if_needed(self, session: Session, since: float, ttl: float) -> None:
        """Renew a session unless a lease of this ttl can start at ``since`` without that."""
        while session.must_be_renewed(since, ttl):
            await self._flights.do(session.id, lambda: self.renew(session))

    async def _open(self) -> None:
        try:
            made, group, asked_at = await self._create()
        except GroupGone:  # it was created anew meanwhile, or is by this
            try:
                made, group, asked_at = await self._create()
            except GroupGone as error:
                raise Unavailable(f"the CP group was destroyed just now: {error}") from error
        ttl, beat = made["ttl_millis"] / 1000, made["heartbeat_millis"] / 1000
        session = Session(group, int(made["session_id"]), ttl, beat, asked_at)
        self.by_id[session.id] = session  # first: a session in use is renewed
        self._current = session

    async def _create(self) -> tuple[dict[str, int], Any, float]:
        """Create a session; return its properties, its group, and the moment before the request."""
        group, asked_at = await self.group(), self._world.now()
        return await self.call("create_session", group, "fencelock"), group, asked_at

    async def renew(self, session: Session) -> None:
        """Send a heartbeat: a session lasts its ttl from now. SessionGone if it may have ended."""
        asked_at = self._world.now()
        try:
            if session.is_over(asked_at):
                raise SessionGone
            await self.call("heartbeat", session.group, session.id)
        except SessionGone:
            self.end(session)
            raise
        self.confirm(session, asked_at)

    def confirm(self, session: Session, asked_at: float) -> None:
        """Count the ttl from an answered heartbeat, which was sent after ``asked_at``."""
        session.alive_at = max(session.alive_at, asked_at)

    def end(self, session: Session) -> None:
        """Mark a session as ended, and forget it."""
        session.ended = True
        self.by_id.pop(session.id, None)
        if self._current is session:
            self._current = None

    def is_spent(self, session: Session, idle: float) -> bool:
        """Return whether a session that holds nothing can be closed."""
        is_new = session is self._current and session.uses < USES_MAX
        return not is_new or self._world.now() >= session.used_at + idle

    async def close(self, session: Session) -> None:
        """Close a session that holds nothing."""
        self.end(session)
        try:
            await self.call("close_session", session.group, session.id)
        except (FencelockError, SessionGone):
            pass  # it expires by itself
