"""What the URL of a service and its options say, and that a token is shown nowhere."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import fencelock
from fencelock import Misconfigured, engines
from fencelock.engines.http.settings import VARIABLE, Settings, read, token_of

TOKEN = "planted-0123456789abcdef"


@pytest.fixture(autouse=True)
def no_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)


def settings(url: str, **options: object) -> Settings:
    _, address = engines.resolve(url, options)
    return read(address)


@pytest.mark.parametrize(
    ("url", "options"),
    [
        (f"https://{TOKEN}@locks.internal", {}),
        (f"https://user:{TOKEN}@locks.internal", {}),
        (f"https://:{TOKEN}@locks.internal", {}),
        (f"https://locks.internal?token={TOKEN}", {}),
        ("https://locks.internal", {"token": TOKEN}),
    ],
)
def test_a_token_works_wherever_it_stands_and_is_shown_nowhere(
    url: str, options: dict[str, Any]
) -> None:
    kind, address = engines.resolve(url, options)
    found = read(address)
    assert token_of(found) == TOKEN
    client = fencelock.connect(url, **options)
    for shown in (repr(address), address.public, repr(found), repr(client), found.where):
        assert TOKEN not in shown
    assert "user" not in address.public
    assert kind.schemes == ("http", "https")


def test_the_variable_is_looked_at_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "of-the-variable")
    assert token_of(settings("http://a")) == "of-the-variable"
    assert token_of(settings(f"http://{TOKEN}@a")) == TOKEN
    assert token_of(settings("http://a", token=TOKEN)) == TOKEN


def test_a_file_is_read_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "of-the-variable")
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    found = settings("http://a", token_file=str(file))
    assert token_of(found) == TOKEN
    file.write_text("another")
    assert token_of(found) == "another"
    for broken in ("", "two words", "\u00e9"):
        file.write_text(broken, encoding="utf-8")
        with pytest.raises(Misconfigured, match="token"):
            token_of(found)
    file.unlink()
    with pytest.raises(Misconfigured, match="cannot be read"):
        token_of(found)


def test_hosts_ports_and_a_path() -> None:
    found = settings("http://a,b:7420,[::1]:7421/some/path/")
    assert found.nodes == (("a", 80), ("b", 7420), ("::1", 7421))
    assert found.path == "/some/path"
    assert settings("https://a").nodes == (("a", 443),)
    assert settings("https://a").tls is not None
    assert settings("http://a").tls is None


WRONG: Mapping[str, tuple[str, dict[str, Any], str]] = {
    "no host": ("http://", {}, "names no host"),
    "two tokens": (f"http://{TOKEN}@a", {"token": "other"}, "leave one out"),
    "a token and a file": ("http://a", {"token": TOKEN, "token_file": "/t"}, "leave one out"),
    "a token of two words": ("http://a", {"token": f"{TOKEN} {TOKEN}"}, "one word"),
    "a token with a line": ("http://a", {"token": f"{TOKEN}\r\nX: y"}, "one word"),
    "files without TLS": ("http://a", {"ca": "/ca.pem"}, "https"),
    "a key alone": ("https://a", {"key": "/key.pem"}, "cert="),
    "no file": ("https://a", {"ca": "/nowhere/ca.pem"}, "cannot be read"),
    "an odd path": ("http://a/x?y%20z=1", {}, "has no option"),
    "a path that is a query": ("http://a/x%3Fy", {}, "path"),
    "an unknown option": ("http://a", {"tokens": TOKEN}, "it knows: ca, cert"),
    "a timeout": ("http://a", {"request_timeout": "soon"}, "request_timeout"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_said_without_the_token(case: str) -> None:
    url, options, words = WRONG[case]
    with pytest.raises(Misconfigured, match=words) as raised:
        fencelock.connect(url, **options).lock("a").acquire()
    assert TOKEN not in str(raised.value)


def test_a_broken_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, f"{TOKEN}\n")
    with pytest.raises(Misconfigured, match=VARIABLE) as raised:
        settings("http://a")
    assert TOKEN not in str(raised.value)
