"""Flaws to plant in the service and in its client engine, to see that the judge can say no to them.

Each is a mistake that services for locks make, or that this one has made: two were found by the
simulation before they were planted here. `SERVICE_FLAWS` says where each shows, within how many
seeds, and which checkers may say so.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from fencelock.engines.http import listener
from fencelock.engines.http import messages as http_messages
from fencelock.engines.http.listener import Listener
from fencelock.engines.http.messages import LOOK_S, read_lease
from fencelock.errors import FencelockError, OutcomeUnknown
from fencelock.model import Grant, Request
from fencelock.service import calls, handlers, messages
from fencelock.service.call import Answer, Call
from fencelock.service.handlers import Service
from fencelock.service.node import Node
from fencelock.service.tickets import Tickets
from fencelock.world import World, sleep
from tests.sim.flaws import TWO, Flaw, Patch


def take_back_what_another_node_told(patch: Patch) -> None:
    """A grant whose answer nobody reads is given back, though its client has it by another node."""

    init = Call.__init__

    def forgetful(self: Call, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        self.resolves = False

    patch.setattr(Call, "__init__", forgetful)


def count_from_the_answer(patch: Patch) -> None:
    """A client counts its lease from when the answer came."""

    def late(answer: Any, request: Request, sent_at: float, now: float) -> Grant:
        return read_lease(answer, request, now, now)

    patch.setattr(http_messages, "read_lease", late)
    patch.setattr(listener, "read_lease", late)


def tell_of_a_longer_wait(patch: Patch) -> None:
    """A node says that it waited until the engine had answered, and not until it asked."""
    leases = handlers._leases

    def longer(service: Service, call: Call, won: Any) -> list[messages.Lease]:
        found = leases(service, call, won)
        for lease in found:
            lease.waited = service.node.world.now() - call.received_at
        return found

    patch.setattr(handlers, "_leases", longer)


def grant_a_spent_id(patch: Patch) -> None:
    """A delayed copy of a call is granted what was given back."""
    patch.setattr(Node, "refuse_spent", lambda *_: None)


def renew_by_itself(patch: Patch) -> None:
    """A node renews what it has granted, for as long as the engine lets it."""
    lease_answer = handlers._lease_answer

    async def keep(world: World, node: Node, grant: Grant) -> None:
        while True:
            await sleep(world, grant.ttl / 3)
            try:
                (answer,) = await node.engine.renew([grant])
            except OutcomeUnknown:
                continue
            if not isinstance(answer, Grant):
                return

    def kept(service: Service, call: Call, request: Request, grant: Grant, given: str) -> Answer:
        node = service.node
        node.world.spawn(keep(node.world, node, grant), "renew")
        return lease_answer(service, call, request, grant, given)

    patch.setattr(handlers, "_lease_answer", kept)


def renew_from_memory(patch: Patch) -> None:
    """A node says that a lease goes on, as it did the last time, and asks its engine afterwards."""
    entry = calls.CALLS["/v1/renew"]

    async def ask(service: Service, call: Call, body: messages.Renew) -> None:
        try:
            await handlers.renew(service, call, body)
        except FencelockError:
            pass

    async def believe(service: Service, call: Call, body: messages.Renew) -> Answer:
        service.node.world.spawn(ask(service, call, body), "renew")
        held = [messages.Renewal(True, ttl=lease.ttl) for lease in body.leases]
        return Answer(messages.Renewed(leases=held))

    patch.setitem(calls.CALLS, "/v1/renew", entry._replace(handler=believe))


def poll_on_for_who_withdrew(patch: Patch) -> None:
    """The ticket of an attempt that was withdrawn stays, and is looked after."""

    async def stay(self: Tickets, owner: str) -> None:
        return None

    patch.setattr(Tickets, "forget", stay)


def forget_who_got_it_too_late(patch: Patch) -> None:
    """Who gives a late grant back and waits on is polled for no more."""
    patch.setattr(Listener, "queued", lambda *_: LOOK_S)


_flaw = partial(Flaw, backend="service")
SERVICE_FLAWS = {
    "take_back_what_another_node_told": _flaw(
        take_back_what_another_node_told, climate="cuts", seeds=200, says=TWO
    ),
    "count_from_the_answer": _flaw(count_from_the_answer, climate="slow", seeds=60, says=TWO),
    "tell_of_a_longer_wait": _flaw(tell_of_a_longer_wait, climate="slow", seeds=60, says=TWO),
    "grant_a_spent_id": _flaw(
        grant_a_spent_id, climate="copies", seeds=20, says={"no_false_word", "left_behind"}
    ),
    "renew_by_itself": _flaw(
        renew_by_itself, climate="crashes", seeds=10, says={"nobody_sleeps", "no_orphan"}
    ),
    "renew_from_memory": _flaw(renew_from_memory, climate="cuts", seeds=60, says=TWO),
    "poll_on_for_who_withdrew": _flaw(
        poll_on_for_who_withdrew,
        climate="cancels",
        seeds=20,
        says={"no_false_word", "left_behind", "nobody_sleeps"},
    ),
    "forget_who_got_it_too_late": _flaw(
        forget_who_got_it_too_late, climate="pauses", seeds=120, says={"nobody_sleeps"}
    ),
}
