"""Keep the CP sessions of one client: one at a time, for all its locks.

A session has the time to live that the members were configured with, for all clients alike. Each
member counts it, from the heartbeat as it is applied there, on its own clock; the leader ends what
is over. We count it from before the heartbeat was sent. So no lease is believed in for longer than
its session lives, as long as no member's clock is set forward meanwhile.

A session is replaced after ``USES_MAX`` locks, and closed when nothing is held on it any more:
until then every member remembers how each of its lock and unlock requests ended.
"""

from __future__ import annotations

from typing import Any

from ...errors import FencelockError, Misconfigured, Unavailable
from ...wires.single_flight import SingleFlight
from ...world import World
from .settings import GROUP, Settings
from .wire import Wire
from .wire.errors import NO_CP, GroupGone, SessionGone

SHORT = 0.1  # of a ttl: by how much a new lease may be shorter because its session is older
BEATS_PER_TTL = 3
USES_MAX = 5000
OBJECT = "fencelock"  # a CP group is asked for by the name of something in it


class Session:
    """One CP session, in one CP group."""

    def __init__(self, group: Any, id: int, ttl: float, beat: float, asked_at: float) -> None:
        self.group = group
        self.id = id
        self.ttl = ttl
        self.beat = min(beat, ttl / BEATS_PER_TTL)
        """How often it is renewed while it is used."""
        self.alive_at = self.used_at = asked_at
        """Before the last heartbeat was sent that was answered; when it was needed."""
        self.uses = 0
        self.ended = False

    def is_over(self, now: float) -> bool:
        """Whether it has ended, or may have."""
        return self.ended or now >= self.alive_at + self.ttl

    def counted_from(self, asked_at: float, ttl: float) -> float:
        """From when a lease counts so that it is over before the session may be."""
        return min(asked_at, self.alive_at + self.ttl - ttl)


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
        """Make one request: return its answer, or raise."""
        (answer,) = await self._wire.call_all([(operation, arguments)])
        if isinstance(answer, GroupGone):
            self._group = None
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def group(self) -> Any:
        """The CP group that has the locks, which Hazelcast makes if need be.

        It is asked for once: the group that knows all groups may have no leader when this one has.
        """
        if self._group is None:
            wanted = self._settings.group
            found = await self.call("group", OBJECT)
            if found.name != GROUP:  # of an object by this name: there are no groups
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
                await self.lengthen(session, now - ttl * SHORT, ttl)
            except SessionGone:
                continue
            session.uses += 1
            return session

    async def lengthen(self, session: Session, since: float, ttl: float) -> None:
        """Renew a session unless a lease of this ttl may be counted from that moment."""
        while session.counted_from(since, min(ttl, session.ttl)) < since:
            await self._flights.do(session.id, lambda: self.renew(session))

    async def _open(self) -> None:
        try:
            made, group, asked_at = await self._create()
        except GroupGone:  # which was made anew since, or is now
            try:
                made, group, asked_at = await self._create()
            except GroupGone as error:
                raise Unavailable(f"the CP group was destroyed just now: {error}") from error
        ttl, beat = made["ttl_millis"] / 1000, made["heartbeat_millis"] / 1000
        session = Session(group, int(made["session_id"]), ttl, beat, asked_at)
        self.by_id[session.id] = session  # first: what is used is renewed
        self._current = session

    async def _create(self) -> tuple[dict[str, int], Any, float]:
        """Create a session; return what it is like, its group, and the moment before."""
        group, asked_at = await self.group(), self._world.now()
        return await self.call("create_session", group, "fencelock"), group, asked_at

    async def renew(self, session: Session) -> None:
        """Have a session last its ttl from now; raise SessionGone where it cannot."""
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
        """Count from a heartbeat that was answered."""
        session.alive_at = max(session.alive_at, asked_at)

    def end(self, session: Session) -> None:
        """Forget a session that is no more."""
        session.ended = True
        self.by_id.pop(session.id, None)
        if self._current is session:
            self._current = None

    def is_spent(self, session: Session, idle: float) -> bool:
        """Whether a session that holds nothing is not needed any more."""
        is_new = session is self._current and session.uses < USES_MAX
        return not is_new or self._world.now() >= session.used_at + idle

    async def close(self, session: Session) -> None:
        """End a session that holds nothing."""
        self.end(session)
        try:
            await self.call("close_session", session.group, session.id)
        except (FencelockError, SessionGone):
            pass  # it ends by itself
