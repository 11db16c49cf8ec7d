"""Every name has its own folder below the root, and contenders stand in one order."""

from __future__ import annotations

import pytest

from fencelock.engines.zookeeper import paths

NAMES = [
    "a", "a/b", "a//b", "/a", "a/", "/", "//", ".", "..", "../up", "a/../../b", "./a", "zookeeper",
    "zookeeper/config", "Zookeeper", "%", "%2F", "a%2Fb", "%revoked", "100%", "two words",
    "锁", "🔒",
    "x__lock__0000000001", "lock-0000000001", "a/_c_1-lock-0000000001", "lock-1", "\u00a0", "a\\b",
    "/".join("abcdefghijklmnop"), "/" * 300, "x" * 512, "…" * 170, "%00", "a/%",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_found_again_in_its_path(name: str) -> None:
    assert paths.decode(paths.encode(name)) == name


def test_no_two_names_share_a_path() -> None:
    assert len({paths.encode(name) for name in NAMES}) == len(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_path_stays_below_the_root_and_is_legal(name: str) -> None:
    segments = paths.encode(name).split("/")
    assert not {"", ".", ".."} & {*segments}
    assert segments[0] != "zookeeper"
    assert len(segments) <= paths.SEGMENTS_MAX
    assert paths.encode(name).isascii()
    assert paths.REVOKED not in segments


@pytest.mark.parametrize("name", NAMES)
def test_no_folder_is_taken_for_a_contender(name: str) -> None:
    assert [paths.sequence(segment) for segment in paths.encode(name).split("/")] == [
        None for _ in paths.encode(name).split("/")
    ]


def test_a_plain_name_is_its_own_path() -> None:
    assert paths.encode("jobs/nightly report-1.0") == "jobs/nightly report-1.0"


def test_contenders_of_all_kinds_stand_in_one_order() -> None:
    children = [
        "_c_5ba6f0d8-0f9b-4a4e-bd4b-c1a0e6e9e7a9-lock-0000000003",
        "ffffffffffffffffffffffffffffffff__lock__0000000001",
        "00000000000000000000000000000000__lock__0000000004",
        "subfolder",
        "11111111111111111111111111111111__rlock__0000000002",
    ]
    order = [paths.sequence(child) for child in paths.contenders(children)]
    assert order == [1, 2, 3, 4]


def test_spent_numbers_are_not_trusted() -> None:
    """H50: at the end of 31 bits a server repeats the last number, or gives a negative one."""

    def named(*numbers: int) -> list[str]:
        return paths.contenders(f"{'f' * 32}__lock__{number:010}" for number in numbers)

    last = paths.NUMBER_MAX
    assert not paths.is_spent(named())
    assert not paths.is_spent(named(1, 2, last))
    assert paths.is_spent(named(last, last))
    assert paths.is_spent(named(last, -last - 1))


def test_the_owner_cannot_be_read_off_its_node() -> None:
    owner = "0123456789abcdef0123456789abcdef"
    for recipe in ("kazoo", "curator"):
        assert owner not in paths.protected(owner, recipe).replace("-", "")
