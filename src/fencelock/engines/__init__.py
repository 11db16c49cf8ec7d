"""Which class serves which URL scheme.

To add an engine of our own: one file (or folder) beside this one and one line in the table. Engines
of other packages register themselves by an entry point of the group ``fencelock.engines``, named
after the scheme. Nothing here imports an engine before its scheme is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module, util
from typing import Any

from ..engine import Address, Engine, read_options
from ..errors import Misconfigured
from .url import default_url, parse, with_path

__all__ = ["default_url", "find", "parse", "resolve", "settled_url"]

TABLE: dict[str, str] = {
    "memory": "fencelock.engines.memory:MemoryEngine",
    "mariadb": "fencelock.engines.mysql.lease:LeaseEngine",
    "mysql": "fencelock.engines.mysql.lease:LeaseEngine",
    "sqlite": "fencelock.engines.sqlite.engine:SqliteEngine",
    "redis": "fencelock.engines.redis.engine:RedisEngine",
    "rediss": "fencelock.engines.redis.engine:RedisEngine",
    "valkey": "fencelock.engines.redis.engine:RedisEngine",
    "redis+sentinel": "fencelock.engines.redis.engine:RedisEngine",
    "redis+cluster": "fencelock.engines.redis.engine:RedisEngine",
    "redlock": "fencelock.engines.redlock.engine:RedlockEngine",
    "postgresql": "fencelock.engines.postgresql.lease:LeaseEngine",
    "etcd": "fencelock.engines.etcd.engine:EtcdEngine",
    "consul": "fencelock.engines.consul.engine:ConsulEngine",
    "dynamodb": "fencelock.engines.dynamodb.engine:DynamoDBEngine",
    "spanner": "fencelock.engines.spanner.engine:SpannerEngine",
    "firestore": "fencelock.engines.firestore.engine:FirestoreEngine",
    "hazelcast": "fencelock.engines.hazelcast.engine:HazelcastEngine",
    "http": "fencelock.engines.http.engine:HttpEngine",
    "https": "fencelock.engines.http.engine:HttpEngine",
    "zookeeper": "fencelock.engines.zookeeper.engine:ZooKeeperEngine",
}

ALIASES = {"postgres": "postgresql"}
"""Other names of our schemes. SQLAlchemy's also name a driver, as in postgresql+psycopg."""
WITH_DRIVERS = ("postgresql", "mysql", "mariadb")

GROUP = "fencelock.engines"


def resolve(url: str | None, options: Mapping[str, object]) -> tuple[type[Engine], Address]:
    """Return the engine class and the address that a URL and options mean."""
    address = parse(default_url() if url is None else url, options)
    address = address._replace(scheme=meant(address.scheme))
    engine = find(address.scheme)
    given = dict(address.options)
    scope = given.pop("scope", None)
    address = address._replace(options=read_options(engine, given))
    engine = engine.chosen(address)
    _demand(engine, address.public, scope)
    return engine, engine.settled(address)


def settled_url(url: str | None) -> str:
    """Return a URL that means the same engine in every working folder, as other programs need it.

    It has the password.
    """
    text = default_url() if url is None else url
    return with_path(text, resolve(text, {})[1].path)


def _demand(engine: type[Engine], place: str, scope: object) -> None:
    """Refuse an engine whose locks reach less far than ``scope`` demands. All engines have that
    option."""
    if scope is None:
        return
    if scope not in ("host", "network"):
        raise Misconfigured(f"scope is host or network, not {scope!r}")
    if engine.traits.scope in ("network", "machine" if scope == "host" else "network"):
        return
    whom = "threads of one process" if engine.traits.scope == "process" else "processes of one host"
    advice = "an engine that all hosts reach, such as redis://, postgresql:// or etcd://"
    raise Misconfigured(
        f"{place} excludes only {whom}, and scope={scope} was demanded: name "
        f"{advice if scope == 'network' else 'a file (sqlite:///locks.db) or a server'}, as the "
        "URL or in FENCELOCK_URL"
    )


def meant(scheme: str) -> str:
    """Return our name of a scheme that may be one of SQLAlchemy's or libpq's."""
    base, plus, _ = scheme.partition("+")
    base = ALIASES.get(base, base)
    return base if not plus or base in WITH_DRIVERS else scheme


def find(scheme: str) -> type[Engine]:
    """Return the engine class for a scheme, or say which schemes there are or what to install."""
    if scheme in TABLE:
        module, _, name = TABLE[scheme].partition(":")
        return _with_drivers(_load(module, name, scheme), scheme)
    others = _entry_points()
    if scheme in others:
        module, _, name = others[scheme].partition(":")
        return _with_drivers(_load(module, name, scheme), scheme)
    known = ", ".join(sorted({*TABLE, *others}))
    raise Misconfigured(
        f"there is no engine for {scheme}://; known schemes: {known}{_meant(scheme)}"
    )


def _entry_points() -> dict[str, str]:
    from importlib.metadata import entry_points  # 20 ms, only for engines of other packages

    return {point.name: point.value for point in entry_points(group=GROUP)}


def _load(module: str, name: str, scheme: str) -> type[Engine]:
    try:
        found = getattr(import_module(module), name)
    except ModuleNotFoundError as error:
        if error.name and not error.name.startswith(module.partition(".")[0]):
            first = next((s for s in TABLE if TABLE[s] == TABLE.get(scheme)), scheme)
            raise _missing(error.name, first) from None
        raise Misconfigured(f"the engine for {scheme}:// cannot be loaded: {error}") from error
    except Exception as error:  # another package may fail in any way while it is imported
        raise Misconfigured(f"the engine for {scheme}:// cannot be loaded: {error}") from error
    if not (isinstance(found, type) and issubclass(found, Engine)):
        raise Misconfigured(f"{module}:{name}, registered for {scheme}://, is not an Engine")
    return found


def _with_drivers(engine: type[Engine], scheme: str) -> type[Engine]:
    for driver in engine.drivers:
        try:
            found = util.find_spec(driver) is not None
        except ModuleNotFoundError:  # not even the parent package is installed
            found = False
        if not found:
            raise _missing(driver, engine.schemes[0])
    return engine


def _missing(driver: str, scheme: str) -> Misconfigured:
    if scheme in TABLE:
        return Misconfigured(f"{scheme}:// needs the package {driver}: {_install(scheme)}")
    return Misconfigured(f"{scheme}:// needs the package {driver}: pip install {driver}")


def _install(extra: str) -> str:
    """Return the command that installs an extra, from the source of this package itself."""
    import json
    from importlib.metadata import PackageNotFoundError, distribution
    from urllib.parse import unquote, urlsplit

    direct: Any = {}
    try:
        direct = json.loads(distribution("fencelock").read_text("direct_url.json") or "{}")
    except (PackageNotFoundError, ValueError):
        pass
    source = urlsplit(str(direct.get("url", "")))
    if source.scheme == "file":
        flag = "-e " if direct.get("dir_info", {}).get("editable") else ""
        return f'pip install {flag}"{unquote(source.path)}[{extra}]"'
    if vcs := direct.get("vcs_info", {}).get("vcs"):
        return f'pip install "fencelock[{extra}] @ {vcs}+{direct["url"]}"'
    return f'pip install "fencelock[{extra}]"'


def _meant(scheme: str) -> str:
    from difflib import get_close_matches

    close = get_close_matches(scheme, TABLE, 1)
    return f" (did you mean {close[0]}://?)" if close else ""
