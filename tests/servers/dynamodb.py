"""A server that speaks DynamoDB's protocol: moto's, from PyPI. It stands in for AWS, and is not it.

There is no DynamoDB to install. moto computes what DynamoDB would answer, but it is not safe when
several requests run at once; so this one is given one request at a time, which makes every request
one atomic step. What it shows is that the expressions mean what we think; that DynamoDB evaluates
them atomically is AWS's promise and not shown here.
"""

from __future__ import annotations

import importlib.util
import itertools
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

from tests.servers.server import Missing, Server

ROOT = Path(__file__).parents[2]
REGION = "eu-central-1"


class DynamoDB(Server):
    """One server, whose tables are in memory."""

    package = "moto"

    def __init__(self, folder: Path | None = None, port: int | None = None) -> None:
        super().__init__(folder, port)
        self.environment = {"PYTHONPATH": str(ROOT)}
        self._tables = itertools.count()

    def command(self) -> list[str]:
        for module in ("moto", "flask", "flask_cors"):
            if importlib.util.find_spec(module) is None:
                raise Missing(f"{module} is not installed: make servers test")
        return [sys.executable, "-m", "tests.servers.dynamodb", str(self.port)]

    def answers(self) -> bool:
        with urllib.request.urlopen(f"{self.url}/moto-api/data.json", timeout=5) as reply:
            return bool(reply.status == 200)

    @property
    def url(self) -> str:
        return f"http://{self.address}"

    def fresh_table(self) -> str:
        """The name of a new table whose items have the key ``id``."""
        name = f"table-{next(self._tables)}"
        client(self.url).create_table(
            TableName=name,
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )
        return name


def client(url: str, *, attempts: int = 1, timeout: float = 20.0) -> Any:
    """boto3's low-level client of a server."""
    return _session(url, "client", attempts, timeout)


def table(url: str, name: str, *, attempts: int = 1, timeout: float = 20.0) -> Any:
    """boto3's Table of a server."""
    return _session(url, "resource", attempts, timeout).Table(name)


def aio_client(url: str) -> Any:
    """aiobotocore's client of a server, to be entered."""
    from aiobotocore.config import AioConfig

    return _aio_session().create_client("dynamodb", **_options(url, AioConfig))


def _session(url: str, kind: str, attempts: int, timeout: float) -> Any:
    from botocore.config import Config

    return getattr(_boto_session(), kind)("dynamodb", **_options(url, Config, attempts, timeout))


@cache
def _boto_session() -> Any:
    """One for the process: it reads the description of the service, which takes its time."""
    from boto3.session import Session

    return Session()


@cache
def _aio_session() -> Any:
    from aiobotocore.session import get_session

    return get_session()


def _options(url: str, config: Any, attempts: int = 1, timeout: float = 20.0) -> dict[str, Any]:
    return {
        "endpoint_url": url,
        "region_name": REGION,
        "aws_access_key_id": "any",
        "aws_secret_access_key": "any",
        "config": config(
            retries={"total_max_attempts": attempts},
            connect_timeout=timeout,
            read_timeout=timeout,
        ),
    }


def serve(port: int) -> None:
    """Serve for ever, one request at a time."""
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    application = DomainDispatcherApplication(create_backend_app)
    turn = threading.Lock()

    def one_at_a_time(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        with turn:
            return [b"".join(application(environ, start))]

    make_server("127.0.0.1", port, one_at_a_time, threaded=True).serve_forever()


if __name__ == "__main__":
    serve(int(sys.argv[1]))
