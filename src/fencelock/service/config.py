"""The file ``fencelock.toml``: who may call this service, and its limits.

It holds digests of tokens, never tokens, and is refused unless only its owner can read it. Every
key in it is checked: a misspelled limit would limit nothing.
"""

from __future__ import annotations

import os
import re
import stat
import tomllib
from collections.abc import Mapping
from typing import Any, NamedTuple, cast

from .._client.durations import seconds
from .._client.validation import check_prefix, check_ttl
from ..errors import Misconfigured, UsageError
from .access import DIGEST, VERBS, Identity, Quota, Right
from .node import Limits

NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
TOKEN = re.compile(DIGEST + r"[0-9a-f]{64}")
TOKENS_MAX = 2


class Config(NamedTuple):
    """The contents of the file."""

    limits: Limits = Limits()
    identities: tuple[Identity, ...] = ()
    hosts: tuple[str, ...] = ()
    audit: str | None = None


def load(path: str) -> Config:
    """Read the file, or raise Misconfigured with what is wrong with it."""
    try:
        with open(path, "rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            if not stat.S_ISREG(mode) or mode & 0o077:
                raise Misconfigured(
                    f"{path} may be read by others (mode {stat.S_IMODE(mode):04o}), and says who "
                    f"may take locks: chmod 600 {path}"
                )
            words = tomllib.load(file)
    except OSError as error:
        raise Misconfigured(f"{path} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Misconfigured(f"{path} is not TOML: {error}") from None
    try:
        return _config(words)
    except UsageError as error:
        raise Misconfigured(f"{path}: {error}") from None


def _config(words: Mapping[str, Any]) -> Config:
    _known(words, {"limits", "identity", "hosts", "audit"}, "the file")
    identities = tuple(_identity(one) for one in _list(words.get("identity", []), "identity"))
    names = [identity.name for identity in identities]
    digests = [digest for identity in identities for digest in identity.digests]
    if len(set(names)) < len(names):
        raise UsageError("two identities have the same name")
    if len(set(digests)) < len(digests):
        raise UsageError("the same token is listed twice")
    hosts = [str(host).lower() for host in _list(words.get("hosts", []), "hosts")]
    audit = words.get("audit")
    if audit is not None and not isinstance(audit, str):
        raise UsageError("audit is the path of a file")
    return Config(_limits(_table(words.get("limits", {}), "limits")), identities, (*hosts,), audit)


def _limits(words: Mapping[str, Any]) -> Limits:
    _known(words, {*Limits._fields}, "limits")
    given: dict[str, Any] = {name: _count(words, name) for name in words if name != "ttl_max"}
    if "ttl_max" in words:
        given["ttl_max"] = _ttl(words["ttl_max"])
    return Limits(**given)


def _identity(words: object) -> Identity:
    table = _table(words, "an identity")
    _known(table, {"name", "tokens", "allow", "quota"}, "an identity")
    name = table.get("name")
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise UsageError("the name of an identity has 1 to 64 of the characters A-Z a-z 0-9 . _ -")
    tokens = _list(table.get("tokens", []), f"tokens of {name}")
    if not 1 <= len(tokens) <= TOKENS_MAX:
        raise UsageError(f"{name} needs one token, or two while one takes the place of another")
    for token in tokens:
        if not isinstance(token, str) or not TOKEN.fullmatch(token):
            raise UsageError(f"a token of {name} is not the line that `fencelock token` printed")
    rights = tuple(_right(one, name) for one in _list(table.get("allow", []), f"allow of {name}"))
    quota = _quota(_table(table.get("quota", {}), f"quota of {name}"))
    return Identity(name, rights, quota, tuple(str(t).removeprefix(DIGEST) for t in tokens))


def _right(words: object, whose: str) -> Right:
    table = _table(words, f"allow of {whose}")
    _known(table, {"prefix", "verbs"}, f"allow of {whose}")
    if not isinstance(table.get("prefix"), str):
        raise UsageError(f'allow of {whose} needs a prefix; "" is every name')
    verbs = _list(table.get("verbs", []), f"verbs of {whose}")
    for verb in verbs:
        if verb not in VERBS:
            raise UsageError(f"{whose}: the verbs are {', '.join(VERBS)}, not {verb!r:.80}")
    return Right(check_prefix(table["prefix"]), tuple(verb for verb in VERBS if verb in verbs))


def _quota(words: Mapping[str, Any]) -> Quota:
    _known(words, {*Quota._fields}, "quota")
    return Quota(
        held=_count(words, "held"),
        waiting=_count(words, "waiting"),
        calls_per_s=_count(words, "calls_per_s"),
        ttl_max=_ttl(words["ttl_max"]) if "ttl_max" in words else None,
    )


def _ttl(value: object) -> float:
    return check_ttl(seconds(value) if isinstance(value, str) else value, "ttl_max")


def _count(words: Mapping[str, Any], name: str) -> int | None:
    value = words.get(name)
    if name in words and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
        raise UsageError(f"{name} is a whole number from 1, not {value!r:.80}")
    return value


def _known(words: Mapping[str, Any], known: set[str], where: str) -> None:
    for word in words:
        if word not in known:
            raise UsageError(f"{where} knows {', '.join(sorted(known))}, not {word!r:.80}")


def _table(value: object, what: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise UsageError(f"{what} is a table")
    return cast("Mapping[str, Any]", value)


def _list(value: object, what: str) -> list[object]:
    if not isinstance(value, list):
        raise UsageError(f"{what} is a list")
    return cast("list[object]", value)
