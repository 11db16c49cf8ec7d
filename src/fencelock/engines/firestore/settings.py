"""Read from a URL which collection is meant and how to reach it."""

from __future__ import annotations

import re
from typing import NamedTuple

from ...engine import Address
from ...errors import Misconfigured
from ..options import REQUEST_TIMEOUT_S, Reader, common, text
from .documents import escaped

EXAMPLE = "write firestore://project/collection"
PREFIX_MAX = 400  # bytes: with the longest name, a document's id stays below Firestore's 1,500
_PROJECT = re.compile(r"[a-z][a-z0-9-]{0,61}[a-z0-9]")
_DATABASE = re.compile(r"\(default\)|[a-z][a-z0-9-]{2,61}[a-z0-9]")
_SEGMENT = re.compile(r"(?!\.\.?$)(?!__.*__$)[^/]{1,500}")
_EMULATOR = re.compile(r"[^\s/]+:\d{1,5}")


def _read_emulator(value: object) -> str:
    if not isinstance(value, str) or not _EMULATOR.fullmatch(value):
        raise Misconfigured(f"emulator must be host:port, not {value!r:.80}")
    return value


OPTIONS: dict[str, Reader] = {
    **common("prefix", "request_timeout"),
    "database": text("database"),
    "emulator": _read_emulator,
}


class Settings(NamedTuple):
    """Where the locks of one client are."""

    project: str
    database: str
    collection: str
    emulator: str | None  # host:port; None where the environment may name one
    prefix: str
    request_timeout: float

    @property
    def parent(self) -> str:
        """The resource name of the database."""
        return f"projects/{self.project}/databases/{self.database}"

    @property
    def documents(self) -> str:
        """What the resource names of all documents of the collection begin with."""
        return f"{self.parent}/documents/{self.collection}/"

    @property
    def shown(self) -> str:
        """For messages."""
        where = "" if self.database == "(default)" else f" of the database {self.database!r}"
        return f"Firestore's collection {self.collection!r}{where} in the project {self.project!r}"


def settings(address: Address) -> Settings:
    """Read the address of a firestore engine."""
    options, collection = address.options, address.path.removeprefix("/")
    project, port = address.hosts[0] if len(address.hosts) == 1 else ("", None)
    if port is not None:
        raise Misconfigured(f"{EXAMPLE}: a server of one's own is named by emulator=host:port")
    if not _PROJECT.fullmatch(project):
        raise Misconfigured(f"a firestore URL names one project of Google Cloud: {EXAMPLE}")
    if address.user is not None or address.password is not None:
        raise Misconfigured(
            "a firestore URL has no user: name a service account's key file in "
            "GOOGLE_APPLICATION_CREDENTIALS, or run gcloud auth application-default login"
        )
    segments = collection.split("/")
    if len(segments) % 2 == 0 or not all(_SEGMENT.fullmatch(one) for one in segments):
        raise Misconfigured(f"a Firestore collection cannot be {collection!r:.80}: {EXAMPLE}")
    database = str(options.get("database", "(default)"))
    if not _DATABASE.fullmatch(database):
        raise Misconfigured(f"a Firestore database cannot be {database!r:.80}: leave database= out")
    prefix = str(options.get("prefix", ""))
    if len(escaped(prefix).encode()) > PREFIX_MAX:
        raise Misconfigured(f"prefix must be shorter: {PREFIX_MAX} bytes at most")
    emulator = options.get("emulator")
    return Settings(
        project,
        database,
        collection,
        None if emulator is None else str(emulator),
        prefix,
        float(str(options.get("request_timeout", REQUEST_TIMEOUT_S))),
    )
