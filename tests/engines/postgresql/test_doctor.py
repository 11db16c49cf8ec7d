"""What ``fencelock doctor`` tells of a server, and what is promised on one that is set up badly."""

from __future__ import annotations

import fencelock
from fencelock._client import administration
from fencelock.model import Finding
from fencelock.sync import drive
from tests.servers.pgbouncer import Pgbouncer
from tests.servers.postgresql import Postgresql, Standby


def diagnose(url: str) -> dict[str, Finding]:
    """The findings of an engine, by topic; the gravest of each."""
    grave = ["ok", "note", "warning", "problem"]
    with fencelock.connect(url) as client:
        found = drive(administration.diagnose(client._core))
    return {finding.topic: finding for finding in sorted(found, key=lambda f: grave.index(f.level))}


def test_a_server_as_it_should_be_is_fine() -> None:
    with Postgresql(settings={"fsync": "on"}) as server:
        for mode in ("lease", "advisory", "row"):
            found = diagnose(server.url(f"mode={mode}"))
            assert {finding.level for finding in found.values()} == {"ok"}, found
            assert ("lock table" in found) == (mode == "advisory")


def test_what_would_lose_grants_is_told(own_server: Postgresql) -> None:
    found = diagnose(own_server.url())
    assert (found["durability"].level, "fsync" in found["durability"].text) == ("problem", True)
    own_server.psql("ALTER SYSTEM SET synchronous_commit = off")
    own_server.restart()
    with fencelock.connect(own_server.url()) as client:
        assert client.traits.durable, "our sessions turn it on"
    with Pgbouncer(own_server) as pooler:
        found = diagnose(pooler.url())
        assert found["pooler"].level == "note"
        assert "listen=" in found["pooler"].advice
        with fencelock.connect(pooler.url()) as client:
            assert (client.traits.durable, client.traits.safety) == (False, "efficiency")
            assert "synchronous_commit" in client.traits.advice


def test_a_standby_that_follows_asynchronously_is_told(own_server: Postgresql) -> None:
    assert "replication" not in diagnose(own_server.url())
    with Standby(own_server) as standby:
        standby.follows()
        found = diagnose(own_server.url())["replication"]
        assert (found.level, "asynchronously" in found.text) == ("warning", True)


def test_a_crowded_server_is_told(own_server: Postgresql) -> None:
    own_server.psql("ALTER SYSTEM SET max_connections = 12")
    own_server.settings["max_connections"] = "12"
    own_server.settings["max_locks_per_transaction"] = "10"
    own_server.settings["superuser_reserved_connections"] = "1"
    own_server.restart()
    with fencelock.connect(own_server.url("mode=advisory")) as client:
        leases = [client.lock(f"seat:{n}", ttl=60).acquire() for n in range(110)]
        found = {f.topic: f for f in drive(administration.diagnose(client._core))}
        assert found["lock table"].level == "warning"
        assert "mode=lease" in found["lock table"].advice
        for lease in leases:
            lease.release()
