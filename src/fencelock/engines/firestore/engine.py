"""Leases in a collection of Firestore: a document exists while its lock is held.

An acquirer creates the document, on condition that it does not exist; Firestore serializes such
writes, so one wins. A renewal updates it and a release deletes it, both on condition that its last
update is the one that we made or saw: then the owner in it has not changed. No transaction is used:
one keeps others from a document for as long as its client takes, so that a frozen newcomer would
keep a holder from renewing.

Only Firestore's time decides which document is dead. Every read has the time at which it was made,
and a document the time of its last update: it is dead if that is its ttl ago or longer. The holder
counts its ttl from before it sent that update, on its own clock, and gives up early by the drift
that clocks may have. A client that finds a dead document deletes it, on condition that it was not
updated since, and then creates its own.

Fences only grow: a fence is the time, in microseconds, at which Firestore has created the document.
Firestore gives a document that was deleted and is created again a later time than any that it had
before, whichever client deleted it and however long ago. Nothing is kept for that, so that nothing
has to be bounded: a released lock leaves no document. Holders that died leave theirs, and a client
that opens deletes some that are overdue.

A write without a reply is resolved by a repeated request for the same owner: the document has its
owner. A creation that is still under way when its attempt is withdrawn may yet be carried out: then
the name is locked without a holder, for a ttl.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from ...engine import Address, Engine
from ...errors import Misconfigured, Unavailable, Unsupported
from ...model import Busy, Finding, Gone, Grant, Holding, Request, State, Traits, granted
from ...world import Signal, World
from .._google.settings import settled
from ..backoff import LOOK_MIN_S, PollBackoff, back_off
from . import documents
from .documents import LOCK, MEMO, REVOKED, Document, Write, id_of
from .settings import EMULATOR_VARIABLE, OPTIONS, settings
from .wire import Wire
from .wire.errors import Contended, Refused
from .wire.listener import Listener

LOOK_TOLD_S = 3.0  # between two polls of a waiter for whose lock a listener receives changes
TRIES = 10  # of a write whose document was changed since it was read
BACK_OFF_S, BACK_OFF_MAX_S = 0.02, 1.0  # between tries of a write that contends with others
SWEEP_MAX = 20  # dead documents that a client deletes when it opens
PAGE = 300

SHARED = "firestore has locks of one holder only: use redis, postgresql, mysql, etcd or zookeeper"


class FirestoreEngine(Engine):
    """``firestore://project/collection``."""

    schemes = ("firestore",)
    options: ClassVar = OPTIONS
    drivers = ("google.cloud.firestore_v1",)
    traits = Traits(
        "correctness", "network", fence=True, push=True, durable=True, portable=True, remembers=True
    )

    @classmethod
    def settled(cls, address: Address) -> Address:
        return settled(address, EMULATOR_VARIABLE)

    def __init__(self, world: World, address: Address) -> None:
        super().__init__(world, address)
        self._settings = settings(address)
        self._wire = Wire(world, self._settings)
        self._listener = Listener(world, self._settings, self._wire.listen)
        self._updated: dict[str, int] = {}
        """By owner: when the document of its grant was last updated, as far as we know."""
        self._backoff = PollBackoff(world.random)

    async def open(self) -> None:
        """Check that Firestore answers, by deleting some documents of holders that died."""
        found = await self._wire.overdue(self.world.wall_us(), SWEEP_MAX)
        dead = [one for one in found if one.is_ours and one.left <= 0]
        if dead:
            await self._wire.write_each([documents.deleted(d.id, d.updated_us) for d in dead])

    async def close(self) -> None:
        self.close_nowait()

    def close_nowait(self) -> None:
        self._listener.close()
        self._wire.close()

    def _id(self, name: str, kind: str = LOCK) -> str:
        return id_of(kind, self._settings.prefix + name)

    async def _find(self, name: str) -> Document | None:
        """Read the document of a lock, dead or alive."""
        (found,) = await self._wire.read(self._id(name))
        if found is not None and not found.is_ours:
            raise Misconfigured(
                f"the document {found.id!r:.80} in {self._settings.shown} is another program's: "
                "give the locks a collection of their own, or a prefix"
            )
        return found

    async def _commit(self, *writes: Write) -> int | None:
        """Write all of these; return the time of it, or None where a precondition failed.

        A write that contends with others is tried again until the time is over.
        """
        tried, until = 0, min(self.world.now() + self._settings.request_timeout, self.world.limit())
        while True:
            try:
                return await self._wire.commit(*writes)
            except Refused:
                return None
            except Contended:
                tried += 1
                if not await back_off(self.world, tried, BACK_OFF_S, BACK_OFF_MAX_S, until):
                    raise

    # Acquire

    async def acquire(self, request: Request) -> Grant | Busy:
        if request.share is not None:
            raise Unsupported(SHARED)
        name, id, world = request.name, self._id(request.name), self.world
        looks = request.queue  # read first: a read costs less than a write that is refused
        for _ in range(TRIES):
            if not looks:
                asked_at = world.now()
                write = documents.acquired(id, request, world.owner(), world.wall_us())
                created_us = await self._commit(write)
                if created_us is not None:
                    self._updated[request.owner] = created_us
                    return granted(name, request.owner, created_us, request.ttl, asked_at)
            found, looks = await self._find(name), False
            if found is not None and found.owner == request.owner:
                return await self._confirmed(request, found)
            if found is not None and found.left > 0:
                return self._busy(request, found)
            if found is not None:
                await self._commit(documents.deleted(id, found.updated_us))
        return Busy(LOOK_MIN_S)

    async def _confirmed(self, request: Request, found: Document) -> Grant | Busy:
        """Grant an owner whose reply was lost the same fence, and a whole ttl."""
        now = self.world.now()
        grant = granted(request.name, request.owner, found.created_us, request.ttl, now)
        self._updated[request.owner] = found.updated_us
        answer = (await self._renew([grant]))[grant.owner]
        return answer if isinstance(answer, Grant) else Busy(LOOK_MIN_S)

    def _busy(self, request: Request, found: Document) -> Busy:
        """Return ``Busy`` for a lock that another owner holds: when to poll it again."""
        pause = self._backoff.pause(request.owner, float(found.fields["ttl"]))
        if self._listener.tells(found.id):
            pause = self._backoff.jittered(LOOK_TOLD_S)
        return Busy(min(pause, found.left), holder=str(found.fields.get("meta", "")))

    async def watch(self, request: Request, signal: Signal) -> None:
        self._backoff.begin(request.owner)
        self._listener.watch(self._id(request.name), request.owner, signal)

    async def unwatch(self, request: Request) -> None:
        self._listener.unwatch(self._id(request.name), request.owner)
        self._backoff.end(request.owner)

    # Renew, release

    async def renew(self, grants: Sequence[Grant]) -> list[Grant | Gone]:
        now = self.world.now()
        known = await self._renew([grant for grant in grants if grant.valid_until > now])
        expired = Gone("expired", "it was not renewed in time")
        # Where nothing is known the old end stands, and the keeper retries.
        return [known.get(g.owner, g) if g.valid_until > now else expired for g in grants]

    async def _renew(self, grants: Sequence[Grant]) -> dict[str, Grant | Gone]:
        """Update the documents of these grants in one request, and read those that were changed."""
        known, failures = dict[str, Grant | Gone](), list[Exception]()
        for _ in range(TRIES):
            todo = [grant for grant in grants if grant.owner not in known]
            known |= await self._look_up([one for one in todo if one.owner not in self._updated])
            todo = [grant for grant in todo if grant.owner not in known]
            if not todo:
                break
            asked_at, wall_us = self.world.now(), self.world.wall_us()
            writes = [
                documents.renewed(
                    self._id(one.name),
                    self._updated.pop(one.owner),  # not known again until the reply has come
                    one.ttl,
                    self.world.owner(),
                    wall_us,
                )
                for one in todo
            ]
            for (name, owner, fence, ttl, *_), done in zip(
                todo, await self._wire.write_each(writes), strict=True
            ):
                if isinstance(done, int):
                    self._updated[owner] = done
                    known[owner] = granted(name, owner, fence, ttl, asked_at)
                elif not isinstance(done, Refused | Contended):
                    failures.append(done)
            if failures:
                break
        if grants and not known:
            raise (
                failures[0]
                if failures
                else Unavailable("its documents were changed on every attempt")
            )
        return known

    async def _look_up(self, grants: Sequence[Grant]) -> dict[str, Gone]:
        """Read the update times of the documents of some grants; return why others are gone."""
        if not grants:
            return {}
        locks = [self._id(grant.name) for grant in grants]
        words = [id_of(REVOKED, grant.owner) for grant in grants]
        found = await self._wire.read(*locks, *words)
        gone = dict[str, Gone]()
        for grant, lock, word in zip(grants, found[: len(locks)], found[len(locks) :], strict=True):
            if lock is not None and lock.owner == grant.owner:
                self._updated[grant.owner] = lock.updated_us
            elif word is not None:
                gone[grant.owner] = Gone("revoked", str(word.fields.get("reason", "")))
            else:
                gone[grant.owner] = Gone("expired", "its document is another's, or gone")
        return gone

    async def release(self, grant: Grant | Request) -> bool:
        for _ in range(TRIES):
            updated_us = self._updated.pop(grant.owner, None)
            if updated_us is None:
                found = await self._find(grant.name)
                if found is None or found.owner != grant.owner:
                    return False
                updated_us = found.updated_us
            if await self._commit(documents.deleted(self._id(grant.name), updated_us)) is not None:
                return True
        raise Unavailable(f"{grant.name!r} was changed on every attempt; it was not released")

    async def withdraw(self, request: Request) -> None:
        await self._wire.settle(self._id(request.name))  # else a late write could grant it
        await self.release(request)

    # Inspect

    async def inspect(self, name: str) -> State:
        found = await self._find(name)
        return State(name, tuple(self._holdings([found] if found else [])))

    async def scan(self, prefix: str) -> list[Holding]:
        found, first = list[Document](), self._id(prefix)
        end = documents.next_id(first)
        while True:
            page = await self._wire.ids_between(first, end, PAGE)
            found += [one for one in page if one.is_ours]
            if len(page) < PAGE:
                return self._holdings(found)
            first = page[-1].id + "\0"

    def _holdings(self, found: Sequence[Document]) -> list[Holding]:
        return [one.holding(self._settings.prefix) for one in found if one.left > 0]

    async def revoke(self, name: str, reason: str) -> bool:
        for _ in range(TRIES):
            found = await self._find(name)
            if found is None or found.left <= 0:
                return False
            version, wall_us = self.world.owner(), self.world.wall_us()
            if await self._commit(*documents.revoked(found, reason, version, wall_us)) is not None:
                return True
        raise Unavailable(f"{name!r} was changed on every attempt; it was not revoked")

    # Remember: a document beside the lock's, with a number in each field

    async def remember(self, name: str, item: str, number: int, keep: float) -> None:
        id, version = self._id(name, MEMO), self.world.owner()
        wall_us = self.world.wall_us()
        await self._commit(documents.remembered(id, item, number, keep, version, wall_us))

    async def recall(self, name: str) -> Mapping[str, int]:
        (memo,) = await self._wire.read(self._id(name, MEMO))
        return {} if memo is None or memo.left <= 0 else documents.numbers(memo)

    async def forget(self, name: str) -> None:
        await self._commit(documents.deleted(self._id(name, MEMO)))

    async def diagnose(self) -> list[Finding]:
        from .doctor import diagnose

        return await diagnose(self._wire, self._settings, self.world.wall_us)
