"""Histories that a checker must reject, each with its name, and others that look alike."""

from __future__ import annotations

from fencelock.judge import Promises
from tests.judge.telling import Told, acquire, lasting, note, read, release, renew, write

PROMISES = Promises(
    ttl=2.0,
    slack=0.01,
    fifo=True,
    told_within=0.5,
    woken_within=1.0,
    freed_within=1.0,
    grace=1.0,
    undone_within=0.5,
)
TENURE = [*acquire("ann", 5, 1.0, 1.1), *release("ann", 5, 2.0, 2.1)]
NEXT = [*acquire("bob", 7, 2.2, 2.3), *release("bob", 7, 3.0, 3.1)]
ANN_HOLDS = acquire("ann", 5, 1.0, 1.1)
ANN_FAILS = acquire("ann", 0, 0.5, 0.9, "fail")
ANN_WAITS = acquire("ann", 5, 1.0, 4.0)
ANN_WAKES = [*note("ann", "pause", 1.2), *note("ann", "resume", 6.0)]
BAD: dict[str, tuple[str, list[Told]]] = {
    "a lease without renewal that is given away before its end": (
        "one_holder",
        [
            lasting(3.0, acquire("ann", 5, 1.0, 1.1)),
            acquire("bob", 7, 2.0, 2.5),
            release("bob", 7, 5.0, 5.1),
            release("ann", 5, 4.9, 5.2, "fail"),
        ],
    ),
    "a lease without renewal that is there long after its end": (
        "no_orphan",
        [
            lasting(3.0, acquire("ann", 5, 1.0, 1.1)),
            acquire("bob", 0, 4.5, 5.0, "fail"),
            release("ann", 5, 9.0, 9.1, "unknown"),
        ],
    ),
    "two hold it": ("one_holder", [ANN_HOLDS, acquire("bob", 7, 1.2, 1.3)]),
    "two hold it, without fences": (
        "one_holder",
        [acquire("ann", 0, 1.0, 1.1), acquire("bob", 0, 1.2, 1.3), release("bob", 0, 2.0, 2.1)],
    ),
    "one wakes up and is not told": (
        "one_holder",
        [ANN_HOLDS, ANN_WAKES, acquire("bob", 7, 4.0, 4.1), release("bob", 7, 9.0, 9.1)],
    ),
    "one order does not explain it": (
        "linearizable",
        [ANN_HOLDS, acquire("bob", 7, 1.2, 1.3), release("ann", 5, 1.4, 1.5)],
    ),
    "a renewal after another was granted": (
        "linearizable",
        [
            ANN_HOLDS,
            note("ann", "pause", 1.2),
            note("ann", "resume", 5.0),
            acquire("bob", 7, 4.0, 4.1),
            renew("ann", 5, 5.0, 5.1),
            release("bob", 7, 6.0, 6.1),
        ],
    ),
    "it was released twice": ("linearizable", [TENURE, release("ann", 5, 2.2, 2.3)]),
    "a fence goes back": ("fences_grow", [TENURE, acquire("bob", 4, 2.2, 2.3)]),
    "a fence is given twice": ("fences_grow", [TENURE, acquire("bob", 5, 2.2, 2.3)]),
    "there is no fence": ("fences_grow", [acquire("ann", 0, 1.0, 1.1)]),
    "a waiter's fence goes back": (
        "fences_grow",
        [acquire("bob", 4, 0.5, 2.3), TENURE],
    ),
    "two write upon the same value": (
        "no_lost_update",
        [
            read("ann", 5, 1.2, 1.3, 10),
            read("bob", 7, 2.2, 2.3, 10),
            write("bob", 7, 2.4, 2.5, 11),
            write("ann", 5, 2.6, 2.7, 12),
        ],
    ),
    "an acknowledged write is not read": (
        "no_lost_update",
        [
            write("ann", 5, 1.2, 1.3, 10),
            write("bob", 7, 1.4, 1.5, 11),
            read("cyd", 8, 2.0, 2.1, 10),
        ],
    ),
    "an old fence writes": (
        "nothing_stale",
        [write("bob", 7, 1.0, 1.1, 10), write("ann", 5, 1.2, 1.3, 11)],
    ),
    "an old fence writes after a read": (
        "nothing_stale",
        [read("bob", 7, 1.0, 1.1, 10), write("ann", 5, 1.2, 1.3, 11)],
    ),
    "an old fence reads": (
        "nothing_stale",
        [write("bob", 7, 1.0, 1.1, 10), read("ann", 5, 1.2, 1.3, 10)],
    ),
    "a holder is never told": (
        "told_in_time",
        [ANN_HOLDS, note("engine", "expired", 3.0, fence=5), note("bob", "told", 9.0)],
    ),
    "a holder is told late": (
        "told_in_time",
        [
            ANN_HOLDS,
            ANN_WAKES,
            acquire("bob", 7, 4.0, 4.1),
            note("ann", "told", 6.9, fence=5),
            release("bob", 7, 8.0, 8.1),
        ],
    ),
    "a holder is told late, without its pause": (
        "told_in_time",
        [
            ANN_HOLDS,
            note("engine", "expired", 3.0, fence=5),
            note("ann", "pause", 3.1),
            note("ann", "resume", 6.0),
            note("ann", "told", 6.5, fence=5),
        ],
    ),
    "a waiter sleeps beside a free lock": (
        "nobody_sleeps",
        [TENURE, acquire("bob", 7, 1.5, 4.0)],
    ),
    "two waiters sleep beside a free lock": (
        "nobody_sleeps",
        [TENURE, acquire("bob", 7, 1.5, None), acquire("cyd", 8, 1.6, 4.0)],
    ),
    "a waiter sleeps beside a dead holder": (
        "nobody_sleeps",
        [ANN_HOLDS, note("ann", "crash", 1.5), acquire("bob", 7, 1.5, 5.0)],
    ),
    "a waiter that was paused sleeps long after it": (
        "nobody_sleeps",
        [
            TENURE,
            acquire("bob", 7, 1.5, 20.0),
            note("bob", "pause", 1.6),
            note("bob", "resume", 3.0),
        ],
    ),
    "a newcomer overtakes": (
        "first_come_first_served",
        [
            TENURE,
            acquire("bob", 8, 1.5, 4.0),
            note("bob", "queued", 1.6),
            acquire("cyd", 7, 1.7, 2.5),
        ],
    ),
    "a lock is left behind": (
        "no_orphan",
        [TENURE, acquire("bob", 0, 4.0, 4.1, "fail")],
    ),
    "a cancelled attempt leaves its lock": (
        "no_orphan",
        [acquire("ann", 0, 1.0, 1.1, "fail"), acquire("bob", 0, 4.0, 4.1, "fail")],
    ),
    "the ttl of the dead is over": (
        "no_orphan",
        [ANN_HOLDS, note("ann", "crash", 1.5), acquire("bob", 0, 5.0, 5.1, "fail")],
    ),
    "a call outlasts its timeout": (
        "ends_in_time",
        [acquire("ann", 0, 1.0, 2.6, "fail", deadline=1.5)],
    ),
    "a try that should not wait does not end": (
        "ends_in_time",
        [acquire("ann", 0, 1.0, None, deadline=1.0), note("bob", "heal", 9.0)],
    ),
    "a call outlasts its cancellation": (
        "ends_in_time",
        [ANN_WAITS, note("ann", "cancel", 2.9, about=ANN_WAITS), release("ann", 5, 4.0, 4.1)],
    ),
    "a caller that was paused does not end when it wakes up": (
        "ends_in_time",
        [acquire("ann", 0, 1.0, 7.2, "fail", deadline=2.0), ANN_WAKES],
    ),
    "a silent engine is no excuse": (
        "ends_in_time",
        [
            note("node", "pause", 0.5),
            acquire("ann", 0, 1.0, 4.0, "unknown", deadline=1.0),
            note("node", "resume", 3.9),
        ],
    ),
    "a failed attempt is called later": (
        "no_false_word",
        [ANN_FAILS, note("ann", "kept", 3.0, about=ANN_FAILS)],
    ),
    "a failed attempt is called later, and another is under way": (
        "no_false_word",
        [
            ANN_FAILS,
            note("ann", "kept", 3.0, about=ANN_FAILS),
            acquire("ann", 0, 2.0, 4.0, "unknown"),
        ],
    ),
    "the lock is kept for whoever failed": ("no_false_word", [ANN_FAILS, note("ann", "kept", 3.0)]),
    "the lock is kept for whoever gave it back": (
        "no_false_word",
        [TENURE, note("ann", "kept", 3.0)],
    ),
    "a release that did nothing has freed it": (
        "no_false_word",
        [
            ANN_HOLDS,
            release("ann", 5, 2.0, 2.1, "fail", "cannot be reached"),
            note("ann", "freed", 2.5, about=ANN_HOLDS),
        ],
    ),
}
GOOD: dict[str, list[Told]] = {
    "nothing": [],
    "a lease without renewal that is over, whose holder works on": [
        lasting(3.0, acquire("ann", 5, 1.0, 1.1)),
        acquire("bob", 7, 2.0, 3.05),
        release("bob", 7, 5.0, 5.1),
        release("ann", 5, 4.9, 5.2, "fail"),
    ],
    "a lease without renewal that is over, whose holder is killed at work": [
        lasting(3.0, acquire("ann", 5, 1.0, 1.1)),
        acquire("bob", 7, 2.0, 3.05),
        note("ann", "crash", 4.5),
        release("bob", 7, 5.0, 5.1),
    ],
    "a lease without renewal whose answer came when it was over": [
        note("ann", "pause", 1.01),
        note("ann", "resume", 3.5),
        lasting(3.0, acquire("ann", 5, 1.0, 3.6)),
        acquire("bob", 7, 2.0, 3.05),
        release("bob", 7, 5.0, 5.1),
        release("ann", 5, 4.9, 5.2, "fail"),
    ],
    "one after the other": [TENURE, NEXT],
    "a waiter is served at once": [TENURE, acquire("bob", 7, 1.5, 2.15)],
    "a release that is answered late": [
        acquire("ann", 5, 1.0, 1.1),
        release("ann", 5, 2.0, 2.9),
        acquire("bob", 7, 1.5, 2.2),
        release("bob", 7, 3.0, 3.1),
    ],
    "a paused holder is told when it wakes up": [
        ANN_HOLDS,
        ANN_WAKES,
        acquire("bob", 7, 1.5, 4.0),
        note("ann", "told", 6.005, fence=5),
        release("ann", 5, 6.1, 6.2, "fail"),
        release("bob", 7, 8.0, 8.1),
    ],
    "a holder is paused before it could be told": [
        ANN_HOLDS,
        note("engine", "expired", 3.0, fence=5),
        note("ann", "pause", 3.1),
        note("ann", "resume", 6.0),
        note("ann", "told", 6.3, fence=5),
    ],
    "a dead holder's lease ends": [
        ANN_HOLDS,
        note("ann", "crash", 1.5),
        acquire("bob", 7, 1.6, 3.6),
    ],
    "an unknown acquire held it for a while": [
        acquire("ann", 0, 1.0, 1.1, "unknown"),
        acquire("bob", 7, 1.2, 3.0),
        release("bob", 7, 3.5, 3.6),
    ],
    "an unknown release happens late": [
        ANN_HOLDS,
        release("ann", 5, 2.0, 2.1, "unknown"),
        acquire("bob", 7, 2.2, 3.9),
        release("bob", 7, 5.0, 5.1),
    ],
    "a revoked holder": [
        ANN_HOLDS,
        note("nemesis", "expired", 1.5, fence=5),
        acquire("bob", 7, 1.2, 1.6),
        note("ann", "told", 1.605, fence=5),
        release("bob", 7, 2.0, 2.1),
    ],
    "the guard refuses the old fence": [
        read("ann", 5, 1.2, 1.3, 10),
        read("bob", 7, 2.2, 2.3, 10),
        write("bob", 7, 2.4, 2.5, 11),
        write("ann", 5, 2.6, 2.7, 12, "fail"),
        read("cyd", 8, 3.0, 3.1, 11),
    ],
    "an unknown write is read later": [
        write("ann", 5, 1.0, 1.1, 10),
        write("ann", 5, 1.2, 1.3, 11, "unknown"),
        read("bob", 7, 2.0, 2.1, 10),
        read("bob", 7, 2.2, 2.3, 11),
    ],
    "one tenure writes twice": [
        read("ann", 5, 1.0, 1.1, 10),
        write("ann", 5, 1.2, 1.3, 11),
        write("ann", 5, 1.4, 1.5, 12),
        read("bob", 7, 2.0, 2.1, 12),
        write("bob", 7, 2.2, 2.3, 13),
    ],
    "a waiter that was paused is overtaken": [
        TENURE,
        acquire("bob", 8, 1.5, 4.0),
        note("bob", "queued", 1.6),
        note("bob", "pause", 1.65),
        note("bob", "resume", 3.5),
        acquire("cyd", 7, 1.7, 2.5),
        release("cyd", 7, 2.6, 2.7),
    ],
    "the engine was away": [
        TENURE,
        note("node", "crash", 1.4),
        note("node", "restart", 3.9),
        acquire("bob", 7, 1.5, 4.0),
    ],
    "the lock is held": [
        ANN_HOLDS,
        acquire("bob", 0, 5.0, 5.1, "fail"),
        release("ann", 5, 6.0, 6.1),
    ],
    "calls end in time, or soon after": [
        acquire("ann", 0, 1.0, 1.9, "fail", deadline=1.0),
        acquire("bob", 0, 1.0, 1.9, "unknown", deadline=1.5),
    ],
    "a cancelled call ends soon": [
        ANN_WAITS,
        acquire("bob", 4, 0.1, 0.2),
        release("bob", 4, 3.9, 3.95),
        note("ann", "cancel", 3.1, about=ANN_WAITS),
        release("ann", 5, 4.1, 4.2),
    ],
    "a caller that was paused ends when it wakes up": [
        acquire("ann", 0, 1.0, 6.9, "fail", deadline=2.0),
        ANN_WAKES,
    ],
    "a caller that was killed ends nothing": [
        acquire("ann", 0, 1.0, None, deadline=1.2),
        note("ann", "crash", 1.5),
        note("bob", "heal", 9.0),
    ],
    "who does not know says so": [
        acquire("ann", 0, 0.5, 0.6, "unknown"),
        note("ann", "kept", 1.3),
    ],
    "what was left is undone soon": [ANN_FAILS, note("ann", "kept", 1.3)],
    "a later attempt got it": [
        ANN_FAILS,
        acquire("ann", 5, 2.0, 2.1),
        note("ann", "kept", 3.0),
        release("ann", 5, 3.5, 3.6),
    ],
    "a release whose end is unknown has freed it": [
        ANN_HOLDS,
        release("ann", 5, 2.0, 2.1, "unknown"),
        note("ann", "freed", 2.5, about=ANN_HOLDS),
    ],
    "a release that did nothing is done again": [
        ANN_HOLDS,
        release("ann", 5, 2.0, 2.1, "fail", "cannot be reached"),
        note("ann", "kept", 2.3, about=ANN_HOLDS),
        release("ann", 5, 2.4, 2.5),
        note("ann", "freed", 2.45, about=ANN_HOLDS),
    ],
    "somebody just had it": [TENURE, acquire("bob", 0, 2.5, 2.6, "fail")],
}
