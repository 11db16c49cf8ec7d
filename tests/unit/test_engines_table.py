"""Which class serves which scheme: found, missing, misspelled, or somebody else's."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Sequence
from importlib import metadata
from importlib.metadata import version
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

import fencelock
from fencelock import Misconfigured, Unsupported, engines
from fencelock.engine import Address, Engine, read_options
from fencelock.engines.memory import MemoryEngine

ROOT = Path(__file__).parents[2]


@pytest.fixture
def no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """No other package has registered an engine."""
    register(monkeypatch, {})


def register(monkeypatch: pytest.MonkeyPatch, points: dict[str, str]) -> None:
    """Have other packages register engines, as their installed metadata would say."""

    def entry_points(*, group: str) -> Sequence[metadata.EntryPoint]:
        assert group == "fencelock.engines"
        return [metadata.EntryPoint(name, value, group) for name, value in points.items()]

    monkeypatch.setattr(metadata, "entry_points", entry_points)


def plant(monkeypatch: pytest.MonkeyPatch, module: str, **members: Any) -> None:
    """Have a module that can be imported."""
    planted = ModuleType(module)
    vars(planted).update(members)
    monkeypatch.setitem(sys.modules, module, planted)


# The table


@pytest.mark.parametrize("scheme", sorted(engines.TABLE))
def test_every_engine_of_the_table_loads_and_knows_its_scheme(scheme: str) -> None:
    engine = engines.find(scheme)
    assert issubclass(engine, Engine)
    assert scheme in engine.schemes
    assert engine.__doc__


@pytest.mark.parametrize("scheme", sorted(engines.TABLE))
def test_every_engine_of_the_table_has_an_extra_of_its_name(scheme: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert engines.find(scheme).schemes[0] in project["optional-dependencies"]


@pytest.mark.parametrize("driver", ["redis", "kazoo", "pymysql", "aiomysql", "psycopg"])
def test_a_driver_whose_insides_are_used_is_bounded_by_what_was_tested(driver: str) -> None:
    """Its private names and modules may change: a version that nobody has read is not installed."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    wanted = [Requirement(text) for texts in extras.values() for text in texts]
    bounds = {str(one.specifier) for one in wanted if one.name.lower() == driver}
    assert len(bounds) == 1, "every extra has the same bounds"
    bound = SpecifierSet(bounds.pop())
    assert any(one.operator == "<" for one in bound)
    assert version(driver) in bound


# Not found


@pytest.mark.usefixtures("no_others")
def test_an_unknown_scheme_is_answered_with_the_known() -> None:
    with pytest.raises(Misconfigured) as caught:
        fencelock.connect("carrier-pigeon://coop").open()
    known = ", ".join(sorted(engines.TABLE))
    assert str(caught.value) == (
        f"there is no engine for carrier-pigeon://; known schemes: {known}"
    )


@pytest.mark.usefixtures("no_others")
@pytest.mark.parametrize(("typed", "meant"), [("sqlit", "sqlite"), ("memry", "memory")])
def test_a_misspelled_scheme_is_told_what_was_meant(typed: str, meant: str) -> None:
    with pytest.raises(Misconfigured, match=rf"\(did you mean {meant}://\?\)"):
        fencelock.connect(f"{typed}:///locks.db").open()


def test_an_unknown_option_is_answered_with_the_known(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/locks.db"
    expected = r"sqlite has no option 'pacience'; it knows: push, request_timeout"
    with pytest.raises(Misconfigured, match=expected):
        fencelock.connect(f"{url}?pacience=1").open()
    with pytest.raises(Misconfigured, match=expected):
        fencelock.connect(url, pacience=1).open()
    with pytest.raises(
        Misconfigured, match="memory has no option 'request_timeout'; it knows: none"
    ):
        fencelock.connect("memory://", request_timeout=1).open()
    assert not (tmp_path / "locks.db").exists()


def test_an_option_by_its_former_name_is_answered_with_the_new_one(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="patience is called request_timeout now"):
        fencelock.connect(f"sqlite:///{tmp_path}/locks.db?patience=1").open()


def test_options_are_read_by_the_engines_own_readers() -> None:
    class WithOptions(MemoryEngine):
        options: ClassVar = {"size": lambda value: int(str(value)), "word": str}

    assert read_options(WithOptions, {"size": "3", "word": "a"}) == {"size": 3, "word": "a"}
    assert read_options(WithOptions, {}) == {}


@pytest.mark.parametrize(
    ("option", "value", "why"),
    [
        (
            "request_timeout",
            "soon",
            "request_timeout must be a number of seconds from 0.01 to 600, not 'soon'",
        ),
        ("request_timeout", -1, "request_timeout must be a number of seconds from 0.01 to 600"),
        ("request_timeout", "nan", "request_timeout must be a number of seconds from 0.01 to 600"),
        ("request_timeout", 601, "request_timeout must be a number of seconds from 0.01 to 600"),
        ("push", "maybe", "push must be yes or no, not 'maybe'"),
    ],
)
def test_a_wrong_value_of_an_option_is_refused(
    tmp_path: Path, option: str, value: object, why: str
) -> None:
    with pytest.raises(Misconfigured, match=why):
        fencelock.connect(f"sqlite:///{tmp_path}/locks.db", **{option: value}).open()


@pytest.mark.parametrize("value", [True, False, "yes", "no", "on", "off", "1", "0"])
def test_a_switch_is_read_from_a_url(tmp_path: Path, value: object) -> None:
    with fencelock.connect(f"sqlite:///{tmp_path}/locks.db?push={value}".lower()) as client:
        with client.lock("a"):
            pass


# Engines of other packages


class PigeonEngine(MemoryEngine):
    """An engine of another package."""

    schemes = ("pigeon",)


class HungryEngine(PigeonEngine):
    """An engine of another package whose driver is not there."""

    drivers: ClassVar = ("no_such_driver",)


def test_an_engine_of_another_package_is_found_by_its_entry_point(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plant(monkeypatch, "coop", PigeonEngine=PigeonEngine)
    register(monkeypatch, {"pigeon": "coop:PigeonEngine"})
    assert engines.find("pigeon") is PigeonEngine
    with fencelock.connect("pigeon://roof") as client, client.lock("seat:1A") as lease:
        assert lease.fence > 0
        assert client.url == "pigeon://roof"
    with pytest.raises(Misconfigured, match=r"known schemes: .*memory, .*pigeon, .*sqlite"):
        fencelock.connect("carrier://roof").open()


class FlockEngine(PigeonEngine):
    """An engine with modes, each a class of its own."""

    options: ClassVar = {"mode": str}

    @classmethod
    def chosen(cls, address: Address) -> type[Engine]:
        return HungryEngine if address.options.get("mode") == "hungry" else cls


def test_the_options_of_an_address_pick_the_class_of_a_mode(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plant(monkeypatch, "coop", FlockEngine=FlockEngine)
    register(monkeypatch, {"pigeon": "coop:FlockEngine"})
    assert engines.resolve("pigeon://roof", {})[0] is FlockEngine
    assert engines.resolve("pigeon://roof?mode=hungry", {})[0] is HungryEngine


def test_an_engine_of_our_own_is_not_replaced_by_another_packages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plant(monkeypatch, "coop", PigeonEngine=PigeonEngine)
    register(monkeypatch, {"memory": "coop:PigeonEngine"})
    assert engines.find("memory") is MemoryEngine


@pytest.mark.parametrize("thing", [7, dict, lambda: None, MemoryEngine.acquire])
def test_what_is_no_engine_is_refused(monkeypatch: pytest.MonkeyPatch, thing: object) -> None:
    plant(monkeypatch, "coop", PigeonEngine=thing)
    register(monkeypatch, {"pigeon": "coop:PigeonEngine"})
    with pytest.raises(
        Misconfigured, match=r"coop:PigeonEngine, registered for pigeon://, is not an Engine"
    ):
        fencelock.connect("pigeon://").open()


@pytest.mark.parametrize("value", ["coop:NoSuchClass", "no_such_coop:PigeonEngine", "coop"])
def test_an_entry_point_that_leads_nowhere_is_named(
    monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    plant(monkeypatch, "coop", PigeonEngine=PigeonEngine)
    register(monkeypatch, {"pigeon": value})
    with pytest.raises(Misconfigured, match="the engine for pigeon:// cannot be loaded"):
        fencelock.connect("pigeon://").open()


# Drivers


def installed(monkeypatch: pytest.MonkeyPatch, direct: str | None) -> None:
    """Let the package have come from an index (None), or from where this text of pip's says."""
    found = SimpleNamespace(read_text=lambda name: direct)
    monkeypatch.setattr("importlib.metadata.distribution", lambda name: found)


@pytest.mark.parametrize(
    ("direct", "command"),
    [
        (None, 'pip install "fencelock[memory]"'),
        ("broken", 'pip install "fencelock[memory]"'),
        (
            '{"url": "file:///home/me/fence%20lock", "dir_info": {"editable": true}}',
            'pip install -e "/home/me/fence lock[memory]"',
        ),
        ('{"url": "file:///src/it", "dir_info": {}}', 'pip install "/src/it[memory]"'),
        (
            '{"url": "https://example.org/it", "vcs_info": {"vcs": "git"}}',
            'pip install "fencelock[memory] @ git+https://example.org/it"',
        ),
    ],
)
def test_a_missing_driver_comes_from_where_the_package_came_from(
    direct: str | None, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(monkeypatch, direct)
    monkeypatch.setattr("fencelock.engines.memory.MemoryEngine.drivers", ("nowhere",))
    with pytest.raises(fencelock.Misconfigured, match=re.escape(command)):
        fencelock.connect("memory://").open()


@pytest.mark.parametrize("url", ["memory://", "memory://?scope=host"])
def test_scope_is_an_option_of_every_engine(url: str) -> None:
    for scope in ("host", "network"):
        with pytest.raises(Misconfigured, match="threads of one process"):
            fencelock.connect(url, scope=scope).open()
    with pytest.raises(Misconfigured, match="scope is host or network, not 'world'"):
        fencelock.connect(url, scope="world").open()


def test_scope_refuses_a_file_where_a_network_is_demanded(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/locks.db"
    fencelock.connect(url, scope="host").close()
    with pytest.raises(Misconfigured, match=r"processes of one host.*redis://.*FENCELOCK_URL"):
        fencelock.connect(f"{url}?scope=network").open()


def test_a_missing_driver_names_the_exact_command(monkeypatch: pytest.MonkeyPatch) -> None:
    class NeedyEngine(MemoryEngine):
        schemes = ("needy", "needys")  # type: ignore[assignment]  # memory has one
        drivers: ClassVar = ("no_such_driver",)

    installed(monkeypatch, None)
    plant(monkeypatch, "needy_engine", NeedyEngine=NeedyEngine)
    for scheme in NeedyEngine.schemes:
        monkeypatch.setitem(engines.TABLE, scheme, "needy_engine:NeedyEngine")
        with pytest.raises(Misconfigured) as caught:
            fencelock.connect(f"{scheme}://h").open()
        assert str(caught.value) == (
            'needy:// needs the package no_such_driver: pip install "fencelock[needy]"'
        )


def test_a_driver_that_is_imported_at_once_is_missed_in_the_same_words(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    installed(monkeypatch, None)
    (tmp_path / "eager_engine.py").write_text("import no_such_driver.client\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(engines.TABLE, "eager", "eager_engine:EagerEngine")
    with pytest.raises(Misconfigured) as caught:
        fencelock.connect("eager://h").open()
    assert str(caught.value) == (
        'eager:// needs the package no_such_driver: pip install "fencelock[eager]"'
    )


def test_the_driver_of_another_packages_engine_is_not_promised_as_our_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plant(monkeypatch, "coop", HungryEngine=HungryEngine)
    register(monkeypatch, {"pigeon": "coop:HungryEngine"})
    with pytest.raises(
        Misconfigured, match=r"pigeon:// needs the package no_such_driver: pip install no_such"
    ):
        fencelock.connect("pigeon://").open()


# What an engine need not offer


class BareEngine(MemoryEngine):
    """An engine that can neither revoke nor list."""

    schemes = ("bare",)
    revoke = Engine.revoke
    scan = Engine.scan
    traits = MemoryEngine.traits._replace(safety="efficiency", advice="use two of them")


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> fencelock.Client:
    plant(monkeypatch, "bare_engine", BareEngine=BareEngine)
    monkeypatch.setitem(engines.TABLE, "bare", "bare_engine:BareEngine")
    return fencelock.connect("bare://")


def test_what_an_engine_does_not_offer_is_refused_with_the_way_out(bare: fencelock.Client) -> None:
    with pytest.raises(Unsupported, match="bare cannot revoke a lock: wait for its ttl to end"):
        bare.revoke("a", "because")
    with pytest.raises(Unsupported, match=r"ask for one name with holders\(\)"):
        bare.scan()


def test_safety_that_an_engine_does_not_promise_is_refused_at_once(bare: fencelock.Client) -> None:
    with pytest.raises(Unsupported, match=r"bare:// promises efficiency only.*use two of them"):
        bare.lock("a", safety="correctness")
    with pytest.raises(Unsupported):
        bare.locked("a", safety="correctness")
    with bare.lock("a", safety="efficiency"):
        pass


def test_an_engine_gets_its_address_with_options_read(monkeypatch: pytest.MonkeyPatch) -> None:
    class Curious(MemoryEngine):
        schemes = ("curious",)
        options: ClassVar = {"size": lambda value: int(str(value))}
        seen: ClassVar[list[Address]] = []

        async def open(self) -> None:
            self.seen.append(self.address)

    plant(monkeypatch, "curious_engine", Curious=Curious)
    monkeypatch.setitem(engines.TABLE, "curious", "curious_engine:Curious")
    fencelock.connect("curious://u:p%40@h:1/x?size=3").open()
    assert Curious.seen == [Address("curious", (("h", 1),), "/x", "u", "p@", {"size": 3})]


def test_a_driver_inside_a_package_that_is_missing_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    installed(monkeypatch, None)
    monkeypatch.setattr("fencelock.engines.memory.MemoryEngine.drivers", ("nowhere.inside",))
    with pytest.raises(fencelock.Misconfigured, match=r'pip install "fencelock\[memory\]"'):
        fencelock.connect("memory://").open()
