"""Histories of semaphores, read/write locks, elections and schedules: those that a checker must
reject, each with its name, and others that look alike."""

from __future__ import annotations

from tests.judge.telling import Told, downgrade, look, note, read, run, rw, shared, slot, term

ANN_WAKES = [*note("ann", "pause", 1.2), *note("ann", "resume", 6.0)]
CYD_WAITS = slot("cyd", 9, 0, 1.5, 4.0, left=4.1)
ANN_WRITES = rw("write", "ann", 5, 1.0, 1.1, left=5.0)
BOB_WAITS = rw("write", "bob", 8, 1.5, 4.0, left=4.2)
DAN_COMES = rw("read", "dan", 7, 1.8, 2.5, left=2.7)
DONE = run("ann", 4, 1.0, 2.0)

BAD: dict[str, tuple[str, list[Told]]] = {
    "three hold two": (
        "within_limit",
        [
            slot("ann", 5, 0, 1.0, 1.1, left=3.0),
            slot("bob", 6, 1, 1.0, 1.2, left=3.0),
            slot("cyd", 7, 2, 1.3, 1.4, left=3.0),
        ],
    ),
    "three hold two, and nobody says which slot": (
        "within_limit",
        [slot(who, fence, None, 1.0, 1.1, left=3.0) for fence, who in enumerate("abc", 5)],
    ),
    "a third comes when one wakes up and is not told": (
        "within_limit",
        [
            slot("ann", 5, 0, 1.0, 1.1, left=9.0),
            ANN_WAKES,
            slot("bob", 6, 1, 1.0, 1.2, left=9.0),
            slot("cyd", 7, 2, 4.0, 4.1, left=9.0),
        ],
    ),
    "one slot is given to two": (
        "one_per_slot",
        [slot("ann", 5, 0, 1.0, 1.1, left=3.0), slot("bob", 6, 0, 1.2, 1.3, left=2.0)],
    ),
    "the fence of a slot goes back": (
        "slot_fences_grow",
        [slot("ann", 5, 0, 1.0, 1.1, left=2.0), slot("bob", 4, 0, 2.2, 2.3)],
    ),
    "the fence of a slot is given twice": (
        "slot_fences_grow",
        [slot("ann", 5, 0, 1.0, 1.1, left=2.0), slot("bob", 5, 0, 2.2, 2.3)],
    ),
    "a writer comes beside a reader": (
        "no_reader_beside_writer",
        [rw("read", "ann", 5, 1.0, 1.1, left=3.0), rw("write", "bob", 6, 1.2, 1.3, left=2.0)],
    ),
    "a reader comes beside a writer": (
        "no_reader_beside_writer",
        [ANN_WRITES, rw("read", "bob", 6, 1.2, 1.3, left=2.0)],
    ),
    "a writer comes beside a writer": (
        "no_reader_beside_writer",
        [ANN_WRITES, rw("write", "bob", 6, 1.2, 1.3, left=2.0)],
    ),
    "a writer comes beside one that has become a reader": (
        "no_reader_beside_writer",
        [ANN_WRITES, downgrade("ann", 5, 2.0, 2.1), rw("write", "bob", 6, 1.2, 2.5, left=3.0)],
    ),
    "a reader comes before a writer has become one": (
        "no_reader_beside_writer",
        [ANN_WRITES, downgrade("ann", 5, 2.0, 2.1), rw("read", "bob", 6, 1.2, 1.9, left=3.0)],
    ),
    "the fence of a reader is below that of the writer before": (
        "fences_grow",
        [ANN_WRITES, rw("read", "bob", 4, 6.0, 6.1)],
    ),
    "a reader is let past a writer that waits": (
        "first_come_first_served",
        [
            rw("read", "ann", 5, 1.0, 1.1, left=3.9),
            BOB_WAITS,
            note("bob", "queued", 1.6),
            DAN_COMES,
            note("dan", "kept", 2.4, about=DAN_COMES),
            note("bob", "kept", 3.95, about=BOB_WAITS),
        ],
    ),
    "a slot goes to whoever came later": (
        "first_come_first_served",
        [
            slot("ann", 5, 0, 1.0, 1.1, left=2.0, limit=1),
            slot("bob", 9, 0, 1.5, 4.0, limit=1),
            note("bob", "queued", 1.6),
            slot("cyd", 8, 0, 1.7, 2.3, left=2.5, limit=1),
        ],
    ),
    "a waiter sleeps beside a slot": (
        "nobody_sleeps",
        [
            slot("ann", 5, 0, 1.0, 1.1, left=5.0),
            slot("bob", 6, 1, 1.0, 1.2, left=2.0),
            CYD_WAITS,
        ],
    ),
    "a reader sleeps beside readers": (
        "nobody_sleeps",
        [rw("read", "ann", 5, 1.0, 1.1, left=5.0), rw("read", "bob", 6, 1.5, 4.0)],
    ),
    "a slot is left behind": (
        "no_orphan",
        [slot("ann", 5, 0, 1.0, 1.1, left=2.0, limit=1), slot("bob", 0, None, 4.0, 4.1, "fail")],
    ),
    "a holder of a slot is not told": (
        "told_in_time",
        [slot("ann", 5, 0, 1.0, 1.1, left=5.0), slot("bob", 6, 0, 2.0, 2.1, left=5.0)],
    ),
    "an epoch is given twice": (
        "one_leader",
        [term("ann", 5, 1.0, 1.1, left=2.0), term("bob", 5, 2.2, 2.3)],
    ),
    "an epoch goes back": (
        "one_leader",
        [term("ann", 5, 1.0, 1.1, left=2.0), term("bob", 4, 2.2, 2.3)],
    ),
    "the leader that was is seen once more": (
        "one_leader",
        [term("ann", 5, 1.0, 1.1, left=2.0), term("bob", 6, 2.2, 2.3), look("cyd", 5, 2.4, 2.5)],
    ),
    "two see the leaders the other way round": (
        "one_leader",
        [
            term("ann", 5, 1.0, 1.1, left=2.0),
            term("bob", 6, 1.5, 3.0),
            look("cyd", 6, 2.4, 2.5),
            look("dan", 5, 2.6, 2.7),
        ],
    ),
    "a window is worked in twice": ("once_per_window", [DONE, run("bob", 4, 2.1, 2.3)]),
    "two work in a window at once": ("once_per_window", [DONE, run("bob", 4, 1.1, 1.9)]),
    "work under one key is done twice": (
        "once_per_window",
        [run("ann", None, 1.0, 2.0), run("bob", None, 2.1, 2.3)],
    ),
    "work is skipped that has failed": (
        "skipped_when_done",
        [run("ann", 4, 1.0, 2.0, "fail", "it raised"), run("bob", 4, 4.5, 4.6, "fail", "skipped")],
    ),
    "work is skipped that was done in the window before": (
        "skipped_when_done",
        [DONE, run("bob", 5, 3.5, 3.6, "fail", "skipped")],
    ),
    "work is skipped that may have been done in the window before": (
        "skipped_when_done",
        [run("ann", 4, 1.0, 2.0, "unknown"), run("bob", 5, 9.0, 9.1, "fail", "skipped")],
    ),
    "work is skipped long after whoever was at it was killed": (
        "skipped_when_done",
        [
            run("ann", 4, 1.0, None),
            note("ann", "crash", 1.5),
            run("bob", 5, 9.0, 9.1, "fail", "skipped"),
        ],
    ),
    "a reader is older than who wrote": (
        "nothing_stale",
        [
            shared(read("ann", 7, 1.0, 1.1, 1), "write"),
            shared(read("bob", 5, 1.2, 1.3, 1), "read"),
        ],
    ),
    "a writer is older than who read": (
        "nothing_stale",
        [
            shared(read("ann", 7, 1.0, 1.1, 1), "read"),
            shared(read("bob", 5, 1.2, 1.3, 1), "write"),
        ],
    ),
}
GOOD: dict[str, list[Told]] = {
    "two hold two, and a third one after the other": [
        slot("ann", 5, 0, 1.0, 1.1, left=2.0),
        slot("bob", 6, 1, 1.0, 1.2, left=5.0),
        slot("cyd", 7, 0, 1.5, 2.2, left=4.0),
    ],
    "the fences of two slots have nothing in common": [
        slot("ann", 5, 0, 1.0, 1.1, left=5.0),
        slot("bob", 4, 1, 2.0, 2.1, left=5.0),
    ],
    "a paused holder of a slot is told when it wakes up": [
        slot("ann", 5, 0, 1.0, 1.1),
        ANN_WAKES,
        slot("bob", 6, 1, 1.0, 1.2, left=9.0),
        slot("cyd", 7, 0, 1.5, 4.0, left=9.0),
        note("ann", "told", 6.005, fence=5),
    ],
    "a waiter has no slot beside a dead holder": [
        slot("ann", 5, 0, 1.0, 1.1),
        note("ann", "crash", 1.2),
        slot("bob", 6, 1, 1.0, 1.2, left=5.0),
        slot("cyd", 7, 0, 1.3, 3.3, left=5.0),
    ],
    "a mutex and a semaphore of one name": [
        slot("ann", 5, 0, 1.0, 1.1, left=5.0),
        slot("bob", 6, 1, 1.0, 1.2, left=5.0),
        term("cyd", 7, 1.3, 1.4, left=2.0),
        rw("write", "dan", 8, 1.3, 1.4, left=2.0),
    ],
    "readers together, and a writer alone": [
        rw("read", "ann", 5, 1.0, 1.1, left=2.0),
        rw("read", "bob", 6, 1.0, 1.2, left=2.0),
        rw("write", "cyd", 7, 1.3, 2.2, left=3.0),
        rw("read", "ann", 8, 1.5, 3.2, left=4.0),
        rw("read", "bob", 9, 1.5, 3.15, left=4.0),
    ],
    "a reader comes as soon as a writer has become one": [
        ANN_WRITES,
        downgrade("ann", 5, 2.0, 2.2),
        rw("read", "bob", 6, 1.2, 2.1, left=3.0),
    ],
    "a reader waits behind a writer that waits behind a reader": [
        rw("read", "ann", 5, 1.0, 1.1, left=5.0),
        rw("write", "bob", 0, 1.5, 4.9, "fail"),
        rw("read", "cyd", 6, 1.6, 5.0, left=5.5),
    ],
    "two are served at once and hear of it in another order": [
        rw("write", "ann", 5, 1.0, 1.1, left=2.0),
        rw("read", "bob", 6, 1.2, 2.5, left=3.0),
        note("bob", "queued", 1.3),
        rw("read", "cyd", 7, 1.5, 2.1, left=3.0),
    ],
    "one leader after the other": [
        term("ann", 5, 1.0, 1.1, left=2.0),
        look("cyd", 5, 1.3, 1.4),
        look("cyd", 0, 2.0, 2.15),
        term("bob", 6, 1.5, 2.3, left=3.0),
        look("cyd", 6, 2.4, 2.5),
    ],
    "a look lasts while leaders change": [
        term("ann", 5, 1.0, 1.1, left=2.0),
        look("cyd", 5, 1.3, 2.9),
        look("dan", 6, 2.4, 2.5),
        term("bob", 6, 1.5, 2.3, left=3.0),
    ],
    "each window once": [DONE, run("bob", 5, 2.5, 2.6), run("cyd", 4, 2.7, 2.8, "fail", "skipped")],
    "who does not know whether it was done lets others do it": [
        run("ann", 4, 1.0, 2.0, "unknown"),
        run("bob", 4, 3.0, 3.1),
    ],
    "work that raised is done by another": [
        run("ann", 4, 1.0, 2.0, "fail", "it raised"),
        run("bob", 4, 3.0, 3.1),
    ],
    "work is skipped that may have been done": [
        run("ann", 4, 1.0, 2.0, "unknown"),
        run("bob", 4, 9.0, 9.1, "fail", "skipped"),
    ],
    "work is skipped that is under way": [
        run("ann", 4, 1.0, 3.0, "fail", "it raised"),
        run("bob", 4, 2.0, 2.5, "fail", "skipped"),
    ],
    "work is skipped while the lock of whoever was killed is kept": [
        run("ann", 4, 1.0, None),
        note("ann", "crash", 1.5),
        run("bob", 5, 2.5, 3.0, "fail", "skipped"),
    ],
    "work is skipped that was given up when the engine was gone": [
        run("ann", 4, 1.0, 1.3, "fail", "cannot be reached"),
        note("node", "crash", 1.2),
        note("node", "restart", 2.0),
        run("bob", 4, 2.1, 2.3, "fail", "skipped"),
    ],
    "readers in any order": [
        shared(read("ann", 7, 1.0, 1.1, 1), "read"),
        shared(read("bob", 5, 1.2, 1.3, 1), "read"),
    ],
}
