"""Which tests are slow or rare: ``make test`` leaves them out, ``make test-all`` runs them.

What is here still runs for every change (``.ci/run``). A test belongs here if it takes seconds
and others would see most defects that it sees, sooner.
"""

from __future__ import annotations

import pytest

SLOW = {
    "cli/test_interrupting.py": "a signal at many moments of each verb",
    "cli/test_torture.py": "tortures from the command line",
    "engines/etcd/test_cluster.py": "three members, and what they do without one",
    "engines/mysql/test_restarts.py": "a server that is started again and again",
    "engines/mysql/test_sessions.py": "sessions that the server ends, with the waits for it",
    "engines/postgresql/test_deadlines.py": "a server that hangs in the midst of each call",
    "engines/postgresql/test_interrupts.py": "storms of exceptions of signal handlers",
    "engines/postgresql/test_outages.py": "a server that is started again and again",
    "engines/redis/test_deadlines.py": "a server that hangs in the midst of each call",
    "engines/redis/test_interrupts.py": "storms of exceptions of signal handlers",
    "engines/redlock/test_storm.py": "many faults at once",
    "engines/test_outages.py": "a queue of every engine over an outage",
    "engines/test_signals.py": "an exception at each of some hundred moments of a call",
    "engines/zookeeper/test_ensemble.py": "three servers, and what they do without a leader",
    "engines/zookeeper/test_settings.py::test_the_doctor_counts_the_members": "three servers",
    "faults/redis/test_failover.py": "sentinels that vote",
    "faults/redis/test_hand_over.py": "frozen waiters, each with the time until it is passed over",
    "faults/test_clocks.py": "servers whose clock is stepped",
    "faults/test_deaths.py": "clients that are killed, each with the ttl that it leaves behind",
    "faults/test_file.py::test_a_waiter_queues_again_when_its_file_is_gone": "ten seconds' wait",
    "faults/test_hung_servers.py": "every engine and call, with a server that hangs",
    "faults/test_lost_answers.py": "every engine and call, without an answer",
    "faults/test_signal_exceptions.py": "thousands of exceptions of signal handlers",
    "faults/test_storm.py": "many faults at once",
    "guards/dynamodb/test_dynamodb.py": "a server that takes long to start",
    "guards/test_claim.py": "frozen holders of every engine before every guard",
    "judge_torture/test_servers.py": "tortures of every engine",
    "service/test_polls.py::test_a_poll_that_moves_to_another_node_keeps_its_lock": "12 s' wait",
    "service/test_stores.py": "servers behind two nodes, and longer than a ticket is kept",
    "unit/test_servers.py": "the servers of the tests themselves: clusters, sentinels, clocks",
}
"""Files, or tests of a file with all their parameters, and why."""

DOUBLED = {
    "mysql": "the tests of MariaDB, on a server that is slower to start",
    "postgresql pgbouncer": "the checks of `postgresql push=no`, over a pooler",
    "rediss": "the checks of Redis, over TLS",
    "valkey": "the checks of Redis, on a server of the same code",
}
"""Parameters whose tests are those of another, with or without a mode after them, and why. Not in
``unit``, where no test starts a server."""


def is_slow(item: pytest.Item) -> bool:
    """Whether a test is left out of ``make test``."""
    file, _, name = item.nodeid.removeprefix("tests/").partition("::")
    if {file, f"{file}::{name.partition('[')[0]}"} & SLOW.keys():
        return True
    if file.startswith("unit/"):
        return False
    callspec = getattr(item, "callspec", None)
    given = callspec.params.values() if callspec is not None else ()
    return any(isinstance(one, str) and _is_doubled(one) for one in given)


def _is_doubled(given: str) -> bool:
    return any(given == one or given.startswith(f"{one} ") for one in DOUBLED)
