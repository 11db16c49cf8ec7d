"""Where the locks of a database are: in one place, whoever comes and however it is configured."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import fencelock
from fencelock._client import administration
from fencelock.errors import Denied, Misconfigured
from fencelock.sync import drive
from tests.faults.flavors import Lab, run
from tests.servers.postgresql import Postgresql

ROLES = ("alice", "bob")


@pytest.fixture
def roles(server: Postgresql) -> Iterator[None]:
    """Two roles of one database, each with a schema of its own name, as ``search_path`` prefers."""
    for role in ROLES:
        server.psql(
            f"CREATE ROLE {role} LOGIN; CREATE SCHEMA {role} AUTHORIZATION {role};"
            f" GRANT CREATE, USAGE ON SCHEMA public TO {role}"
        )
    yield
    for role in ROLES:
        server.psql(f"DROP OWNED BY {role} CASCADE; DROP ROLE {role}")


def url(server: Postgresql, role: str, options: str) -> str:
    return f"postgresql://{role}@{server.address}/postgres?{options}"


@pytest.mark.parametrize("mode", ["lease", "row"])
@pytest.mark.usefixtures("roles")
def test_two_roles_of_one_database_exclude_each_other(
    mode: str, flavor: str, server: Postgresql, table: str
) -> None:
    """H86."""
    options = f"table={table}&mode={mode}"

    async def scenario(lab: Lab) -> None:
        alice = await lab.connect(url(server, "alice", options))
        with pytest.raises(Denied, match="grant the right"):  # loud, before anything is granted
            bob = await lab.connect(url(server, "bob", options))
            await bob.lock("seat").acquire()
        server.psql(
            "GRANT ALL ON ALL TABLES IN SCHEMA public TO bob;"
            " GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO bob"
        )
        bob = await lab.connect(url(server, "bob", options))
        async with alice.lock("seat") as lease:
            assert await bob.lock("seat").try_acquire() is None
        async with bob.lock("seat") as after:
            assert after.fence > lease.fence
            assert await alice.lock("seat").try_acquire() is None

    run(flavor, scenario)


def test_a_schema_that_cannot_be_used_is_refused(server: Postgresql, flavor: str) -> None:
    async def scenario(lab: Lab) -> None:
        with pytest.raises(Misconfigured, match="schema="):
            _ = await lab.connect(server.url("schema=nowhere"))

    run(flavor, scenario)


BOTH = ["mode=advisory", "mode=advisory&bound=transaction"]


@pytest.mark.parametrize("other", BOTH)
def test_fences_of_advisory_locks_grow_whatever_the_options_are(
    other: str, flavor: str, server: Postgresql, table: str
) -> None:
    """H86: Who excludes each other draws from one counter."""
    server.psql(f"CREATE SCHEMA s_{table}")
    options = ["", f"&table={table}", f"&schema=s_{table}", f"&table={table}_b&schema=s_{table}"]

    async def scenario(lab: Lab) -> None:
        clients = [await lab.connect(server.url(f"mode=advisory{some}")) for some in options]
        clients += [await lab.connect(server.url(f"{other}{some}")) for some in options]
        fences: list[int] = []
        for _ in range(3):
            for number, client in enumerate(clients):
                name, key = (f"seat {number}", 42) if number % 2 else ("seat", 42)
                async with client.lock(name, key=key) as lease:
                    for someone in clients:
                        if someone is not client:
                            assert await someone.lock("x", key=42).try_acquire() is None
                    fences.append(lease.fence)
        assert fences == sorted(set(fences))

    run(flavor, scenario)


def test_the_doctor_says_where_the_locks_are_and_who_locks_elsewhere(
    own_server: Postgresql,
) -> None:
    def stores(options: str) -> list[tuple[str, str]]:
        with fencelock.connect(own_server.url(options)) as client:
            found = drive(administration.diagnose(client._core))
        return [(f.level, f.text) for f in found if f.topic == "store"]

    ((level, text),) = stores("")
    assert (level, "public.fencelock" in text) == ("ok", True)
    own_server.psql("CREATE SCHEMA elsewhere")
    _, (level, text) = stores("schema=elsewhere")
    assert (level, "public.fencelock" in text) == ("warning", True)
    _, (level, text) = stores("table=apart")
    assert level == "note" or "elsewhere.fencelock" in text
    ((level, text),) = stores("mode=advisory&table=apart")
    assert (level, "fencelock_advisory_fence" in text) == ("ok", True)


def test_a_server_is_reached_by_its_socket(flavor: str) -> None:
    server = Postgresql()
    server.settings["unix_socket_directories"] = str(server.folder)
    with server:
        url = f"postgres://postgres@/postgres?host={server.folder}&port={server.port}"

        async def scenario(lab: Lab) -> None:
            client = await lab.connect(url)
            over_tcp = await lab.connect(server.url())
            async with client.lock("seat"):
                assert await over_tcp.lock("seat").try_acquire() is None

        run(flavor, scenario)
