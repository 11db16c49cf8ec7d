"""What is wrong with a server or a URL is said plainly, and promises follow from settings."""

from __future__ import annotations

import asyncio
import gc
import sys
import time

import pytest

import fencelock
import fencelock.aio
from fencelock._client import administration
from tests.engines.mysql.conftest import Set
from tests.faults.flavors import Lab, run
from tests.servers.mariadb import SqlServer
from tests.servers.server import free_port


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"mode": "optimistic"}, "mode must be one of lease, advisory, not"),
        ({"mode": "row"}, r"use mode=lease, and call fencelock\.sql\.verify\(connection, lease\)"),
        ({"request_timeout": 0}, "request_timeout must be a number of seconds from 0.01 to 600"),
        ({"pool": 0}, "pool must be a whole number from 1 to 64"),
        ({"tls": "perhaps"}, "tls must be yes or no"),
        ({"tls": "no", "ca": "ca.pem"}, "choose one"),
        ({"no_such": 1}, "mysql has no option"),
    ],
)
def test_a_wrong_option_is_refused(options: dict[str, object], why: str) -> None:
    with pytest.raises(fencelock.Misconfigured, match=why):
        fencelock.connect("mysql://127.0.0.1:1/locks", **options).open()


@pytest.mark.parametrize("url", ["mysql://h", "mysql://h/", "mysql://h/a/b", "mysql://h1,h2/a"])
def test_a_url_without_one_host_and_database_is_refused(url: str) -> None:
    with pytest.raises(fencelock.Misconfigured, match=r"names no database|names several hosts"):
        fencelock.connect(url).open()


def test_a_wrong_password_is_denied_and_not_repeated(server: SqlServer) -> None:
    url = f"mysql://tester:guess-me@127.0.0.1:{server.port}/locks"
    with pytest.raises(fencelock.Denied) as caught:
        fencelock.connect(url).open()
    assert "guess-me" not in str(caught.value)


def test_a_database_that_is_not_there_is_named(server: SqlServer) -> None:
    url = server.url().replace("/locks", "/nowhere")
    with pytest.raises((fencelock.Misconfigured, fencelock.Denied), match="nowhere"):
        fencelock.connect(url).open()


def test_a_server_that_is_not_there_is_unavailable() -> None:
    with pytest.raises(fencelock.Unavailable, match="nothing happened"):
        fencelock.connect(f"mysql://a@127.0.0.1:{free_port()}/locks").open()


def test_promises_follow_from_the_servers_durability(
    own: SqlServer, table: str, setting: Set
) -> None:
    with (
        setting(innodb_flush_log_at_trx_commit=2),
        fencelock.connect(own.url(), table=table) as client,
    ):
        assert (client.traits.safety, client.traits.durable) == ("efficiency", False)
        with pytest.raises(fencelock.Unsupported, match="innodb_flush_log_at_trx_commit=1"):
            client.lock("seat", safety="correctness")
        found = {f.topic: f for f in _examine(client)}
        assert found["durability"].level == "problem"


def test_a_read_only_server_grants_nothing(own: SqlServer, table: str, setting: Set) -> None:
    with fencelock.connect(own.url(), table=table) as client:
        client.lock("seat").acquire().release()
        with setting(read_only=1):
            with pytest.raises(fencelock.Unavailable, match="name the primary"):
                client.lock("seat").acquire()
            assert {f.topic: f.level for f in _examine(client)}["writes"] == "problem"
        client.lock("seat").acquire().release()


@pytest.mark.parametrize("mode", ["lease", "advisory"])
def test_a_healthy_server_has_no_problem(server: SqlServer, table: str, mode: str) -> None:
    with fencelock.connect(server.url(), mode=mode, table=table) as client:
        found = _examine(client)
    assert [f for f in found if f.level in ("problem", "warning")] == []
    assert {"server", "durability", "writes", "replication", "timeouts", "clock"} <= {
        f.topic for f in found
    }


def test_locks_of_another_mode_database_or_table_are_pointed_out(
    table: str, kind: type[SqlServer]
) -> None:
    """They do not exclude those of this client, whatever their programs believe."""
    places = {"lease": f"locks.{table}_locks", "advisory": "fencelock.advisory_holders"}
    with kind() as server:
        for mode in places:
            with fencelock.connect(server.url(), mode=mode, table=table):
                pass  # its tables are there
        for mode, place in places.items():
            with fencelock.connect(server.url(), mode=mode, table=table) as client:
                text = {f.topic: f.text for f in _examine(client)}["other locks"]
                assert place not in text
                assert all(other in text for other in places.values() if other != place)


@pytest.mark.parametrize("mode", ["lease", "advisory"])
def test_a_unix_socket_leads_to_the_same_server(
    flavor: str, mode: str, server: SqlServer, table: str
) -> None:
    _, _, login = server.url().partition("//")
    url = f"mysql://{login.partition('@')[0]}@localhost/locks"

    async def scenario(lab: Lab) -> None:
        path = str(server.folder / "s.sock")
        client = await lab.connect(url, mode=mode, table=table, unix_socket=path)
        other = await lab.connect(server.url(), mode=mode, table=table)
        async with client.lock(table):
            assert await other.lock(table).try_acquire() is None

    run(flavor, scenario)


def test_threads_need_no_driver_of_asyncio(
    server: SqlServer, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "aiomysql", None)
    with fencelock.connect(server.url(), table=table) as client:
        client.lock("seat").acquire().release()

    async def connect() -> None:
        async with fencelock.aio.connect(server.url(), table=table) as client:
            await client.lock("seat").acquire()

    with pytest.raises(fencelock.Misconfigured, match=r"aiomysql.*pip install"):
        asyncio.run(connect())


@pytest.mark.parametrize("mode", ["lease", "advisory"])
def test_a_client_that_is_dropped_leaves_no_session_behind(
    own: SqlServer, table: str, mode: str
) -> None:
    """Nor a lock: nobody can release it any more."""
    ours = "SELECT id FROM information_schema.processlist WHERE user='tester'"
    client: fencelock.Client | None = fencelock.connect(own.url(), mode=mode, table=table)
    assert client is not None
    client.lock("seat").acquire().release()
    client.lock("desk").acquire().release()
    before = set(own.ask(ours))
    client = None
    gc.collect()
    for _ in range(1000):
        if not before & set(own.ask(ours)):
            return
        time.sleep(0.01)
    raise AssertionError("sessions of a client that is gone")


BINARY_LOG = {
    True: ("log-bin=binlog",),
    False: ("log-bin=binlog", "server-id=1", "gtid-mode=ON", "enforce-gtid-consistency=ON"),
}


def test_a_server_with_a_binary_log_may_forget_in_a_failover(
    table: str, kind: type[SqlServer]
) -> None:
    """MySQL with global transaction ids refuses statements that a replica might not repeat."""
    with kind(*BINARY_LOG[kind.is_mariadb]) as server:
        for mode in ("lease", "advisory"):
            with fencelock.connect(server.url(), mode=mode, table=table) as client:
                lease = client.lock("seat").acquire()
                assert client.lock("seat").try_acquire() is None
                lease.release()
                found = {f.topic: f for f in _examine(client)}
                assert "failover" in found["replication"].text


def _examine(client: fencelock.Client) -> list[fencelock.model.Finding]:
    from fencelock.worlds.threads import drive

    return drive(administration.diagnose(client._core))
