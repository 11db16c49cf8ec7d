"""Which tests are slow or rare: ``make test`` leaves them out, ``make test-all`` runs them.

What is here still runs for every change (``.ci/run``). A test belongs here if it takes seconds
and others would see most defects that it sees, sooner.
"""

from __future__ import annotations

import pytest

MODULES = {
    "cli/test_interrupting.py": "a signal at many moments of each verb",
    "engines/etcd/test_cluster.py": "three members, and what they do without one",
    "engines/mysql/test_restarts.py": "a server that is started again and again",
    "engines/mysql/test_sessions.py": "sessions that the server ends, with the waits for it",
    "engines/postgresql/test_outages.py": "a server that is started again and again",
    "engines/redis/test_deadlines.py": "a server that hangs in the midst of each call",
    "engines/test_outages.py": "a queue of every engine over an outage",
    "engines/zookeeper/test_ensemble.py": "three servers, and what they do without a leader",
    "faults/redis/test_failover.py": "sentinels that vote",
    "faults/test_clocks.py": "servers whose clock is stepped",
    "faults/test_deaths.py": "clients that are killed, each with the ttl that it leaves behind",
    "faults/test_hung_servers.py": "every engine and call, with a server that hangs",
    "faults/test_lost_answers.py": "every engine and call, without an answer",
    "faults/test_signal_exceptions.py": "thousands of exceptions of signal handlers",
    "faults/test_storm.py": "many faults at once",
    "guards/dynamodb/test_dynamodb.py": "a server that takes long to start",
    "guards/test_claim.py": "frozen holders of every engine before every guard",
    "judge_torture/test_servers.py": "tortures of every engine",
}

DOUBLED = "mysql"
"""Its tests are those of MariaDB, on a server that is slower to start."""


def is_slow(item: pytest.Item) -> bool:
    """Whether a test is left out of ``make test``."""
    if item.nodeid.partition("::")[0].removeprefix("tests/") in MODULES:
        return True
    callspec = getattr(item, "callspec", None)
    given = callspec.params.values() if callspec is not None else ()
    return any(isinstance(one, str) and one.split(" ")[0] == DOUBLED for one in given)
