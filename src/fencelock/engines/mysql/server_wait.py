"""A session that waits in the server's own queue, in the background, until it is called off."""

from __future__ import annotations

from ...errors import FencelockError, OutcomeUnknown
from ...world import Job, World, sleep
from .wire.pool import Pool

STEP_S = 0.1
PAUSE_S = 0.001


class ServerWait:
    """One wait; what is interrupted is the statement of its session, and no later one."""

    def __init__(self, world: World, pool: Pool) -> None:
        self._world = world
        self._pool = pool
        self.job: Job | None = None
        self.identity_lock = ""
        """By what the session is known that waits, as SQL, while one does."""
        self._kills = 0

    async def interrupt(self, job: Job) -> bool:
        """End the wait, if the session is at it; say whether the job has ended."""
        if self.identity_lock:
            self._kills += 1
            try:
                if self.identity_lock:
                    await self._pool.query(f"KILL QUERY IS_USED_LOCK({self.identity_lock})")
            except FencelockError:
                pass  # it has ended by itself
            finally:
                self._kills -= 1
        if await job.join(self._world.now() + STEP_S):
            return True
        if self._world.limit() <= self._world.now():
            raise OutcomeUnknown("a session still waits in the server's queue: try again")
        return False

    async def end_kills(self) -> None:
        """The session waits no more: let nobody be about to interrupt it."""
        self.identity_lock = ""
        while self._kills:
            await sleep(self._world, PAUSE_S)
