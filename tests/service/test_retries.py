"""Calls that are sent twice, at once, late, or again elsewhere: one tenure, one fence."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

from fencelock import OutcomeUnknown, Unavailable, engines
from fencelock.engine import Engine
from fencelock.errors import FencelockError
from fencelock.model import Busy, Grant, Request, queued
from fencelock.service import handlers, messages, problems
from fencelock.service.access import ANONYMOUS, Access
from fencelock.service.audit import NoAudit
from fencelock.service.call import Answer, Call
from fencelock.service.events import Events
from fencelock.service.handlers import Service
from fencelock.service.node import Limits, owner_of
from fencelock.service.node import Node as ServiceNode
from fencelock.service.problems import Problem
from fencelock.service.tickets import Tickets
from fencelock.world import Signal
from fencelock.worlds.aio import AioWorld
from tests.service.nodes import CUTS, Node, answer_of, held, new_id

LONG = 55


def test_a_call_that_is_sent_many_times_at_once_is_one_tenure(node: Node) -> None:
    """H80: all are told the same fence, and one release frees it."""
    mine = {"name": "doubled", "id": new_id(), "ttl": 60}
    replies = [answer_of(peer) for peer in [node.begin("acquire", mine) for _ in range(20)]]
    assert {reply.status for reply in replies} == {200}
    assert len({reply.body["fence"] for reply in replies}) == 1
    assert len(node.inspect("doubled")["holders"]) == 1
    assert node.release(replies[0].body) == [True]
    assert node.inspect("doubled")["holders"] == []


def test_renewals_and_releases_can_be_repeated(node: Node) -> None:
    """H80: the second says what is true by then."""
    lease = node.acquire("repeated", ttl=60)
    body = {"leases": [held(lease), held(lease)]}
    peers = [node.begin("renew", body) for _ in range(10)]
    for peer in peers:
        assert [one["held"] for one in answer_of(peer).body["leases"]] == [True, True]
    released = [answer_of(peer) for peer in [node.begin("release", body) for _ in range(10)]]
    assert sum(one["released"] for reply in released for one in reply.body["leases"]) == 1
    assert node.renew(lease)[0]["held"] is False


@pytest.mark.parametrize("verb", ["release", "withdraw"])
def test_a_delayed_copy_of_what_ended_an_attempt_does_not_end_the_next(
    node: Node, verb: str
) -> None:
    """H80: the id is the same, and the number of the attempt is not."""
    lease = node.acquire("tried again", ttl=60)
    mine = {"name": "tried again", "id": lease["id"]}
    wants = {"release": {"leases": [held(lease)]}, "withdraw": {"wants": [mine]}}
    assert node.call(verb, wants[verb]).status == 200
    again = node.call("acquire", {**mine, "ttl": 60, "attempt": 1}).body
    copy = node.call(verb, wants[verb])
    assert copy.body.get("leases", [{"released": False}]) == [{"released": False}]
    assert node.renew(again)[0]["held"] is True
    last = {"release": {"leases": [{**held(again), "attempt": 1}]},
            "withdraw": {"wants": [{**mine, "attempt": 1}]}}  # fmt: skip
    assert node.call(verb, last[verb]).status == 200
    assert node.inspect("tried again")["holders"] == []


def test_a_delayed_renewal_or_release_harms_nobody_who_came_later(node: Node) -> None:
    """H80: they are conditioned on the id and the fence, not on the name."""
    lease = node.acquire("delayed", ttl=60)
    node.release(lease)
    later = node.acquire("delayed", ttl=60)
    assert node.renew(lease)[0]["held"] is False
    assert node.release(lease, {**lease, "fence": later["fence"]}) == [False, False]
    node.call("withdraw", {"wants": [{"name": "delayed", "id": lease["id"]}]})
    assert node.renew(later)[0] == {"held": True, "ttl": 60.0}
    assert node.call("acquire", {"name": "delayed", "id": lease["id"]}).problem == "id-spent"
    node.release(later)


@pytest.mark.parametrize("cut", CUTS)
def test_a_call_that_is_sent_again_after_a_cut_gets_and_keeps_the_lock(
    cut: str, node: Node
) -> None:
    """H80: what the first call takes back is not what the second was granted."""
    for number in range(10):
        name = f"again-{cut}-{number}"
        lease = node.acquire(name, ttl=60)
        mine = {"name": name, "id": new_id(), "wait": LONG, "ttl": 60}
        first = node.begin("acquire", mine)
        node.queue(name, 1)
        node.process.send_signal(signal.SIGSTOP)
        released = node.begin("release", {"leases": [held(lease)]})
        second = node.begin("acquire", mine)
        CUTS[cut](first)
        node.process.send_signal(signal.SIGCONT)
        assert answer_of(released).status == 200
        got = answer_of(second)
        assert got.status == 200, got
        assert node.renew(got.body)[0]["held"] is True
        assert node.release(got.body) == [True]


def test_an_answer_that_was_lost_is_asked_for_again(node: Node) -> None:
    """H80: the same id, the same tenure, although the first answer was never read."""
    mine = {"name": "lost", "id": new_id(), "ttl": 60}
    unread = node.begin("acquire", mine)
    assert unread.recv(1, socket.MSG_PEEK)
    got = node.acquire(**mine)  # type: ignore[arg-type]
    unread.close()
    assert node.renew(got)[0]["held"] is True
    assert node.release(got) == [True]


def test_one_id_for_two_names_is_two_locks(node: Node) -> None:
    """H80: neither is taken for the other, in the queue or among what was given back."""
    one = new_id()
    first, second = node.acquire("two-1", id=one, ttl=60), node.acquire("two-2", id=one, ttl=60)
    shared = node.acquire("two-1", id=one, ttl=60, role="read")
    assert node.release(first) == [True]
    assert [answer["held"] for answer in node.renew(second, shared)] == [True, True]
    blocker = node.acquire("two-3", ttl=60)
    wants = [{"name": name, "id": one, "ttl": 60} for name in ("two-3", "two-4")]
    (granted,) = node.call("wait", {"inbox": "i", "wants": wants}).body["granted"]
    assert granted["name"] == "two-4"
    node.call("withdraw", {"wants": [{"name": "two-3", "id": one}]})
    assert node.release(second, shared, granted, blocker) == [True] * 4


# The same in one process, where the moment can be chosen.

Verb = Callable[..., Awaitable[Any]]


class Held:
    """A verb of an engine that waits to be let go."""

    def __init__(self, engine: Engine, verb: str) -> None:
        self.reached, self.go = asyncio.Event(), asyncio.Event()
        inner: Verb = getattr(engine, verb)

        async def wrapper(*words: Any) -> Any:
            self.reached.set()
            await self.go.wait()
            return await inner(*words)

        setattr(engine, verb, wrapper)


async def made() -> Service:
    world = AioWorld()
    kind, address = engines.resolve(f"memory://{new_id()}", {})
    engine = kind(world, address)
    await engine.open()
    node = ServiceNode(world, engine, Access(None), NoAudit(), Limits())
    return Service(node, Tickets(node), Events(node))


def call(service: Service) -> Call:
    world = service.node.world
    return Call(ANONYMOUS, "", {}, world.now(), world.signal())


async def acquire(service: Service, one: Call, body: messages.Acquire) -> Answer:
    """Make a call as the application does."""
    try:
        return await handlers.acquire(service, one, body)
    finally:
        service.node.finish(one)


def run(scenario: Callable[[Service], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(60):
            await scenario(await made())

    asyncio.run(main())


async def is_held(service: Service, name: str) -> bool:
    return bool((await service.node.engine.inspect(name)).holders)


def test_a_call_that_leaves_slowly_takes_nothing_from_the_one_that_came_after() -> None:
    """H80: the first hung up and ends its watch when the second is granted the lock."""

    async def scenario(service: Service) -> None:
        blocker = messages.Acquire(name="n", id=new_id(), ttl=60)
        await acquire(service, call(service), blocker)
        body = messages.Acquire(name="n", id=new_id(), ttl=60, wait=LONG)
        first = call(service)
        waiting = asyncio.create_task(acquire(service, first, body))
        while not (await service.node.engine.inspect("n")).waiters:  # noqa: ASYNC110
            await asyncio.sleep(0)
        slow = Held(service.node.engine, "unwatch")
        first.hang_up()
        await slow.reached.wait()
        owner = owner_of(ANONYMOUS.name, str(blocker.id), "n", None)
        await service.node.engine.withdraw(Request("n", owner, 60))
        second = asyncio.create_task(acquire(service, call(service), body))
        await asyncio.sleep(0.01)
        slow.go.set()
        answer = await second
        with pytest.raises(Problem):
            await waiting
        assert answer.status == 200
        assert await is_held(service, "n"), "the first call took back what the second was granted"

    run(scenario)


def test_a_sweeper_takes_nothing_from_a_call_that_has_just_come_back() -> None:
    """H80: its place was kept too long; it comes back at the moment at which it is forgotten."""

    async def scenario(service: Service) -> None:
        node, tickets, _ = service
        blocker = messages.Acquire(name="n", id=new_id(), ttl=60)
        await acquire(service, call(service), blocker)
        body = messages.Acquire(name="n", id=new_id(), ttl=60, keep=True)
        assert (await acquire(service, call(service), body)).status == 202
        owner = owner_of(ANONYMOUS.name, str(blocker.id), "n", None)
        asked = Held(node.engine, "acquire")
        second = asyncio.create_task(acquire(service, call(service), body))
        await asked.reached.wait()
        await node.engine.withdraw(Request("n", owner, 60))  # the push comes to nobody
        slow = Held(node.engine, "withdraw")
        sweeper = asyncio.create_task(tickets.sweep())
        await asyncio.sleep(0.05)
        asked.go.set()
        assert (await second).status == 200
        slow.go.set()
        await asyncio.sleep(0.05)
        sweeper.cancel()
        assert await is_held(service, "n"), "the sweeper took back what was granted"

    run(scenario)


def test_a_call_that_comes_while_its_place_is_swept_out_waits_for_that() -> None:
    """H80: it would be granted what the sweeper is about to give back."""

    async def scenario(service: Service) -> None:
        node, tickets, _ = service
        blocker = messages.Acquire(name="n", id=new_id(), ttl=60)
        await acquire(service, call(service), blocker)
        body = messages.Acquire(name="n", id=new_id(), ttl=60, keep=True)
        assert (await acquire(service, call(service), body)).status == 202
        owner = owner_of(ANONYMOUS.name, str(blocker.id), "n", None)
        slow = Held(node.engine, "unwatch")
        await node.engine.withdraw(Request("n", owner, 60))  # the push comes to nobody
        sweeper = asyncio.create_task(tickets.sweep())
        await slow.reached.wait()
        second = asyncio.create_task(acquire(service, call(service), body))
        await asyncio.sleep(0.05)
        slow.go.set()
        assert (await second).status == 200
        await asyncio.sleep(0.05)
        sweeper.cancel()
        assert await is_held(service, "n"), "the sweeper took back what was granted"

    run(scenario)


def test_what_was_withdrawn_while_it_was_asked_for_is_not_kept() -> None:
    """H80: the answer of the engine comes after the client has taken its attempt back."""

    async def scenario(service: Service) -> None:
        body = messages.Acquire(name="n", id=new_id(), ttl=60)
        asked = Held(service.node.engine, "acquire")
        first = asyncio.create_task(acquire(service, call(service), body))
        await asked.reached.wait()
        unwanted = messages.Unwanted(name="n", id=str(body.id))
        withdrawal = messages.Withdraw(wants=[unwanted])
        second = asyncio.create_task(handlers.withdraw(service, call(service), withdrawal))
        while not service.node.is_spent(owner_of(ANONYMOUS.name, str(body.id), "n", None), 0):  # noqa: ASYNC110
            await asyncio.sleep(0)
        asked.go.set()
        with pytest.raises(Problem, match="id-spent"):
            await first
        await second
        assert not await is_held(service, "n")

    run(scenario)


def test_a_push_that_an_older_poll_took_wakes_the_newest() -> None:
    """H80: three polls for one id, while the engine's answer to the first is late."""

    async def scenario(service: Service) -> None:
        node, tickets, _ = service
        blocker = messages.Acquire(name="n", id=new_id(), ttl=60)
        await acquire(service, call(service), blocker)
        request = queued(Request("n", "o" * 32, 60))
        ask: Verb = node.engine.acquire
        answered, go = asyncio.Event(), asyncio.Event()
        go.set()

        async def answer_late(request: Request) -> Any:
            answer = await ask(request)
            answered.set()
            await go.wait()
            return answer._replace(look_in=LONG) if isinstance(answer, Busy) else answer

        async def poll(one: Call) -> list[Grant]:
            begun = await tickets.begin(one, "i", [request])
            grants = await tickets.granted(begun, node.world.now() + LONG)
            await tickets.end(begun, grants, goes_on=begun.superseded)
            return grants

        node.engine.acquire = answer_late  # type: ignore[method-assign]
        first = asyncio.create_task(poll(call(service)))
        await until(lambda: ticket_signals(tickets))
        ticket = tickets._by_owner[request.owner]
        await until(lambda: ticket.look_at > 0)
        answered.clear()
        go.clear()
        ticket.set()
        await answered.wait()
        second_call, third_call = call(service), call(service)
        second = asyncio.create_task(poll(second_call))
        await until(lambda: second_call.wake in ticket_signals(tickets))
        owner = owner_of(ANONYMOUS.name, str(blocker.id), "n", None)
        await node.engine.withdraw(Request("n", owner, 60))  # the push
        await until(lambda: not ticket.woken)  # the second has taken it, and waits for its turn
        third = asyncio.create_task(poll(third_call))
        await until(lambda: third_call.wake in ticket_signals(tickets))
        go.set()
        async with asyncio.timeout(20):
            (grant,) = await third
        assert grant.owner == request.owner
        assert [*await first, *await second] == []

    run(scenario)


class Away:
    """A verb of an engine that fails while the engine is away."""

    def __init__(self, engine: Engine, verb: str) -> None:
        self.tried, self.back = asyncio.Event(), asyncio.Event()
        inner: Verb = getattr(engine, verb)

        async def wrapper(*words: Any) -> Any:
            self.tried.set()
            if not self.back.is_set():
                raise Unavailable
            return await inner(*words)

        setattr(engine, verb, wrapper)


async def answer_to(service: Service, body: messages.Acquire, resolves: bool = False) -> Problem:
    """Make a call that ends with a problem, and return that."""
    one = call(service)
    one.resolves = resolves
    try:
        await acquire(service, one, body)
    except Problem as problem:
        return problem
    except FencelockError as error:
        return problems.of(error)
    raise AssertionError("it was granted")


async def left(service: Service, name: str) -> None:
    """Wait until nobody stands in the queue, with a sweeper that has begun now.

    It does not wait for clients that come back: without its ticks, the node counts as frozen soon.
    """
    for ticket in service.tickets._by_owner.values():
        ticket.kept_until = 0.0
    sweeper = asyncio.create_task(service.tickets.sweep())
    await until_waiters(service, name, 0)
    await until(lambda: not len(service.tickets))
    sweeper.cancel()


async def until_waiters(service: Service, name: str, count: int) -> None:
    while len((await service.node.engine.inspect(name)).waiters) != count:  # noqa: ASYNC110
        await asyncio.sleep(0)


@pytest.mark.parametrize("given", [None, "own"])
def test_a_wait_whose_place_is_not_taken_back_ends_in_doubt(given: str | None) -> None:
    """H80: "busy" or "nothing happened" would be said of a place that becomes a holder."""

    async def scenario(service: Service) -> None:
        await acquire(service, call(service), messages.Acquire(name="n", id=new_id(), ttl=60))
        away = Away(service.node.engine, "withdraw")
        body = messages.Acquire(name="n", id=given and new_id(), ttl=60, wait=0.01)
        problem = await answer_to(service, body)
        assert (problem.kind, problem.body()["may_have_happened"]) == ("outcome-unknown", True)
        await until_waiters(service, "n", 1)
        away.back.set()
        await left(service, "n")

    run(scenario)


@pytest.mark.parametrize("given", [None, "own"])
def test_an_engine_that_fails_those_who_wait_leaves_them_in_doubt(given: str | None) -> None:
    """H80: the wait has joined the queue; then the engine is away, also for the withdrawal."""

    async def scenario(service: Service) -> None:
        node, tickets, _ = service
        await acquire(service, call(service), messages.Acquire(name="n", id=new_id(), ttl=60))
        body = messages.Acquire(name="n", id=given and new_id(), ttl=60, wait=LONG)
        waiting = asyncio.create_task(answer_to(service, body))
        await until_waiters(service, "n", 1)
        aways = [Away(node.engine, verb) for verb in ("acquire", "withdraw")]
        (ticket,) = tickets._by_owner.values()
        ticket.set()
        problem = await waiting
        assert (problem.kind, problem.body()["may_have_happened"]) == ("outcome-unknown", True)
        for away in aways:
            away.back.set()
        await left(service, "n")

    run(scenario)


def test_a_poll_says_that_nothing_happened_only_where_all_stood_in_the_queue_before() -> None:
    """H80: its client goes on at another node then, with the places that it had."""

    async def scenario(service: Service) -> None:
        node, tickets, _ = service
        await acquire(service, call(service), messages.Acquire(name="n", id=new_id(), ttl=60))
        want = messages.Want(name="n", id=new_id(), ttl=60)
        body = messages.WaitFor(inbox="i", wants=[want], hold=LONG)
        waiting = asyncio.create_task(handlers.wait(service, call(service), body))
        await until_waiters(service, "n", 1)
        away = Away(node.engine, "acquire")
        (ticket,) = tickets._by_owner.values()
        ticket.set()
        with pytest.raises(OutcomeUnknown):
            await waiting
        with pytest.raises((Problem, Unavailable)):
            await handlers.wait(service, call(service), body)
        away.back.set()
        assert len(tickets) == 1

    run(scenario)


def test_a_place_that_nobody_polls_for_is_left_although_the_engine_was_away() -> None:
    """H80: what was not confirmed is tried again; a ghost would hold the lock in the end."""

    async def scenario(service: Service) -> None:
        node, tickets, _ = service
        await acquire(service, call(service), messages.Acquire(name="n", id=new_id(), ttl=60))
        body = messages.Acquire(name="n", id=new_id(), ttl=60, keep=True)
        assert (await acquire(service, call(service), body)).status == 202
        (ticket,) = tickets._by_owner.values()
        ticket.kept_until = 0.0
        away = Away(node.engine, "withdraw")
        sweeper = asyncio.create_task(tickets.sweep())
        await away.tried.wait()
        await until(lambda: ticket.leave_by is not None)
        sweeper.cancel()
        away.back.set()
        await left(service, "n")

    run(scenario)


def test_who_comes_back_to_a_place_that_was_not_left_keeps_it() -> None:
    async def scenario(service: Service) -> None:
        node, tickets, _ = service
        blocker = messages.Acquire(name="n", id=new_id(), ttl=60)
        await acquire(service, call(service), blocker)
        body = messages.Acquire(name="n", id=new_id(), ttl=60, keep=True)
        assert (await acquire(service, call(service), body)).status == 202
        (ticket,) = tickets._by_owner.values()
        ticket.kept_until = 0.0
        away = Away(node.engine, "withdraw")
        sweeper = asyncio.create_task(tickets.sweep())
        await away.tried.wait()
        await until(lambda: ticket.leave_by is not None)
        node._failures = 0  # the engine is back for others
        again = messages.Acquire(name="n", id=body.id, ttl=60, wait=LONG)
        waiting = asyncio.create_task(acquire(service, call(service), again))
        await until(lambda: ticket.poll is not None)
        away.back.set()
        owner = owner_of(ANONYMOUS.name, str(blocker.id), "n", None)
        await node.engine.withdraw(Request("n", owner, 60))  # the push
        assert (await waiting).status == 200
        sweeper.cancel()
        assert len(tickets) == 0
        assert await is_held(service, "n")

    run(scenario)


@pytest.mark.parametrize("resolves", [False, True])
def test_a_grant_that_comes_too_late_did_not_happen_only_if_it_was_taken_back(
    resolves: bool,
) -> None:
    """H80: a client that asks again is told to, because nothing is taken back behind its back."""

    async def scenario(service: Service) -> None:
        engine = service.node.engine
        ask: Verb = engine.acquire

        async def late(request: Request) -> Any:
            return (await ask(request))._replace(valid_until=0.0)

        engine.acquire = late  # type: ignore[method-assign]
        body = messages.Acquire(name="n", id=new_id(), ttl=60)
        problem = await answer_to(service, body, resolves)
        assert problem.kind == ("outcome-unknown" if resolves else "engine-unavailable")
        assert await is_held(service, "n") is resolves

    run(scenario)


async def until(holds: Callable[[], object]) -> None:
    while not holds():  # noqa: ASYNC110
        await asyncio.sleep(0)


def ticket_signals(tickets: Tickets) -> list[Signal]:
    """Return the signals of the polls that have a ticket."""
    return [one.poll.call.wake for one in tickets._by_owner.values() if one.poll is not None]


def test_a_defect_of_an_engine_ends_the_sweeping_of_one_waiter_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario(service: Service) -> None:
        node, tickets, _ = service
        logged: list[str] = []
        node.log = logged.append
        for name in ("n", "m"):
            await acquire(service, call(service), messages.Acquire(name=name, id=new_id(), ttl=60))
            body = messages.Acquire(name=name, id=new_id(), ttl=60, keep=True)
            assert (await acquire(service, call(service), body)).status == 202
        unwatch = node.engine.unwatch

        async def fail_once(request: Request) -> None:
            monkeypatch.setattr(node.engine, "unwatch", unwatch)
            raise LookupError("a defect")

        monkeypatch.setattr(node.engine, "unwatch", fail_once)
        monkeypatch.setattr("fencelock.service.tickets._ends_at", lambda ticket: 0.0)
        sweeper = asyncio.create_task(tickets.sweep())
        await asyncio.wait([sweeper], timeout=0.5)
        assert not sweeper.done()
        assert len(tickets) == 0
        sweeper.cancel()
        assert [text for text in logged if "a defect" in text]

    run(scenario)
