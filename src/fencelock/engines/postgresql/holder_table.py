"""Notes for people about who holds an advisory lock: the server itself knows only its process.

Taking and leaving a lock writes nothing, so most locks are never noted: only what is still held
after a moment is. Whoever asks who holds a lock waits for that moment, when the server shows a lock
of ours without a note. A note is removed when its lock is given back.

A renewal writes into the note, so the two keep out of each other's way: a note that came after the
renewal, with the time that was left before, would be wrong until the next.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...errors import FencelockError
from ...model import Holding, State, Waiting
from ...world import Signal, World, sleep
from .keys import key_of
from .modes import Session, Wire
from .rows import holding
from .statements import SessionStatements, Statement
from .warden import NEVER, Hold
from .wire.connection import Rows

NOTE_S = 0.05  # what is held for so long is noted
WAIT_S = 0.5  # how long to wait for the notes of others
LOOK_S = 0.02


class Notes:
    """The notes of one client."""

    def __init__(
        self, world: World, wire: Wire, say: SessionStatements, holds: dict[str, Hold]
    ) -> None:
        self._world = world
        self._wire = wire
        self._say = say
        self._holds = holds
        self._fresh: dict[str, Hold] = {}
        self._mutex = world.mutex()
        self._under_way: dict[str, Signal] = {}
        """Owners whose notes are being written."""
        self._busy = False
        """Locks were taken since we last looked: more will be, and need not wake anybody."""

    def add(self, owner: str, hold: Hold) -> float:
        """A lock was taken; return when to look whether it is still held."""
        self._fresh[owner] = hold
        self._busy = True
        return hold.taken_at + NOTE_S

    def drop(self, owner: str) -> None:
        """It is held no more."""
        self._fresh.pop(owner, None)

    async def keep_back(self, owners: Iterable[str], within: float) -> dict[str, Hold]:
        """A renewal comes first: wait for notes that are under way, and keep back the others."""
        deadline = self._world.now() + within
        kept: dict[str, Hold] = {}
        for owner in owners:
            with self._mutex:
                hold, signal = self._fresh.pop(owner, None), self._under_way.get(owner)
            if hold is not None:
                kept[owner] = hold
            elif signal is not None:
                await self._world.wait(signal, deadline)
        return kept

    def go_on(self, kept: dict[str, Hold]) -> float:
        """The renewal is over; return when to note what was kept back."""
        return min(
            [self.add(o, hold) for o, hold in kept.items() if o in self._holds], default=NEVER
        )

    async def write(self, until: float) -> float:
        """Note what was taken before a moment; return when the next has to be."""
        due: dict[Session, list[tuple[str, Hold]]] = {}
        soonest = self._world.now() + NOTE_S if self._busy else NEVER
        self._busy = False
        for owner, hold in list(self._fresh.items()):
            if hold.taken_at + NOTE_S > until:
                soonest = min(soonest, hold.taken_at + NOTE_S)
            elif self._begin(owner):
                hold.noted = True  # from now on whoever gives it back removes the note
                due.setdefault(hold.session, []).append((owner, hold))
        try:
            for session, some in due.items():
                await self._try_to_write(session, some)
        finally:  # cancelled or not: nobody must wait for notes that are never written
            for some in due.values():
                self._done(some)
        return soonest

    async def _try_to_write(self, session: Session, some: list[tuple[str, Hold]]) -> None:
        try:
            await self._write(session, some)
        except FencelockError:
            pass  # nobody is told who holds it; the renewal finds out what is wrong
        self._done(some)

    def _begin(self, owner: str) -> bool:
        """Say whether the caller is to write this note, and then say ``_done``."""
        with self._mutex:
            if self._fresh.pop(owner, None) is None:
                return False
            self._under_way[owner] = self._world.signal()
            return True

    def _done(self, some: list[tuple[str, Hold]]) -> None:
        for owner, _ in some:
            if (signal := self._under_way.pop(owner, None)) is not None:
                signal.set()

    async def _write(self, session: Session, some: list[tuple[str, Hold]]) -> None:
        now = self._world.now()
        holds = [hold for _, hold in some]
        names, owners = [hold.name for hold in holds], [owner for owner, _ in some]
        await session.ask(
            self._say.note,
            names,
            owners,
            [hold.key for hold in holds],
            [hold.fence for hold in holds],
            [hold.ttl for hold in holds],
            [now - hold.taken_at for hold in holds],
            [hold.until - now for hold in holds],
            [hold.meta for hold in holds],
        )
        gone = [
            (name, owner)
            for name, owner in zip(names, owners, strict=True)
            if owner not in self._holds
        ]
        if gone:  # given back in between, perhaps before its note was written
            await session.ask(self._say.erase, [name for name, _ in gone], [o for _, o in gone])

    async def state(self, name: str) -> State:
        """Who holds a lock, and who waits for it in the server."""
        holders = await self._shown(self._say.holder, name, key_of(name))
        waiters = await self._wire.ask(self._say.waiters, key_of(name))
        waiting = [
            Waiting(max(0.0, float(age or 0)), {"pid": int(pid or 0)}) for age, pid in waiters
        ]
        return State(name, tuple(map(holding, holders)), tuple(waiting))

    async def scan(self, prefix: str) -> list[Holding]:
        """All holders of names that begin so."""
        return [holding(row) for row in await self._shown(self._say.scan, prefix, None)]

    async def _shown(self, statement: Statement, value: str, key: int | None) -> Rows:
        """What the notes say, once nobody's are missing any more."""
        await self.write(NEVER)
        for signal in list(self._under_way.values()):  # the warden may have been first
            await self._world.wait(signal, None)
        give_up = self._world.now() + WAIT_S
        while True:
            rows = await self._wire.ask(statement, value)
            if (rows and key is not None) or self._world.now() >= give_up:
                return rows
            if (await self._wire.ask(self._say.unnoted, key))[0][0] == b"0":
                return await self._wire.ask(statement, value)
            await sleep(self._world, LOOK_S)
