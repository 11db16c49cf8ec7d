"""The lock service: every verb of the contract is a call of ``fencelock serve``.

The service translates calls into the verbs of an engine of its own, and keeps no state that
matters. So the recipe is that of the engine behind it; this module handles what a network in
between changes:

* The owner is the id of an acquire, made before it is sent: if the call is repeated, by any node, a
  holder gets the same fence and a waiter keeps its position. That resolves a lost reply.
* The ttl of a lease is counted from when its call was sent, on our clock, plus the time that the
  service reports to have waited before it called its engine. A frozen node, or a late reply, only
  shortens it.
* One poll serves all waiters of a client (``listener.py``).
* A release or a withdrawal ends an attempt; a delayed copy of its acquire is refused. An owner that
  tries again has another attempt number (``attempts.py``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import ClassVar

from ...engine import EVERY_PROMISE, Address, Engine
from ...errors import Misconfigured
from ...model import (
    Busy,
    Finding,
    Gone,
    Grant,
    Holding,
    Request,
    State,
    refused,
    renewed,
)
from ...world import Signal, World
from . import messages
from .attempts import Attempts
from .errors import problem_of
from .listener import Listener
from .messages import BATCH_MAX, Bodies
from .observers import Observers
from .replicas import Replicas
from .settings import OPTIONS, read, without_token

QUEUED, CONFLICT = 202, 409


class HttpEngine(Engine):
    """``http://`` and ``https://``: several hosts are replicas of one service."""

    is_service = True
    schemes = ("http", "https")
    options: ClassVar = OPTIONS
    drivers = ("h11",)
    traits = EVERY_PROMISE  # a guess; replaced by the service's own traits in ``open``

    @classmethod
    def settled(cls, address: Address) -> Address:
        """Move a token of the URL to the password, which no message shows."""
        return without_token(address)

    def __init__(self, world: World, address: Address) -> None:
        super().__init__(world, address)
        self._settings = settings = read(address)
        self._now = world.now
        self._replicas = Replicas(world, settings)
        self._bodies = Bodies(settings.prefix)
        self._attempts = Attempts()
        self._listener = Listener(
            world, self._replicas, self._bodies, self._attempts, self._withdraw
        )
        self._observers = Observers(world, self._replicas)

    async def open(self) -> None:
        about = await self._replicas.about(messages.read_about)
        self.traits, self.session_bound = about.traits, about.session_bound
        self.first_holds = about.first_holds
        if about.scope == "process" and len(self._settings.nodes) > 1:
            raise Misconfigured(
                f"{self.address.public} names several nodes, and each keeps locks of its own in "
                f"its memory ({about.engine}://): name one, or give them one store"
            )

    async def close(self) -> None:
        self._observers.close()
        await self._listener.close()
        self._replicas.close()

    def close_nowait(self) -> None:
        self._observers.close()
        self._listener.close_nowait()
        self._replicas.close()

    # Acquire, renew, release

    async def acquire(self, request: Request) -> Grant | Busy:
        if request.queue and (pushed := self.pushed_grant(request)) is not None:
            return pushed
        self._listener.exclude_from_polls(request.owner)
        attempt, joins = self._attempts.begin(request.owner), request.queue or request.waits
        body, sent_at = self._bodies.acquire(request, attempt, keep=joins), self._now()
        response = await self._replicas.send(
            "POST", "acquire", body, self._within(request.ttl), "calls"
        )
        if response.status == CONFLICT:
            kind, problem = problem_of(response)
            if kind == "busy":
                return messages.read_busy(problem, False)
            if kind == "superseded" and joins:  # a poll has taken over, and waits for it
                return refused(self._listener.queued(request.owner), None, True, "")
        if response.status == QUEUED:
            look_in = self._listener.queued(request.owner)
            return self._replicas.read(response, messages.read_position)._replace(look_in=look_in)
        return self._replicas.read(
            response, lambda answer: messages.read_lease(answer, request, sent_at, self._now())
        )

    def _within(self, ttl: float) -> float:
        """Return the timeout of a call, ``ttl`` at most: a later reply is of no use."""
        return min(ttl, self._settings.request_timeout)

    async def renew(self, grants: Sequence[Grant]) -> list[Grant | Gone]:
        answers: list[Grant | Gone] = []
        for first in range(0, len(grants), BATCH_MAX):
            some = grants[first : first + BATCH_MAX]
            wished, within = renewed(some, self._now()), min(grant.ttl for grant in some) / 3
            body = {"leases": [self._bodies.held(grant) for grant in some]}
            answers += await self._replicas.call(
                "renew",
                body,
                partial(messages.read_renewals, wished),
                self._within(within),
                "renewals",
            )
        return answers

    async def release(self, grant: Grant) -> bool:
        (freed,) = await self.release_all([grant])
        return freed

    async def release_all(self, grants: Sequence[Grant]) -> list[bool]:
        freed: list[bool] = []
        for first in range(0, len(grants), BATCH_MAX):
            some = grants[first : first + BATCH_MAX]
            leases = [self._bodies.held(one, self._attempts.number(one.owner)) for one in some]
            within = self._within(min(grant.ttl for grant in some))
            read = partial(messages.read_releases, len(some))
            freed += await self._replicas.call("release", {"leases": leases}, read, within)
            for grant in some:
                self._attempts.end(grant.owner)
        return freed

    async def withdraw(self, request: Request) -> None:
        self._listener.void(request.owner)
        try:
            await self._withdraw(request)
        finally:
            self._attempts.end(request.owner)
            self._listener.void(request.owner)  # a poll may have brought a grant meanwhile

    async def _withdraw(self, request: Request) -> None:
        name, owner, share = request.name, request.owner, request.share
        unwanted = self._bodies.unwanted(name, owner, share, self._attempts.number(owner))
        await self._replicas.call("withdraw", {"wants": [unwanted]}, messages.read_done)

    # Wait

    async def watch(self, request: Request, signal: Signal) -> None:
        self._listener.watch(request, signal)

    def pushed_grant(self, request: Request) -> Grant | None:
        return self._listener.pushed_grant(request.owner)

    async def unwatch(self, request: Request) -> None:
        self._listener.unwatch(request.owner)

    # Observe

    async def announce(self, name: str) -> None:
        await self._replicas.call("announce", self._bodies.name(name), messages.read_done)

    async def observe(self, name: str, signal: Signal) -> None:
        await self._observers.observe(self._bodies.name(name), signal)

    async def unobserve(self, name: str, signal: Signal) -> None:
        self._observers.unobserve(signal)

    # Remember

    async def remember(self, name: str, item: str, number: int, keep: float) -> None:
        body = {**self._bodies.name(name), "item": item, "number": number, "keep": keep}
        await self._replicas.call("remember", body, messages.read_done)

    async def recall(self, name: str) -> Mapping[str, int]:
        return await self._replicas.look("recall", self._bodies.name(name), messages.read_items)

    async def forget(self, name: str) -> None:
        await self._replicas.call("forget", self._bodies.name(name), messages.read_done)

    # Inspect

    async def inspect(self, name: str) -> State:
        body = self._bodies.name(name)
        return await self._replicas.look("inspect", body, self._bodies.read_state)

    async def scan(self, prefix: str) -> list[Holding]:
        found: list[Holding] = []
        after: str | None = None
        while True:
            query = self._bodies.page(prefix, after)
            some, after = await self._replicas.get("locks", self._bodies.read_page, query)
            found += some
            if after is None:
                return found

    async def revoke(self, name: str, reason: str) -> bool:
        body = {**self._bodies.name(name), "reason": reason}
        return await self._replicas.call("revoke", body, lambda answer: answer["revoked"] is True)

    async def diagnose(self) -> list[Finding]:
        from .doctor import diagnose

        return diagnose(self._settings, await self._replicas.about(messages.read_about))
