"""Read the collection and its database from a URL."""

from __future__ import annotations

import re
from typing import NamedTuple

from ...engine import Address
from ...errors import Misconfigured
from .._google.settings import read_emulator, read_project
from ..options import REQUEST_TIMEOUT_S, Reader, common, text
from .documents import escaped

EMULATOR_VARIABLE = "FIRESTORE_EMULATOR_HOST"  # which all of Google's clients read
EXAMPLE = "write firestore://project/collection"
PREFIX_MAX = 400  # bytes: with the longest name, a document's id stays below Firestore's 1,500
DEFAULT = "(default)"  # Firestore's name for a database that was created without one
_SEGMENT = re.compile(r"(?!\.\.?$)(?!__.*__$)[^/]{1,500}")

OPTIONS: dict[str, Reader] = {
    **common("prefix", "request_timeout"),
    "database": text("database"),
    "emulator": read_emulator,
}


class Settings(NamedTuple):
    """Where the locks of one client are."""

    project: str
    database: str
    collection: str
    emulator: str | None  # host:port, if it is one
    prefix: str
    request_timeout: float

    @property
    def parent(self) -> str:
        """The resource name of the database."""
        return f"projects/{self.project}/databases/{self.database}"

    @property
    def documents(self) -> str:
        """The prefix of the resource names of the collection's documents."""
        return f"{self.parent}/documents/{self.collection}/"

    @property
    def shown(self) -> str:
        """The collection and the project, for messages."""
        return f"Firestore's collection {self.collection!r} in the project {self.project!r}"


def settings(address: Address) -> Settings:
    """Read the address of a firestore engine."""
    options, collection = address.options, address.path.removeprefix("/")
    project, segments = read_project(address, EXAMPLE), collection.split("/")
    if len(segments) % 2 == 0 or not all(_SEGMENT.fullmatch(one) for one in segments):
        raise Misconfigured(f"a Firestore collection cannot be {collection!r:.80}: {EXAMPLE}")
    prefix, emulator = str(options.get("prefix", "")), options.get("emulator")
    if len(escaped(prefix).encode()) > PREFIX_MAX:
        raise Misconfigured(f"prefix must be shorter: {PREFIX_MAX} bytes at most")
    return Settings(
        project,
        str(options.get("database", DEFAULT)),
        collection,
        None if emulator is None else str(emulator),
        prefix,
        float(str(options.get("request_timeout", REQUEST_TIMEOUT_S))),
    )
