"""Options, access control, encryption, and what the doctor finds."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import fencelock
from fencelock import Denied, Misconfigured, Unavailable
from fencelock._client import administration
from fencelock.engines.zookeeper.doctor import _version
from fencelock.engines.zookeeper.wire.srvr import parse_member
from tests.faults.flavors import Lab, run
from tests.servers.server import free_port, program, until
from tests.servers.zookeeper import Ensemble, ZooKeeper


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("session=0", "session must be"),
        ("session=soon", "session must be"),
        ("acl=nobody", "acl must be one of open, creator, readable"),
        ("acl=creator", "needs a user"),
        ("recipe=own", "recipe must be one of kazoo, curator"),
        ("tls=perhaps", "tls must be yes or no"),
        ("ca=", "ca must be the path of a file"),
        ("request_timeout=1", "it knows: acl, ca, cert, key, recipe, session, tls"),
    ],
)
def test_a_wrong_option_is_refused(query: str, why: str) -> None:
    with pytest.raises(Misconfigured, match=why):
        fencelock.connect(f"zookeeper://127.0.0.1:1/x?{query}").open()


def test_a_wrong_address_is_refused() -> None:
    with pytest.raises(Misconfigured, match="names no server"):
        fencelock.connect("zookeeper:///x").open()
    with pytest.raises(Misconfigured, match="no path of ZooKeeper"):
        fencelock.connect("zookeeper://127.0.0.1:1/a/../b").open()


def test_nobody_there_is_said_at_once(flavor: str) -> None:
    async def scenario(lab: Lab) -> None:
        with pytest.raises(Unavailable, match="cannot be reached"):
            _ = await lab.connect(f"zookeeper://127.0.0.1:{free_port()}/x")

    run(flavor, scenario)


def test_a_member_that_is_silent_leaves_time_for_the_others(flavor: str, server: ZooKeeper) -> None:
    """It takes connections, as a frozen machine does, and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as frozen:
        silent = f"127.0.0.1:{frozen.getsockname()[1]}"
        root = server.fresh_url().rpartition("/")[2]

        async def scenario(lab: Lab) -> None:
            url = f"zookeeper://{silent},{silent},{server.address}/{root}"
            client = await lab.connect(url, session=2.0)
            await (await client.lock("seat").acquire()).release()
            with pytest.raises(Unavailable, match=f"{silent} .*silent"):
                _ = await lab.connect(f"zookeeper://{silent}/{root}", session=2.0)

        run(flavor, scenario)


def test_the_server_decides_how_long_a_session_is(flavor: str, own_server: ZooKeeper) -> None:
    async def scenario(lab: Lab) -> None:
        client = await lab.connect(own_server.fresh_url(), session=3000)
        async with client.lock("seat", ttl=3000) as lease:
            assert lease.ttl == pytest.approx(0.75 * 1200)

    run(flavor, scenario)


def test_a_lock_of_another_user_cannot_be_taken_away(flavor: str, server: ZooKeeper) -> None:
    url = server.fresh_url()

    async def scenario(lab: Lab) -> None:
        owner = await lab.connect(url.replace("://", "://anna:secret@"))
        stranger = await lab.connect(url.replace("://", "://eve:guess@"))
        async with owner.lock("seat"):
            with pytest.raises(Denied):
                await stranger.revoke("seat", "mine now")
            with pytest.raises(Denied):
                await stranger.lock("seat").try_acquire()
        async with owner.lock("seat") as lease:
            assert (await owner.holders("seat"))[0].fence == lease.fence

    run(flavor, scenario)


def test_a_readable_lock_shows_its_holder_to_all(server: ZooKeeper) -> None:
    url = server.fresh_url()
    owned = url.replace("://", "://anna:secret@") + "?acl=readable"
    with fencelock.connect(owned) as owner, fencelock.connect(url) as stranger:
        with owner.lock("seat") as lease:
            assert stranger.holders("seat")[0].fence == lease.fence


@pytest.fixture(scope="module")
def encrypted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ZooKeeper, Path]]:
    """A server that speaks TLS on its secure port, and the certificate to trust."""
    folder = tmp_path_factory.mktemp("tls")
    key, cert, both = folder / "key.pem", folder / "cert.pem", folder / "both.pem"
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    make = [
        program("openssl", "openssl"),
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        *subject,
    ]
    subprocess.run(
        [*make, "-keyout", str(key), "-out", str(cert), "-days", "2"],
        check=True,
        capture_output=True,
    )
    both.write_text(key.read_text() + cert.read_text())
    settings = {
        "secureClientPort": str(free_port()),
        "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
        "ssl.keyStore.location": str(both),
        "ssl.keyStore.type": "PEM",
        "ssl.trustStore.location": str(cert),
        "ssl.trustStore.type": "PEM",
        "ssl.clientAuth": "want",
    }
    with ZooKeeper(settings=settings) as server:
        port = int(settings["secureClientPort"])
        until(lambda: _listens(port), "the secure port, which opens after the other one")
        yield server, folder


def _listens(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def test_tls_with_a_certificate_of_our_own(flavor: str, encrypted: tuple[ZooKeeper, Path]) -> None:
    server, folder = encrypted
    url = f"zookeeper://localhost:{server.settings['secureClientPort']}/x"
    files: dict[str, Any] = {"ca": str(folder / "cert.pem"), "cert": str(folder / "cert.pem")}

    async def scenario(lab: Lab) -> None:
        client = await lab.connect(url, **files, key=str(folder / "key.pem"))
        leases = [
            await client.lock(f"seat:{n}", meta={"n": "x" * 900}).acquire() for n in range(50)
        ]
        assert len(await client.scan("")) == 50
        for lease in leases:
            await lease.renew()
            assert await lease.release() is True
        with pytest.raises(Misconfigured, match="no certificate that we trust"):
            _ = await lab.connect(url, tls=True)

    run(flavor, scenario)


async def findings(lab: Lab, url: str, **options: Any) -> dict[tuple[str, str], str]:
    client: Any = await lab.connect(url, **options)
    found = await administration.diagnose(client._core) if lab.flavor == "asyncio" else None
    if found is None:
        with fencelock.connect(url, **options) as plain:
            from fencelock.worlds.threads import drive

            found = drive(administration.diagnose(plain._core))
    return {(one.level, one.topic): one.text for one in found}


def test_the_doctor_warns_of_a_server_that_stands_alone(flavor: str, server: ZooKeeper) -> None:
    async def scenario(lab: Lab) -> None:
        found = await findings(lab, server.fresh_url(), session=3000)
        assert "stands alone" in found["warning", "quorum"]
        assert "3000 s were asked for" in found["warning", "session"]
        assert "a write" in found.get(("ok", "latency"), found.get(("warning", "latency"), ""))
        assert found["ok", "version"] == "3.8.0"

    run(flavor, scenario)


def test_the_doctor_counts_the_members(flavor: str, ensemble: Ensemble) -> None:
    async def scenario(lab: Lab) -> None:
        found = await findings(lab, ensemble.url())
        assert found["ok", "quorum"] == "2 of 3 members must agree"
        found = await findings(lab, ensemble.url(ensemble.members[0]))
        assert "3 members that vote, the URL names 1" in found["warning", "quorum"]
        ensemble.followers[0].kill()
        found = await findings(lab, ensemble.url())
        assert "cannot be reached" in found["warning", "members"]

    run(flavor, scenario)


def test_the_doctor_knows_versions_that_keep_dead_nodes() -> None:
    assert _version("3.4.10", False).level == "problem"
    assert _version("3.5.3", False).level == "problem"
    assert _version("3.4.14", False).level == "note"
    assert _version("3.9.3", False).level == "ok"


def test_the_doctor_knows_versions_whose_members_forget_to_answer() -> None:
    assert _version("3.8.0", False).level == _version("3.6.3", False).level == "warning"
    assert _version("3.8.1", False).level == _version("3.6.4", False).level == "ok"
    assert _version("3.5.10", False).level == "ok"
    assert _version("3.8.0", True).level == "ok"


def test_a_member_that_does_not_serve_is_told_apart() -> None:
    text = "This ZooKeeper instance is not currently serving requests\n"
    assert "does not serve" in parse_member("h:1", text).trouble
