"""Keep the Consul sessions of one client: leases of about equal length share one.

A session is invalidated by its TTL alone. Health checks of a node would invalidate it at any
moment, while its client lives and relies on its locks. So the arithmetic is this:

* Consul does not invalidate a session before its TTL has passed since it was created or renewed,
  and may keep it up to twice as long. We count the TTL from before the request was sent. So no
  lease is relied on for longer than its session lives, and safety does not depend on the
  lock-delay.
* A renewal is not a write: the leader resets its timer. A former leader that does not know that it
  was replaced may do so for as long as its leader lease lasts. The new leader has restarted all
  timers, with twice the TTL, at an election that came no sooner than that after the last renewal of
  the old leader. So what a stale renewal promises is kept, provided that it was requested while the
  session was relied on: a session that is not is never renewed, but replaced by a new one.
* After its client died, a session ends within twice its TTL, and its keys are deleted with it. A
  lock-delay, if one is configured, keeps them from being acquired for that much longer.
"""

from __future__ import annotations

from math import ceil

from ...errors import FencelockError, OutcomeUnknown, Unavailable
from ...wires.single_flight import SingleFlight
from ...world import World
from ..shared_session import SharedSession
from .agents import Agents
from .settings import SESSION_TTL_MAX_S, Settings

SHORT = 0.1  # of a ttl: a new lease may be shorter by that, because its session is older


class SessionGone(Exception):
    """A session has ended, or may have."""


class Session(SharedSession):
    """One Consul session."""

    def __init__(self, id: str, ttl: float, asked_at: float) -> None:
        super().__init__(ttl, asked_at)
        self.id = id


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
        """Return the session TTL that is used for leases of a ttl."""
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
                await self.renew_if_needed(session, now - ttl * SHORT, ttl)
            except SessionGone:
                continue
            return session

    async def renew_if_needed(self, session: Session, since: float, ttl: float) -> None:
        """Renew a session unless a lease of this ttl can start at ``since`` without that."""
        while session.must_be_renewed(since, ttl):
            await self._flights.do(session.id, lambda: self.renew(session))

    async def _open(self, ttl: float) -> None:
        asked_at = self._world.now()
        session = Session(await self.create("fencelock", ttl, self._delay), ttl, asked_at)
        self.by_id[session.id] = self._by_ttl[ttl] = session  # in this order: what is used is kept

    async def create(self, label: str, ttl: float, delay: float = 0.0) -> str:
        """Create a session, return its id. One whose reply is lost holds nothing, and expires."""
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
        """Renew a session for its TTL from now; SessionGone if it has or may have ended."""
        asked_at = self._world.now()
        try:
            done = not session.is_over(asked_at) and await self._agents.renew(session.id)
        except OutcomeUnknown as error:
            raise Unavailable(f"{error}; it was a renewal: no lock was taken or freed") from error
        if not done:
            self.end(session)
            raise SessionGone
        session.alive_at = max(session.alive_at, asked_at)

    def end(self, session: Session) -> None:
        """Mark a session as ended, and forget it."""
        session.ended = True
        self.by_id.pop(session.id, None)
        if self._by_ttl.get(session.ttl) is session:
            self._by_ttl.pop(session.ttl, None)

    async def destroy(self, session: Session) -> None:
        """Destroy a session that holds nothing."""
        self.end(session)
        try:
            await self._agents.put(f"/v1/session/destroy/{session.id}")
        except FencelockError:
            pass  # it expires by itself
