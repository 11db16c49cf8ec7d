"""One connection: what comes over it, and in which order."""

from __future__ import annotations

from typing import Any

import psycopg

from fencelock.engine import read_options
from fencelock.engines.postgresql.lease import LeaseEngine
from fencelock.engines.postgresql.settings import read_settings
from fencelock.engines.postgresql.statements import Statement
from fencelock.engines.postgresql.wire.connection_threads import connect, execute
from fencelock.engines.url import parse
from fencelock.wires.wakeup_pipe import WakeupPipe
from fencelock.worlds.threads import ThreadsWorld
from tests.servers.postgresql import Postgresql

Link = psycopg.Connection[Any]


def test_a_notification_that_comes_along_with_an_answer_is_heard(
    server: Postgresql, link: Link
) -> None:
    """Nothing more may come over the socket: it must not be waited for."""
    address = parse(server.url(), {})
    settings = read_settings(address._replace(options=read_options(LeaseEngine, {})))
    ear, pipe = connect(ThreadsWorld(), settings), WakeupPipe()
    pipe.open()
    try:
        execute(ear, Statement("", 'LISTEN "ear"'), (), 5)
        link.execute("NOTIFY ear, 'look'")
        execute(ear, Statement("", "SELECT pg_sleep(0.01)"), (), 5)
        assert ear.notifications(5.0, pipe) == ["look"]
        assert ear.notifications(0.0, pipe) == []
    finally:
        pipe.close()
        ear.drop()
