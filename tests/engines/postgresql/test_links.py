"""One connection: what comes over it, and in which order."""

from __future__ import annotations

import select
from typing import Any

import psycopg

from fencelock.engine import read_options
from fencelock.engines.postgresql.engine import PostgresqlEngine
from fencelock.engines.postgresql.settings import read_settings
from fencelock.engines.postgresql.statements import Statement
from fencelock.engines.postgresql.wire.connection_threads import asked, connect
from fencelock.engines.url import parse
from fencelock.wires.wakeup_pipe import Alarm
from fencelock.worlds.threads import ThreadsWorld
from tests.servers.postgresql import Postgresql

Link = psycopg.Connection[Any]


def test_a_notification_that_comes_along_with_an_answer_is_heard(
    server: Postgresql, link: Link
) -> None:
    """Nothing more may come over the socket: it must not be waited for."""
    address = parse(server.url(), {})
    settings = read_settings(address._replace(options=read_options(PostgresqlEngine, {})))
    ear, alarm = connect(ThreadsWorld(), settings), Alarm()
    alarm.open()
    try:
        asked(ear, Statement("", 'LISTEN "ear"'), (), 5)
        link.execute("NOTIFY ear, 'look'")
        asked(ear, Statement("", "SELECT pg_sleep(0.01)"), (), 5)
        assert ear.hear(5.0, alarm) == ["look"]
        assert ear.hear(0.0, alarm) == []
    finally:
        alarm.close()
        ear.drop()


def test_an_alarm_that_was_closed_writes_to_nobody() -> None:
    """Its descriptor's number may be a connection's by now."""
    alarm = Alarm()
    alarm.ring()
    heard = alarm.open()
    alarm.ring()
    assert heard == alarm.descriptor
    alarm.hush()
    alarm.close()
    reused = Alarm()
    assert reused.open() == heard, "the same number again"
    alarm.ring()

    poll = select.poll()
    poll.register(heard, select.POLLIN)
    assert poll.poll(0) == []
    reused.close()
