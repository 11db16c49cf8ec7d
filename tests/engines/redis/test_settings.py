"""What a URL may say, and what is refused before any connection is made."""

from __future__ import annotations

from typing import Any

import pytest

import fencelock
from fencelock import Denied, Misconfigured, Unavailable
from tests.faults.flavors import FLAVORS, Lab, run
from tests.servers.redis import Redis
from tests.servers.server import free_port


@pytest.mark.parametrize(
    ("url", "options", "why"),
    [
        ("redis://h1,h2/0", {}, "redis\\+sentinel:// or redis\\+cluster://.*redlock://"),
        ("redis://localhost/zero", {}, "'zero' is no number of a database"),
        ("redis+cluster://localhost/1", {}, "database 0 only"),
        ("redis+sentinel://h1,h2", {}, "which primary Sentinel should name"),
        ("redis+sentinel://h1/main/x", {}, "'x' is no number of a database"),
        (
            "redis://localhost",
            {"request_timeout": 0},
            "request_timeout must be a number of seconds from 0.01 to 600",
        ),
        ("redis://localhost", {"request_timeout": "soon"}, "request_timeout must be a number"),
        ("redis://localhost", {"request_timeout": "nan"}, "request_timeout must be a number"),
        ("redis://localhost", {"replicas": -1}, "replicas must be a whole number from 0 to 100"),
        ("redis://localhost", {"prefix": "a\nb"}, "prefix must be a printable text"),
        ("redis://localhost", {"ca": "ca.pem", "tls": "no"}, "tls=no and ca= contradict"),
        ("redis://localhost", {"verify": "no"}, "verify= is for TLS"),
        ("rediss://localhost", {"verify": "perhaps"}, "verify must be yes or no"),
        ("rediss://localhost", {"ca": ""}, "ca must be the path of a file"),
        ("redis://localhost", {"prefx": "a"}, "redis has no option 'prefx'; it knows: ca, cert"),
    ],
)
def test_a_wrong_url_or_option_is_refused(url: str, options: dict[str, Any], why: str) -> None:
    with pytest.raises(Misconfigured, match=why):
        fencelock.connect(url, **options).open()


def test_a_server_that_is_not_there_is_told_with_its_address() -> None:
    port = free_port()
    with pytest.raises(Unavailable, match=f"127.0.0.1:{port} cannot be reached .*nothing happened"):
        fencelock.connect(f"redis://127.0.0.1:{port}").open()


def test_a_wrong_password_is_denied_and_not_repeated() -> None:
    with Redis(password="right") as server:
        with pytest.raises(Denied, match="user or the password") as caught:
            fencelock.connect(f"redis://:wr0ng@127.0.0.1:{server.port}").open()
        assert "wr0ng" not in str(caught.value)
        with pytest.raises(Denied):
            fencelock.connect(f"redis://127.0.0.1:{server.port}").open()


@pytest.mark.parametrize("flavor", FLAVORS)
def test_a_database_that_the_server_does_not_have_is_a_wrong_configuration(flavor: str) -> None:
    async def scenario(lab: Lab) -> None:
        for scheme in ("redis", "redlock"):
            with pytest.raises(Misconfigured, match="has no such database"):
                _ = await lab.connect(f"{scheme}://127.0.0.1:{server.port}/99")

    with Redis(settings={"databases": "16"}) as server:
        run(flavor, scenario)


def test_a_server_of_another_kind_is_refused() -> None:
    with Redis() as server:
        with pytest.raises(Misconfigured, match=r"what the URL says it is.*unknown command"):
            fencelock.connect(
                f"redis+sentinel://127.0.0.1:{server.port}/main", request_timeout=10
            ).open()


def test_a_lone_server_is_no_cluster() -> None:
    with Redis() as server:
        with pytest.raises((Misconfigured, Unavailable), match="cluster"):
            fencelock.connect(f"redis+cluster://127.0.0.1:{server.port}", request_timeout=10).open()
