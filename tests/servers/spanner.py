"""Google's emulator of Cloud Spanner, from an installed google-cloud-sdk. It is not Spanner itself.

It keeps everything in memory, and lets one read-write transaction go on at a time in a database:
another one that begins meanwhile is aborted, or, now and then, the one that goes on.
"""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from tests.servers.server import Missing, Server

DATABASES = 90  # of an instance; the emulator allows 100
PROJECT, INSTANCE = "project-of-tests", "instance-of-tests"
EMULATOR = "bin/cloud_spanner_emulator/emulator_main"
ADVICE = (
    "the emulator of Cloud Spanner is not installed: install the google-cloud-sdk, with gcloud on "
    "the PATH, and run `gcloud components install cloud-spanner-emulator` or `sudo apt-get install "
    "google-cloud-cli-spanner-emulator`"
)


def program() -> str:
    """The emulator of the sdk whose gcloud is on the PATH."""
    gcloud = shutil.which("gcloud")
    if gcloud is not None:
        found = Path(gcloud).resolve().parents[1] / EMULATOR
        if found.exists():
            return str(found)
    raise Missing(ADVICE)


def _path(database: str) -> str:
    return f"projects/{PROJECT}/instances/{INSTANCE}/databases/{database}"


class Spanner(Server):
    """One emulator, with one instance and as many databases as are asked for."""

    package = "google-cloud-cli-spanner-emulator"

    def __init__(
        self, folder: Path | None = None, port: int | None = None, *, settings: Sequence[str] = ()
    ) -> None:
        super().__init__(folder, port)
        self.settings = settings
        self._numbers = itertools.count()
        self._channel: Any = None

    def command(self) -> list[str]:
        return [program(), f"--host_port={self.address}", *self.settings]

    def answers(self) -> bool:
        if self._channel is None:
            grpc: Any = import_module("grpc")
            options = [
                ("grpc.use_local_subchannel_pool", 1),
                ("grpc.enable_http_proxy", 0),
                ("grpc.max_reconnect_backoff_ms", 100),
            ]
            self._channel = grpc.insecure_channel(self.address, options=options)
        self.create_instance()
        return True

    def create_instance(self) -> None:
        """Make the one instance; it is gone when the emulator was stopped."""
        exceptions: Any = import_module("google.api_core.exceptions")
        admin = self._service("spanner_admin_instance_v1", "instance_admin", "InstanceAdmin")
        project = f"projects/{PROJECT}"
        config = f"{project}/instanceConfigs/emulator-config"
        try:
            admin.create_instance(
                parent=project,
                instance_id=INSTANCE,
                instance={"config": config, "display_name": "tests", "node_count": 1},
                timeout=10,
            )
        except exceptions.AlreadyExists:
            pass

    def _admin(self) -> Any:
        return self._service("spanner_admin_database_v1", "database_admin", "DatabaseAdmin")

    def _service(self, package: str, module: str, name: str) -> Any:
        """A client of Google's over our channel."""
        found: Any = import_module(f"google.cloud.{package}")
        transports: Any = import_module(f"google.cloud.{package}.services.{module}.transports")
        transport = getattr(transports, f"{name}GrpcTransport")(channel=self._channel)
        return getattr(found, f"{name}Client")(transport=transport)

    def create_database(self, name: str, dialect: str = "") -> None:
        """Make a database."""
        parent = f"projects/{PROJECT}/instances/{INSTANCE}"
        quote = '"' if dialect else "`"
        request: dict[str, Any] = {
            "parent": parent,
            "create_statement": f"CREATE DATABASE {quote}{name}{quote}",
        }
        if dialect:
            request["database_dialect"] = dialect
        self._admin().create_database(request=request, timeout=20).result(timeout=20)

    def change(self, database: str, *statements: str) -> None:
        """Change the schema of a database of the tests."""
        request = {"database": _path(database), "statements": statements}
        self._admin().update_database_ddl(request=request, timeout=20).result(timeout=20)

    def url(self, database: str, **options: object) -> str:
        """The URL of the engine that keeps its locks in a database."""
        more = "".join(f"&{name}={value}" for name, value in options.items())
        emulator = self.address
        return f"spanner://{PROJECT}/{INSTANCE}/{database}?emulator={emulator}{more}"

    def fresh_database(self) -> str:
        number = next(self._numbers)
        if number >= DATABASES:  # nobody uses that any more
            self._admin().drop_database(database=_path(f"locks-{number - DATABASES}"), timeout=20)
        self.create_database(f"locks-{number}")
        return f"locks-{number}"

    def fresh_url(self, **options: object) -> str:
        """The URL of a database that nobody has used."""
        return self.url(self.fresh_database(), **options)

    def execute(self, database: str, sql: str) -> list[list[Any]]:
        """What a statement returns, after the changes that it makes."""
        asks = self._service("spanner_v1", "spanner", "Spanner")
        session = asks.create_session(database=_path(database)).name
        writes = not sql.startswith("SELECT")
        begin: dict[str, Any] = {"begin": {"read_write": {}}} if writes else {}
        request = {"session": session, "sql": sql, "transaction": begin}
        try:
            found = asks.execute_sql(request=request)
            if writes:
                transaction = found.metadata.transaction.id
                asks.commit(request={"session": session, "transaction_id": transaction})
            return [list(row) for row in found.rows]
        finally:
            asks.delete_session(name=session)
