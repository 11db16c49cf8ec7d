"""TLS: with a certificate that is checked, or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import fencelock
from fencelock.engines.mysql.lease import LeaseEngine
from fencelock.worlds.threads import drive
from tests.engines.mysql.conftest import KINDS
from tests.faults.flavors import FLAVORS, Lab, run
from tests.servers.mariadb import USER, SqlServer, mariadb
from tests.servers.mysql import mysql
from tests.servers.shared import shared
from tests.servers.tls import make_certificate

MODES = ["lease", "advisory"]


class Encrypted(NamedTuple):
    server: SqlServer
    certificate: Path


@pytest.fixture(scope="module", params=KINDS)
def encrypted(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Encrypted]:
    certificate, key = make_certificate(tmp_path_factory.mktemp("tls"))
    files = (f"ssl-ca={certificate}", f"ssl-cert={certificate}", f"ssl-key={key}")
    with KINDS[request.param](*files) as server:
        server.ask(f"ALTER USER '{USER}'@'%' REQUIRE SSL")
        yield Encrypted(server, certificate)


@pytest.mark.parametrize("way", FLAVORS)
@pytest.mark.parametrize("mode", MODES)
def test_locks_work_over_tls(way: str, mode: str, encrypted: Encrypted, table: str) -> None:
    server, certificate = encrypted

    async def scenario(lab: Lab) -> None:
        options: dict[str, Any] = {"mode": mode, "table": table, "ca": str(certificate)}
        client, other = [await lab.connect(server.url(), **options) for _ in range(2)]
        lease = await client.lock("seat", ttl=20).acquire()
        assert await other.lock("seat").try_acquire() is None
        waiter = lab.start(other.lock("seat", timeout=30).acquire())
        await lease.renew()
        assert await lease.release() is True
        again = await waiter.result()
        assert again.fence > lease.fence
        assert await again.release() is True

    run(way, scenario)


@pytest.mark.parametrize("way", FLAVORS)
def test_a_certificate_of_nobody_we_trust_is_refused(
    way: str, encrypted: Encrypted, table: str
) -> None:
    async def scenario(lab: Lab) -> None:
        with pytest.raises(fencelock.Unavailable, match="nothing happened"):
            _ = await lab.connect(encrypted.server.url(), table=table, tls="yes")

    run(way, scenario)


@pytest.mark.parametrize("way", FLAVORS)
@pytest.mark.parametrize("mode", MODES)
def test_a_server_that_offers_no_tls_is_not_spoken_to_in_plain_text(
    way: str, mode: str, table: str
) -> None:
    """Whoever sits in between could hide the offer, and read along."""

    async def scenario(lab: Lab) -> None:
        with pytest.raises(fencelock.Unavailable, match="tls is wanted, and the server offers"):
            _ = await lab.connect(shared(mariadb).url(), mode=mode, table=table, tls="yes")

    run(way, scenario)


@pytest.mark.parametrize(("tls", "encrypts"), [(None, True), ("no", False)])
def test_what_a_server_offers_is_taken_unless_it_is_not_wanted(
    tls: str | None, encrypts: bool, table: str
) -> None:
    """MySQL offers TLS by itself, and PyMySQL takes it."""
    options = {} if tls is None else {"tls": tls}
    with fencelock.connect(shared(mysql).url(), table=table, **options) as client:
        client.open()
        engine = client._core.engine
        assert isinstance(engine, LeaseEngine)
        (reply,) = drive(engine._pool.query("SHOW SESSION STATUS LIKE 'Ssl_cipher'"))
        assert (reply.rows[0][1] != b"") is encrypts
