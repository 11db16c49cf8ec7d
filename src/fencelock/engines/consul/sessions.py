"""Keep the sessions of one client: leases of about equal length share one.

A session ends by its TTL alone. Health checks of a node would end it at any moment, while its
client lives and believes in its locks. So the arithmetic is this:

* Consul does not end a session before its TTL is over since it was created or renewed, and lets it
  live up to twice as long. We count the TTL from before the request was sent. So no lease is
  believed in for longer than its session lives, and safety does not rest on the lock-delay.
* A renewal is no write: the leader sets its timer back. One that was replaced and does not know it
  may do so for as long as its leader lease lasts. The new one has begun all timers anew, with twice
  the TTL, at an election that came no sooner than that after the last renewal of the old leader. So
  what a false renewal promises is kept, provided that it was asked for while the session was
  believed in: one that is not is never renewed, but made anew.
* After its client died, a session ends within twice its TTL, and its keys with it. A lock-delay,
  where one was asked for, keeps them from being acquired for that much longer.
"""

from __future__ import annotations

from math import ceil

from ...errors import FencelockError, OutcomeUnknown, Unavailable
from ...wires.single_flight import SingleFlight
from ...world import World
from .agents import Agents
from .settings import SESSION_TTL_MAX_S, Settings

SHORT = 0.1  # of a ttl: by how much a new lease may be shorter because its session is older


class SessionGone(Exception):
    """Consul knows a session no more, or perhaps not."""


class Session:
    """One session."""

    def __init__(self, id: str, ttl: float, asked_at: float) -> None:
        self.id = id
        self.ttl = ttl
        self.alive_at = self.used_at = asked_at
        """Before the last request was sent that Consul counts its TTL from; when it was needed."""
        self.ended = False

    def is_over(self, now: float) -> bool:
        """Whether it has ended, or may have."""
        return self.ended or now >= self.alive_at + self.ttl

    def counted_from(self, asked_at: float, ttl: float) -> float:
        """From when a lease counts so that it is over before the session may be."""
        return min(asked_at, self.alive_at + self.ttl - ttl)


class Sessions:
    """The sessions of one client."""

    def __init__(self, world: World, agents: Agents, settings: Settings) -> None:
        self._world = world
        self._agents = agents
        self._ttl_min, self._delay = ceil(settings.session_ttl_min), settings.lock_delay
        self._flights = SingleFlight(world)
        self._by_ttl: dict[float, Session] = {}
        self.by_id: dict[str, Session] = {}

    def ttl_for(self, ttl: float) -> float:
        """The TTL of the session for leases of a ttl."""
        return min(float(max(ceil(ttl), self._ttl_min)), SESSION_TTL_MAX_S)

    async def fresh(self, ttl: float) -> Session:
        """Return a session on which a lease of this ttl lasts about as long."""
        whole = self.ttl_for(ttl)
        while True:
            session, now = self._by_ttl.get(whole), self._world.now()
            if session is None or session.is_over(now):
                await self._flights.do(whole, lambda: self._open(whole))
                continue
            session.used_at = now
            try:
                await self.lengthen(session, now - ttl * SHORT, ttl)
            except SessionGone:
                continue
            return session

    async def lengthen(self, session: Session, since: float, ttl: float) -> None:
        """Renew a session unless a lease of this ttl may be counted from that moment."""
        while session.counted_from(since, min(ttl, session.ttl)) < since:
            await self._flights.do(session.id, lambda: self.renew(session))

    async def _open(self, ttl: float) -> None:
        asked_at = self._world.now()
        session = Session(await self.create("fencelock", ttl, self._delay), ttl, asked_at)
        self.by_id[session.id] = self._by_ttl[ttl] = session  # in this order: what is used is kept

    async def create(self, label: str, ttl: float, delay: float = 0.0) -> str:
        """Have Consul make a session; one whose answer was lost concerns nobody, and ends."""
        wanted = {"Name": label, "TTL": f"{ttl:.0f}s", "LockDelay": f"{round(delay * 1000)}ms"}
        checks = {"Behavior": "delete", "NodeChecks": list[str]()}
        try:
            return str((await self._agents.put("/v1/session/create", {**wanted, **checks}))["ID"])
        except (OutcomeUnknown, LookupError, TypeError) as error:
            raise Unavailable(
                f"Consul did not say whether it made a session for this client ({error}); no lock "
                "was asked for, and nothing is held"
            ) from error

    async def renew(self, session: Session) -> None:
        """Have a session last its TTL from now; raise SessionGone where it cannot."""
        asked_at = self._world.now()
        try:
            done = not session.is_over(asked_at) and await self._agents.renew(session.id)
        except OutcomeUnknown as error:
            raise Unavailable(f"{error}; only for a renewal, which harms nobody") from error
        if not done:
            self.end(session)
            raise SessionGone
        session.alive_at = max(session.alive_at, asked_at)

    def end(self, session: Session) -> None:
        """Forget a session that is no more."""
        session.ended = True
        self.by_id.pop(session.id, None)
        if self._by_ttl.get(session.ttl) is session:
            self._by_ttl.pop(session.ttl, None)

    async def destroy(self, session: Session) -> None:
        """End a session that holds nothing."""
        self.end(session)
        try:
            await self._agents.put(f"/v1/session/destroy/{session.id}")
        except FencelockError:
            pass  # it ends by itself
