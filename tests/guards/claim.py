"""What is claimed of every guard, as experiments with real processes.

Each takes the processes of one test and raises AssertionError when the claim does not hold. They
know no resource: ``test_claim.py`` runs them over all, and ``test_harness.py`` over broken ones.
"""

from __future__ import annotations

import random
from typing import Any

from tests.guards.crew import Crew, Worker

PROCESSES = 16
FENCES_EACH = 8
KILLS = 100
ATTEMPTS = 20
LONG_S = 60.0  # the lease of one that nobody freezes: a stall of the machine must not end it


def freeze_a_writer(crew: Crew, *, guarded: bool) -> dict[str, int]:
    """Two holders in turn; the first is frozen between its check and its write.

    It is woken when the second has written. Returns what is left at the resource and how many
    increments were acknowledged: where these are more than the counter says, updates were lost.
    """
    first, second = crew.actors(2)
    before = first.ask("look")["value"]["value"]
    old = _freeze(first, guarded)
    new = _value(second.ask("begin", guarded=guarded, ttl=LONG_S))
    assert new > old, "the lock gave out fences that do not grow"
    done = _count(second.ask("finish", guarded=guarded))
    first.thaw()
    late = first.hear()
    refused = [late["stale"]] if "stale" in late else []
    if refused:
        assert refused == [{"offered": old, "highest": new}]
    after = second.ask("look")["value"]
    return {
        "acknowledged": done + _count(late),
        "counted": after["value"] - before,
        "refused": len(refused),
    }


def freeze_before_a_read(crew: Crew) -> None:
    """The same, but it is woken when the second has read and has not written yet.

    So the second one's read must have raised the mark: else it writes back what it read before.
    """
    first, second = crew.actors(2)
    before = first.ask("look")["value"]["value"]
    old = _freeze(first, guarded=True)
    new = _value(second.ask("begin", guarded=True, ttl=LONG_S))
    first.thaw()
    assert first.hear() == {"stale": {"offered": old, "highest": new}}
    assert _count(second.ask("finish", guarded=True)) == 1
    assert second.ask("look") == {"value": {"value": before + 1, "mark": new}}


def freeze_before_a_reader(crew: Crew) -> None:
    """The first is frozen before its write, and woken when a later reader has entered.

    What that has read must not change under it: the write is refused. A second reader, older than
    the first but not than any writer, is let in.
    """
    first, second = crew.actors(2)
    before = first.ask("look")["value"]["value"]
    old = _freeze(first, guarded=True)
    entered = second.ask("enter", fence=old + 2, reading=True)
    assert entered == {"value": before}
    first.thaw()
    assert first.hear() == {"stale": {"offered": old, "highest": old + 2}}
    assert second.ask("enter", fence=old + 1, reading=True) == {"value": before}
    assert second.ask("look") == {"value": {"value": before, "mark": old + 2}}


def _freeze(actor: Worker, guarded: bool) -> int:
    """Have it lock, read, check and freeze; its fence. A lease may be lost on a busy machine."""
    for _ in range(ATTEMPTS):
        fence = _value(actor.ask("begin", guarded=guarded))
        actor.tell("finish", guarded=guarded, freeze=True)
        try:
            actor.wait_frozen()
        except AssertionError as error:
            if "'lost'" not in str(error):
                raise
            actor.ask("abandon")
        else:
            return fence
    raise AssertionError(f"it lost its lease {ATTEMPTS} times before it could freeze")


def _value(answer: dict[str, Any]) -> int:
    value: int = answer["value"]
    return value


def _count(answer: dict[str, Any]) -> int:
    """1 when the write was acknowledged. The woken one may be told afterward that it was late."""
    return 0 if "stale" in answer else 1


def crowd(crew: Crew) -> None:
    """Many processes enter and write at once, with fences of their own: none out of order.

    Every write is the writer's own fence, and every entry says what it read. So the resource itself
    tells the order: whoever entered with F has seen all writes of smaller fences that were ever
    accepted, and none of a higher.
    """
    nest, (judge,) = crew.nest(), crew.actors(1)
    rows = [
        [number + 1 + turn * (PROCESSES + 1) for turn in range(FENCES_EACH)] + [number + 1]
        for number in range(PROCESSES)
    ]
    rows_tried = nest.ask("crowd", fences=rows)["value"]
    tried = [attempt for row in rows_tried for attempt in row]
    entered = {a["fence"]: a["read"] for a in tried if a["read"] is not None}
    written = [a["fence"] for a in tried if a["wrote"]]
    for fence, read in entered.items():
        assert read <= fence, f"{fence} entered although {read} had written"
        late = [other for other in written if read < other < fence]
        assert not late, f"{late} wrote after {fence} had entered"
    for row in rows_tried:  # its first fence again, after it has been at higher ones
        assert row[-1]["read"] is None, f"{row[-1]} was let in after {row[-2]}"
        assert not row[-1]["wrote"], f"{row[-1]} wrote after {row[-2]}"
    highest = max(fence for row in rows for fence in row)
    assert highest in written
    assert judge.ask("look") == {"value": {"value": highest, "mark": highest}}


def crowd_of_readers(crew: Crew) -> None:
    """Many processes read and write at once, with fences of their own: none out of order.

    Every third fence is a reader's, the others write themselves. Whoever read with F has seen all
    writes of smaller fences that were ever accepted, and none of a higher. Readers are refused by
    writers only: the last fences are readers', and all of them are let in.
    """
    nest, (judge,) = crew.nest(), crew.actors(1)
    writers = PROCESSES * FENCES_EACH * 3
    rows = [
        [number + 1 + turn * (PROCESSES + 1) for turn in range(FENCES_EACH)]
        + [writers + 3 * (PROCESSES - number)]
        for number in range(PROCESSES)
    ]
    rows_tried = nest.ask("crowd", fences=rows, sharing=True)["value"]
    tried = [attempt for row in rows_tried for attempt in row]
    read = {a["fence"]: a["read"] for a in tried if a["read"] is not None}
    written = [a["fence"] for a in tried if a["wrote"]]
    for fence, value in read.items():
        assert value <= fence, f"{fence} read although {value} had written"
        late = [other for other in written if value < other < fence]
        assert not late, f"{late} wrote after {fence} had read"
    assert all(row[-1]["read"] is not None for row in rows_tried), "a reader was refused by readers"
    highest = max(fence for row in rows for fence in row)
    assert judge.ask("look") == {"value": {"value": max(written, default=0), "mark": highest}}


def hunt(crew: Crew, kills: int = KILLS, seed: int = 0) -> None:
    """Kill a writer again and again, anywhere: the resource is always whole.

    Each writes its own fence. Whatever was acknowledged is there, and at most one more operation,
    wholly or not at all; it may be under way to a server and land a little later. Then the next
    fence is accepted, and shuts out what came before.
    """
    nest, (judge,) = crew.nest(), crew.actors(1)
    chance = random.Random(seed)
    mark = 0
    for kill in range(kills):
        first, after, point = mark + 1, chance.randrange(1, 3), chance.random() * 1.2
        last = nest.ask("hunt", first=first, after=after, point=point)["value"]
        left = judge.ask("look")["value"]
        where = f"kill {kill} of seed {seed}: done until {last}, then {left}"
        assert last >= first, where
        assert last <= left["value"] <= left["mark"] <= last + 1, where
        mark = last + 2  # higher than any that the dead one can have tried
        entered = judge.ask("enter", fence=mark)
        where += f", then {entered}"
        assert left["value"] <= entered["value"] <= last + 1, where
        assert judge.ask("look") == {"value": {"value": entered["value"], "mark": mark}}, where
        refused = {"stale": {"offered": mark - 1, "highest": mark}}
        assert judge.ask("write", value=-1, fence=mark - 1) == refused, where
        assert judge.ask("look") == {"value": {"value": entered["value"], "mark": mark}}, where
