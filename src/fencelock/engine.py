"""The contract between fencelock and a store that decides who holds a name.

An engine is its protocol: one class, ``async def``, that reads like the recipe in the textbook. It
sees its surroundings only through the World it is given, and reaches the store through a driver or
a wire.

Rules for the author of one:

* Expected results are values (``Grant``, ``Busy``, ``Gone``), surprises are exceptions of our
  tree. Map the driver's errors in one table: nothing happened is an ``EngineError``, no answer
  is ``OutcomeUnknown``.
* ``acquire`` is idempotent for an owner: called again, the holder gets the same fence, a waiter
  keeps its position. That is how a lost reply is resolved.
* ``asked_at`` of a grant is read before the request is sent (use ``model.granted``). Only
  durations cross the wire.
* ``release``, ``renew`` and ``withdraw`` are conditioned on the owner, never on the name alone.
  ``release`` and ``withdraw`` may be repeated at any time, and raise unless the store confirmed.
* Every call ends by itself, by ``world.limit()`` at the latest: an engine that cannot answer raises
  ``Unavailable`` when nothing was sent, and ``OutcomeUnknown`` when it may have been.

Register a class in ``fencelock.engines`` or, from another package, by an entry point of the group
``fencelock.engines`` that is named after the URL scheme.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import ClassVar, NamedTuple

from .errors import Misconfigured, Unsupported
from .model import Busy, Finding, Gone, Grant, Holding, Request, State, Together, Traits
from .world import Signal, World

RENAMED = {"patience": "request_timeout"}
"""Options by their former names."""


EVERY_PROMISE = Traits(
    "correctness",
    "network",
    fence=True,
    fifo=True,
    push=True,
    durable=True,
    portable=True,
    shared=True,
    remembers=True,
)
"""The traits of a store that keeps every promise. An engine that keeps fewer replaces some."""


class Address(NamedTuple):
    """Where an engine lives: the parts of its URL."""

    scheme: str
    hosts: tuple[tuple[str, int | None], ...] = ()
    path: str = ""
    user: str | None = None
    password: str | None = None
    options: Mapping[str, object] = {}

    @property
    def public(self) -> str:
        """The URL for messages: without the password."""
        hosts = ",".join(host if port is None else f"{host}:{port}" for host, port in self.hosts)
        return f"{self.scheme}://{self.user + '@' if self.user else ''}{hosts}{self.path}"

    def __repr__(self) -> str:
        return f"Address({self.public!r})"


class Verification(NamedTuple):
    """A statement for the caller's own transaction, in the database that also keeps the locks.

    It returns one row exactly when the lease still holds, and nobody can be granted the lock
    before that transaction ends.
    """

    sql: str
    """With ``%s`` for each parameter."""
    parameters: tuple[object, ...]


class Engine(ABC):
    """One store, in one configuration, for one client."""

    schemes: ClassVar[tuple[str, ...]]
    """URL schemes this engine answers to."""

    options: ClassVar[Mapping[str, Callable[[object], object]]] = {}
    """Query parameters of the URL and keyword arguments of connect, with their readers."""

    drivers: ClassVar[tuple[str, ...]] = ()
    """Packages that must be importable; they come with the extra named after the first scheme."""

    plain: bool = False
    """In asyncio its calls wait for futures only, and use no timeouts of the loop: see shield."""

    traits: Traits
    """What this engine promises, as configured."""

    takes_keys: bool = False
    """Whether a lock may be requested by a number that other users of the store know."""

    session_bound: bool = False
    """A grant ends with a connection of its holder, which may be long before its ttl."""

    first_holds: bool = False
    """The first in its queue holds the lock without another request: an owner that stops waiting
    unannounced, while its client lives on, holds it in the end and has to be withdrawn."""

    is_service: bool = False
    """Reached through a lock service, which does not tell who claimed a grant: another service
    cannot be built on it."""

    commits: bool = False
    """Releasing commits the work of a transaction: a release that failed is raised, not retried
    behind the caller's back."""

    on_gone: Callable[[Collection[str], Gone], None] | None = None
    """Set by the client. An engine that notices by itself that grants have ended passes their
    owners to it, from any thread, and need not wait for a ``renew``."""

    @classmethod
    def chosen(cls, address: Address) -> type[Engine]:
        """The class for this address: an engine with several modes picks one by its options."""
        return cls

    @classmethod
    def settled(cls, address: Address) -> Address:
        """The address as it stays for the life of a client, however often its engine is made.

        What depends on the state of the process, such as its working folder, is worked out here.
        """
        return address

    def __init__(self, world: World, address: Address) -> None:
        self.world = world
        self.address = address

    @abstractmethod
    async def open(self) -> None:
        """Reach the store and see that it can serve."""

    @abstractmethod
    async def close(self) -> None:
        """Let go of the store. Grants are not released."""

    @abstractmethod
    async def acquire(self, request: Request) -> Grant | Busy:
        """Try once. With ``request.queue``, join the queue if busy."""

    @abstractmethod
    async def renew(self, grants: Sequence[Grant]) -> list[Grant | Gone]:
        """Extend each grant by its ttl from now, in few requests, answers in the same order."""

    @abstractmethod
    async def release(self, grant: Grant) -> bool:
        """Give the lock back; False when it was no longer ours."""

    async def acquire_all(self, requests: Sequence[Request]) -> Together:
        """Take several mutexes in one step and one round trip: all of them, or nothing.

        They come in the order of their names' bytes; each has a new owner, and none is to be
        queued. A name that somebody holds or queues for is busy: the first such name is the answer,
        with the Busy that ``acquire`` would return. None: nothing was granted, and the caller calls
        ``acquire`` for each. An engine that cannot do it in one step always returns None.
        """
        return None

    async def release_all(self, grants: Sequence[Grant]) -> list[bool] | None:
        """Give several mutexes back in one round trip, with the answers of ``release``.

        None: nothing was done; call ``release`` for each.
        """
        return None

    async def end_in(self, grant: Grant, seconds: float) -> bool:
        """Set the end of a grant to ``seconds`` from now; False if it is not ours."""
        (answer,) = await self.renew([grant._replace(ttl=seconds)])
        return isinstance(answer, Grant)

    @abstractmethod
    async def withdraw(self, request: Request) -> None:
        """Undo an attempt: leave the queue, and give the lock back if it was granted meanwhile."""

    @abstractmethod
    async def inspect(self, name: str) -> State:
        """Who holds the name, and who waits."""

    def close_nowait(self) -> None:
        """End background work without waiting: the client was dropped and nobody can reach it."""

    async def watch(self, request: Request, signal: Signal) -> None:
        """Have the signal set whenever this request should look again.

        Engines without push do nothing.
        """

    async def wait(self, signal: Signal, deadline: float) -> None:
        """Wait until the signal is set or the deadline has passed.

        An engine whose pushes the waiting thread can read by itself does so here.
        """
        await self.world.wait(signal, deadline)

    def pushed_grant(self, request: Request) -> Grant | None:
        """Return, once, the grant that a push has brought to a waiter.

        Engines whose pushes only say "look again" have none.
        """
        return None

    async def unwatch(self, request: Request) -> None:
        """End a watch."""

    async def leave_queue(self, request: Request) -> None:
        """Stop waiting through this client, unlike ``withdraw``, which undoes the whole attempt.

        A grant that its owner got by a request of its own, and a position that it has through
        another client, stay. A grant that was handed to this client and never claimed is given
        back. Engines that pass over a waiter that does not claim have nothing to do.
        """

    async def announce(self, name: str) -> None:
        """Have the signals of all observers of the name set, in any process.

        A hint, sent after something has changed: it may be lost, and observers look now and then.
        Engines whose observers see changes by themselves, or look only, do nothing.
        """

    async def observe(self, name: str, signal: Signal) -> None:
        """Have the signal set whenever the name may have changed, until ``unobserve``."""

    async def unobserve(self, name: str, signal: Signal) -> None:
        """End what ``observe`` began."""

    async def remember(self, name: str, item: str, number: int, keep: float) -> None:
        """Store a number for a name for at least ``keep`` seconds; it outlives this process.

        An item's number only grows: a lower one, or a repeated call, changes nothing but how long
        all items of the name are kept. This is apart from who holds the name.
        """
        raise self._forgetful()

    async def recall(self, name: str) -> Mapping[str, int]:
        """The items that are remembered for a name, with their numbers."""
        raise self._forgetful()

    async def forget(self, name: str) -> None:
        """Remember nothing for a name any more."""
        raise self._forgetful()

    def _forgetful(self) -> Unsupported:
        return Unsupported(
            f"{self.address.public} remembers nothing after a process is gone: use "
            "sqlite, redis, postgresql, mysql or another engine whose traits say ``remembers``"
        )

    async def revoke(self, name: str, reason: str) -> bool:
        """Take the lock from its holder and have the holder told why; False when nobody held it."""
        raise Unsupported(f"{self.schemes[0]} cannot revoke a lock: wait for its ttl to end")

    async def scan(self, prefix: str) -> list[Holding]:
        """All holders of names that begin with the prefix, by name."""
        raise Unsupported(f"{self.schemes[0]} cannot list locks: ask for one name with holders()")

    async def diagnose(self) -> list[Finding]:
        """Return what in the surroundings and settings would break a promise, with advice."""
        return []

    def mark_failed(self, grant: Grant) -> None:
        """Note that the body under this lock has failed, or that its holder was told of a loss: the
        work of its transaction must not be kept.

        Only engines whose holds are transactions have anything to do here; ``release`` follows.
        """

    def why_gone(self, grant: Grant) -> Gone:
        """Return why ``release`` has just found that this grant was no longer ours."""
        return Gone("revoked", "its record was gone when it was released")

    def connection(self, grant: Grant) -> object:
        """The driver's connection whose open transaction is the hold."""
        raise Unsupported(
            f"{self.address.public} holds this lock without a transaction of its own: use a "
            "connection of yours, and fencelock.sql.verify() before it commits"
        )

    def verification(self, grant: Grant) -> Verification:
        """The statement by which the caller's own transaction verifies a lease."""
        raise Unsupported(
            f"{self.address.public} cannot be asked within a transaction: hand the fence to a guard"
        )


def read_options(engine: type[Engine], given: Mapping[str, object]) -> dict[str, object]:
    """Check the options given for an engine; the error of an unknown one names the known ones."""
    for option in given:
        if option not in engine.options:
            if RENAMED.get(option) in engine.options:
                raise Misconfigured(f"{option} is called {RENAMED[option]} now")
            known = ", ".join(sorted(engine.options)) or "none"
            raise Misconfigured(f"{engine.schemes[0]} has no option {option!r}; it knows: {known}")
    return {option: engine.options[option](value) for option, value in given.items()}
