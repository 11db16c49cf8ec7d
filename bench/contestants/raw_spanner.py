"""The same by hand: Google's own client, a transaction that writes a row, and one that deletes it.

``run_in_transaction`` reads the row and the clock, and writes or deletes by a mutation. No fence is
returned, nobody waits, and no answer is resolved.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from bench.contestant import Lock, Session
from bench.spanner_server import OnSpanner
from fencelock.engines.spanner.settings import settings
from fencelock.engines.spanner.tables import schema
from fencelock.engines.url import parse

COLUMNS = ("name", "owner", "granted_at", "ends_at", "ttl_us", "meta")
READ = (
    "SELECT owner, TIMESTAMP_ADD(CURRENT_TIMESTAMP(), INTERVAL 30 SECOND) FROM UNNEST([@name]) n "
    "LEFT JOIN by_hand ON name = n"
)


class RawSpanner(OnSpanner):
    """Blocking calls."""

    name = "google-cloud-spanner by hand"
    works = frozenset({"pair"})
    yardstick = works

    def connect(self, *, traced: bool = False) -> Session:
        return _Session(self.place)


class _Session(Session):
    def __init__(self, place: str) -> None:
        found = settings(parse(place, {}))
        _, project, _, instance, _, database = found.database.split("/")
        spanner: Any = import_module("google.cloud.spanner")
        credentials: Any = import_module("google.auth.credentials").AnonymousCredentials()
        self._client = spanner.Client(
            project=project,
            credentials=credentials,
            client_options={"api_endpoint": found.emulator},
            disable_builtin_metrics=True,
        )
        self._database = self._client.instance(instance).database(database)
        ddl = schema("by_hand").rstrip().removesuffix(";")
        self._database.update_ddl([ddl]).result(30)

    def lock(self, name: str) -> Lock:
        return _Lock(self._database, name)

    def close(self) -> None:
        self._client.close()


class _Lock(Lock):
    def __init__(self, database: Any, name: str) -> None:
        self._database = database
        self._name = name
        self._types: Any = import_module("google.cloud.spanner_v1.param_types")
        self._keys: Any = import_module("google.cloud.spanner_v1").KeySet

    def acquire(self) -> int:
        self._database.run_in_transaction(self._take)
        return 0

    def release(self) -> None:
        self._database.run_in_transaction(self._leave)

    def _read(self, transaction: Any) -> Any:
        types = {"name": self._types.STRING}
        (row,) = transaction.execute_sql(READ, params={"name": self._name}, param_types=types)
        return row

    def _take(self, transaction: Any) -> None:
        owner, ends_at = self._read(transaction)
        assert owner is None
        stamp = "spanner.commit_timestamp()"
        row = (self._name, "me", stamp, ends_at, 30_000_000, "{}")
        transaction.insert_or_update("by_hand", COLUMNS, [row])

    def _leave(self, transaction: Any) -> None:
        owner, _ = self._read(transaction)
        assert owner == "me"
        transaction.delete("by_hand", self._keys(keys=[(self._name,)]))
