"""Reading a URL: its parts, its options, and what is said about one that cannot be read.

A password must show nowhere: not in ``public``, not in a repr, not in an error.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fencelock
from fencelock import Misconfigured, engines
from fencelock.engines.postgresql.settings import read_settings
from fencelock.engines.url import default_url, parse

# Parts


@pytest.mark.parametrize(
    ("url", "hosts", "path"),
    [
        ("memory://", (), ""),
        ("memory://name", (("name", None),), ""),
        ("sqlite:///locks.db", (), "/locks.db"),
        ("sqlite:////var/lib/locks.db", (), "//var/lib/locks.db"),
        ("sqlite:///a%20b%3F.db", (), "/a b?.db"),
        ("redis://h", (("h", None),), ""),
        ("redis://h:6379/0", (("h", 6379),), "/0"),
        ("redis://h:/0", (("h", None),), "/0"),
        ("redlock://a:1,b:2,c", (("a", 1), ("b", 2), ("c", None)), ""),
        ("etcd://127.0.0.1:2379", (("127.0.0.1", 2379),), ""),
        ("etcd://[::1]:2379", (("[::1]", 2379),), ""),
        ("etcd://[::1],[fe80::2]:1", (("[::1]", None), ("[fe80::2]", 1)), ""),
        ("zookeeper://a:1,b:2/chroot/x", (("a", 1), ("b", 2)), "/chroot/x"),
    ],
)
def test_hosts_ports_and_path(
    url: str, hosts: tuple[tuple[str, int | None], ...], path: str
) -> None:
    address = parse(url, {})
    assert address.scheme == url.partition(":")[0]
    assert address.hosts == hosts
    assert address.path == path


def test_a_scheme_is_read_in_any_case_and_spaces_around_are_dropped() -> None:
    assert parse(" Redis+Sentinel://h/service\n", {}).scheme == "redis+sentinel"


@pytest.mark.parametrize(
    ("url", "user", "password"),
    [
        ("redis://h", None, None),
        ("redis://u@h", "u", None),
        ("redis://u:p@h", "u", "p"),
        ("redis://:p@h", None, "p"),
        ("redis://u:@h", "u", ""),
        ("redis://us%40er:p%2F%3A%40%3F%23w@h:1/0", "us@er", "p/:@?#w"),
        ("redis://u:p:q@h", "u", "p:q"),
        ("redis://u:p@q@h", "u", "p@q"),
    ],
)
def test_credentials_are_percent_decoded(url: str, user: str | None, password: str | None) -> None:
    address = parse(url, {})
    assert (address.user, address.password) == (user, password)
    assert address.hosts[0][0] == "h"


@pytest.mark.parametrize("port", ["0", "65536", "-1", "x", "6379a", "٣"])
def test_what_is_no_port_is_refused(port: str) -> None:
    with pytest.raises(Misconfigured, match="is not a number from 1 to 65535: write host:port"):
        parse(f"redis://h:{port}/0", {})


@pytest.mark.parametrize("hosts", [":6379", "a,,b", "a,"])
def test_a_missing_host_is_refused(hosts: str) -> None:
    with pytest.raises(Misconfigured, match="a host is missing"):
        parse(f"redlock://{hosts}/0", {})


@pytest.mark.parametrize("url", ["locks.db", "sqlite:/locks.db", "://h", "re dis://h", "", "/a/b"])
def test_what_is_no_url_is_refused_with_an_example(url: str) -> None:
    with pytest.raises(Misconfigured, match=r"must look like sqlite:///locks\.db or redis://"):
        parse(url, {})


@pytest.mark.parametrize("url", [7, b"memory://", Path("locks.db")])
def test_what_is_no_text_is_refused(url: object) -> None:
    with pytest.raises(Misconfigured, match="an engine URL must be a str"):
        parse(url, {})


# Options


def test_options_come_from_the_query_and_from_keywords_and_keywords_win() -> None:
    address = parse(
        "sqlite:///a.db?request_timeout=2&push=no&empty=&name=a%20b%26", {"request_timeout": 9}
    )
    assert address.options == {"request_timeout": 9, "push": "no", "empty": "", "name": "a b&"}
    assert address.path == "/a.db"


def test_an_option_given_twice_is_refused() -> None:
    with pytest.raises(Misconfigured, match="gives push, request_timeout more than once"):
        parse("sqlite:///a.db?push=1&request_timeout=1&request_timeout=2&push=0", {})


@pytest.mark.parametrize("query", ["request_timeout", "request_timeout=1&&push=no", "=&="])
def test_options_that_cannot_be_read_are_refused_or_refused_later(query: str) -> None:
    with pytest.raises(Misconfigured):
        fencelock.connect(f"memory://?{query}").open()


def test_a_question_mark_without_options_is_nothing() -> None:
    assert parse("memory://?", {}).options == {}


# What is shown


SECRET = "hunter2-hunter2"


@pytest.mark.parametrize(
    ("url", "public"),
    [
        (f"redis://u:{SECRET}@h:6379/0?x=1", "redis://u@h:6379/0"),
        (f"redis://:{SECRET}@a:1,b/0", "redis://a:1,b/0"),
        ("etcd://[::1]:2379", "etcd://[::1]:2379"),
        ("memory://", "memory://"),
        ("sqlite:////var/lib/locks.db", "sqlite:////var/lib/locks.db"),
    ],
)
def test_an_address_is_shown_without_its_password(url: str, public: str) -> None:
    address = parse(url, {})
    assert address.public == public
    for text in (repr(address), str(address), f"{address}", f"{address!s}"):
        assert public in text
        assert SECRET not in text


@pytest.mark.parametrize(
    "url",
    [
        f"u:{SECRET}@h",  # no scheme
        f"re dis://u:{SECRET}@h",
        f"nothing://u:{SECRET}@h/0",  # no such engine
        f"memory://u:{SECRET}@h/?request_timeout=1",  # no such option
        f"memory://u:{SECRET}@h/?request_timeout",  # options that cannot be read
        f"sqlite://u:{SECRET}@h/locks.db",  # no such file
        f"sqlite://u:{SECRET}@h:x/locks.db",  # no port
        f"sqlite://u:{SECRET}@:1/locks.db",  # no host
    ],
)
def test_a_password_is_in_no_error(url: str) -> None:
    with pytest.raises(Misconfigured) as caught:
        fencelock.connect(url).open()
    error: BaseException | None = caught.value
    while error is not None:
        assert SECRET not in str(error)
        assert SECRET not in repr(error)
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def test_a_client_shows_where_it_is_without_the_password() -> None:
    with fencelock.connect(f"memory://u:{SECRET}@h") as client:
        assert client.url == "memory://u@h"
        assert repr(client) == "<fencelock.Client memory://u@h>"
    assert repr(client) == "<fencelock.Client memory://u@h (closed)>"


WORD = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)


@given(WORD, WORD)
def test_any_credentials_come_through_when_they_are_quoted(user: str, password: str) -> None:
    from urllib.parse import quote

    address = parse(f"redis://{quote(user, safe='')}:{quote(password, safe='')}@h:1/0", {})
    assert (address.user, address.password) == (user, password)
    assert address.hosts == (("h", 1),)
    assert address.path == "/0"


@given(st.text(st.characters(codec="utf-8")))
def test_any_text_is_read_or_refused_in_our_words(text: str) -> None:
    try:
        parse(text, {})
    except Misconfigured:
        pass


# Where none is named


def test_the_environment_names_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FENCELOCK_URL", "memory://from-the-environment")
    with fencelock.connect() as client:
        assert client.url == "memory://from-the-environment"
    with fencelock.connect("memory://named") as client:
        assert client.url == "memory://named"


def test_else_it_is_a_file_in_the_users_state_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    state = tmp_path / "state of ?#%"
    monkeypatch.delenv("FENCELOCK_URL", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(state))
    with fencelock.connect() as client, client.lock("a"):
        assert client.traits.scope == "machine"
    assert (state / "fencelock" / "locks.db").is_file()
    assert (state / "fencelock").stat().st_mode & 0o777 == 0o700


def test_without_a_state_folder_it_is_in_the_home(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("FENCELOCK_URL", raising=False)
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_url() == f"sqlite:///{tmp_path}/.local/state/fencelock/locks.db"


def test_a_folder_that_cannot_be_made_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.delenv("FENCELOCK_URL", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    with pytest.raises(Misconfigured, match="pass a URL or set FENCELOCK_URL"):
        fencelock.connect().open()


def test_a_relative_path_is_worked_out_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    with fencelock.connect("sqlite:///here.db") as client:
        os.chdir("/")
        with client.lock("a"):
            pass
    assert (tmp_path / "here.db").is_file()


@pytest.mark.parametrize(
    "url",
    [
        "redis://u:hun/ter2@h",
        "redis://u:hun?ter2@h",
        "redis://u:123/ter2@h",
        "redis://u:hunter2",
        "redis://u:hunter2@h?password=hunter2&y",
        "u:hunter2@h",
    ],
)
def test_no_error_repeats_what_may_be_a_password(url: str) -> None:
    with pytest.raises(Misconfigured) as raised:
        parse(url, {})
    assert "ter2" not in str(raised.value)


def test_an_address_with_colons_stands_in_brackets() -> None:
    with pytest.raises(Misconfigured, match="stands in brackets"):
        parse("etcd://::1", {})
    assert parse("etcd://[::1]:2379", {}).hosts == (("[::1]", 2379),)


@pytest.mark.parametrize(
    ("url", "scheme"),
    [
        ("postgres://app@db/shop", "postgresql"),
        ("postgresql+psycopg://app@db/shop", "postgresql"),
        ("postgresql+psycopg_async://app@db/shop", "postgresql"),
        ("postgresql+asyncpg://app@db/shop", "postgresql"),
        ("postgres+psycopg2://app@db/shop", "postgresql"),
        ("mysql+pymysql://app@db/shop", "mysql"),
        ("mysql+aiomysql://app@db/shop", "mysql"),
        ("mariadb+pymysql://app@db/shop", "mariadb"),
        ("redis+sentinel://a,b,c/main", "redis+sentinel"),
    ],
)
def test_urls_of_other_libraries_are_understood(url: str, scheme: str) -> None:
    engine, address = engines.resolve(url, {})
    assert address.scheme == scheme
    assert scheme in engines.TABLE
    assert engine is engines.find(scheme)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://app@/shop?host=/run/pg",
        "postgresql://app@%2Frun%2Fpg/shop",
        "postgresql:///shop?host=/run/pg&port=5433",
    ],
)
def test_a_socket_of_postgresql_can_be_named(url: str) -> None:
    _, address = engines.resolve(url, {})
    words = read_settings(address).conninfo
    assert (words["host"], words["dbname"]) == ("/run/pg", "shop")
    assert words.get("port") == ("5433" if "5433" in url else "5432" if "%2F" in url else None)


def test_a_server_that_is_named_twice_is_refused() -> None:
    _, address = engines.resolve("postgresql://app@db/shop?host=/run/pg", {})
    with pytest.raises(Misconfigured, match="twice"):
        read_settings(address)
