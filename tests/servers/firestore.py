"""Google's emulator of Firestore, from an installed google-cloud-sdk. It keeps nothing on disk.

It is Google's own program, and not their service: it runs on one machine and by that machine's
clock. What production adds or forbids is on the page of the engine.
"""

from __future__ import annotations

import itertools
import json
import shutil
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.servers.server import Missing, Server

JAR = "platform/cloud-firestore-emulator/cloud-firestore-emulator.jar"
PROGRAM = "com.google.cloud.datastore.emulator.firestore.CloudFirestore"
ADVICE = (
    "Google's emulator of Firestore is not installed: install the google-cloud-sdk and Java, then "
    "gcloud components install cloud-firestore-emulator, or the Debian package "
    "google-cloud-cli-firestore-emulator"
)
ANSWER_S = 20.0
PROJECT = "fencelock-tests"


def find() -> tuple[str, Path] | None:
    """Java and the emulator, where both are installed."""
    java, gcloud = shutil.which("java"), shutil.which("gcloud")
    if java is None or gcloud is None:
        return None
    jar = Path(gcloud).resolve().parents[1] / JAR
    return (java, jar) if jar.exists() else None


class Firestore(Server):
    """One emulator, whose documents are in its memory."""

    package = "google-cloud-cli-firestore-emulator"

    def __init__(self, folder: Path | None = None, port: int | None = None) -> None:
        super().__init__(folder, port)
        self._numbers = itertools.count()

    def command(self) -> list[str]:
        found = find()
        if found is None:
            raise Missing(ADVICE)
        java, jar = found
        small = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        begin = [PROGRAM, "start", "--host=127.0.0.1", f"--port={self.port}"]
        return [java, *small, "-cp", str(jar), *begin]

    def answers(self) -> bool:
        self.documents("none")
        return True

    # What the emulator answers to plain HTTP, without our wire.

    def ask(self, method: str, path: str, body: object = None) -> Any:
        """What the REST interface answers; None for nothing there."""
        request = urllib.request.Request(
            f"http://{self.address}/v1/projects/{PROJECT}/databases/(default)/documents/{path}",
            None if body is None else json.dumps(body).encode(),
            {"Authorization": "Bearer owner", "Content-Type": "application/json"},
            method=method,
        )
        try:
            with urllib.request.urlopen(request, timeout=ANSWER_S) as answer:
                return json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            error.close()
            if error.code == 404:
                return None
            raise

    def documents(self, collection: str) -> dict[str, Any]:
        """All documents of a collection, by their ids."""
        found = self.ask("GET", f"{collection}?pageSize=300") or {}
        return {one["name"].rpartition("/")[2]: one for one in found.get("documents", [])}

    def document(self, collection: str, id: str) -> Any:
        """A document as it is, or nothing."""
        return self.ask("GET", f"{collection}/{urllib.parse.quote(id, safe='')}")

    def put(self, collection: str, id: str, fields: Mapping[str, object]) -> None:
        """Write a document of texts, as another program would."""
        values = {field: {"stringValue": str(value)} for field, value in fields.items()}
        path = f"{collection}/{urllib.parse.quote(id, safe='')}"
        self.ask("PATCH", path, {"fields": values})

    def delete(self, collection: str, id: str) -> None:
        self.ask("DELETE", f"{collection}/{urllib.parse.quote(id, safe='')}")

    def url_of(self, collection: str) -> str:
        """For ``fencelock.connect``."""
        return f"firestore://{PROJECT}/{collection}?emulator={self.address}"

    def fresh_url(self) -> str:
        """The same with a collection that no other test uses."""
        return self.url_of(f"locks-{next(self._numbers)}")
