"""The options of a URL, in libpq's words."""

from __future__ import annotations

import pytest

from fencelock import engines
from fencelock.engines.postgresql.settings import read_settings
from fencelock.errors import Misconfigured

CHECKED = {"sslmode": "verify-full", "sslrootcert": "system"}


def tls_words(options: str) -> dict[str, str]:
    """What libpq is told of TLS."""
    _, address = engines.resolve(f"postgresql://app@db/shop?{options}", {})
    return {n: v for n, v in read_settings(address).conninfo.items() if n.startswith("ssl")}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("", {}),
        ("tls=yes", CHECKED),
        ("tls=no", {"sslmode": "disable"}),
        ("ca=/ca.pem", CHECKED | {"sslrootcert": "/ca.pem"}),
        ("cert=/me.pem&key=/me.key", CHECKED | {"sslcert": "/me.pem", "sslkey": "/me.key"}),
        ("sslmode=require&sslcert=/me.pem", {"sslmode": "require", "sslcert": "/me.pem"}),
    ],
)
def test_the_names_that_all_engines_know_mean_a_checked_certificate(
    options: str, words: dict[str, str]
) -> None:
    assert tls_words(options) == words


@pytest.mark.parametrize("options", ["ca=/a&sslrootcert=/b", "tls=yes&sslmode=prefer", "key=/k"])
def test_what_is_said_twice_or_by_half_is_refused(options: str) -> None:
    with pytest.raises(Misconfigured):
        tls_words(options)
