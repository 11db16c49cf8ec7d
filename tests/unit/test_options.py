"""The readers of options: one rule for each kind of value, and an error that names the option."""

from __future__ import annotations

import pytest

from fencelock.engine import Engine
from fencelock.engines import TABLE, find, options
from fencelock.errors import Misconfigured


@pytest.mark.parametrize("value", [True, "yes", "TRUE", "on", 1, "1"])
def test_a_switch_is_on(value: object) -> None:
    assert options.switch("push")(value) is True


@pytest.mark.parametrize("value", [False, "no", "False", "off", 0, "0"])
def test_a_switch_is_off(value: object) -> None:
    assert options.switch("push")(value) is False


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("request_timeout", "soon"),
        ("request_timeout", "nan"),
        ("request_timeout", True),
        ("connect_timeout", -1),
        ("pool", 0),
        ("pool", 1.5),
        ("prefix", "a\nb"),
        ("prefix", 7),
        ("tls", "perhaps"),
        ("ca", ""),
        ("cert", 7),
        ("key", None),
    ],
)
def test_a_wrong_value_is_refused_by_the_name_of_its_option(option: str, value: object) -> None:
    with pytest.raises(Misconfigured, match=f"^{option} must be "):
        options.COMMON[option](value)


def test_an_option_that_several_engines_have_has_one_rule() -> None:
    engines: list[type[Engine]] = [find(scheme) for scheme in TABLE]
    for name, reader in options.COMMON.items():
        for engine in engines:
            assert engine.options.get(name, reader) is reader, (
                f"{engine.__name__} reads {name} itself"
            )


def test_files_mean_tls() -> None:
    assert options.tls({}) is None
    assert options.tls({"tls": True}) == (None, None, None)
    assert options.tls({}, implied=True) == (None, None, None)
    assert options.tls({"ca": "ca.pem"}) == ("ca.pem", None, None)
    assert options.tls({"tls": False}, implied=True) is None
    with pytest.raises(Misconfigured, match="tls=no and cert= contradict each other"):
        options.tls({"tls": False, "cert": "me.pem"})
    with pytest.raises(Misconfigured, match="name that by cert="):
        options.tls({"key": "me.key"})
