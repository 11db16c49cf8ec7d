"""Programs for the tests that run on Java: clients of locks that others have made, and a server.

``make servers`` runs this file. A program is a folder with a ``pom.xml``, which names what Maven
copies into a folder of the user's cache, the checksums of that in ``jars.sha256``, and perhaps
sources. Where there is no Maven, no compiler or no network, the tests that need a program are
skipped and say why.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from tests.servers.mysql_program import CannotFetch, cache, locked, run, say
from tests.servers.server import Missing

TESTS = Path(__file__).parents[1]
COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
FETCH_S = 180.0  # for 50 MB, and what Maven itself needs
SUMS = "jars.sha256"


class JavaProgram(NamedTuple):
    """What is in a folder of the tests."""

    folder: Path
    what: str

    @property
    def home(self) -> Path:
        """Where the program belongs: of other files, another folder."""
        digest = hashlib.sha256()
        for file in [self.folder / "pom.xml", self.folder / SUMS, *self.sources]:
            digest.update(f"{file.name}\0".encode() + file.read_bytes())
        return cache() / f"java-{self.folder.name}-{digest.hexdigest()[:16]}"

    @property
    def sources(self) -> list[Path]:
        """Its own, and those that it shares with the folders beside it."""
        return sorted([*self.folder.glob("*.java"), *self.folder.parent.glob("*.java")])

    def is_there(self) -> bool:
        try:
            return self.home.exists()
        except RuntimeError:  # the user has no home
            return False

    def classpath(self) -> str:
        """All that it consists of; raise Missing where it was not fetched."""
        if not self.is_there():
            raise Missing(
                f"{self.what} is not there: install a JDK of Java 17 or newer and Maven "
                "(sudo apt-get install default-jdk-headless maven), then `make servers`"
            )
        return f"{self.home}{os.pathsep}{self.home}/*"

    def fetch(self) -> None:
        """Have it in the cache; raise CannotFetch where that is impossible."""
        mvn, javac = shutil.which("mvn"), shutil.which("javac")
        if mvn is None or javac is None:
            raise CannotFetch("there is no Maven" if mvn is None else "there is no Java compiler")
        try:
            cache().mkdir(parents=True, exist_ok=True)
            with locked(cache() / "fetching-java"):
                if not self.is_there():  # nobody else has, meanwhile
                    self._fetch(mvn, javac, time.monotonic() + FETCH_S)
        except (OSError, RuntimeError, subprocess.SubprocessError) as error:
            raise CannotFetch(str(error)) from error

    def _fetch(self, mvn: str, javac: str, give_up: float) -> None:
        with tempfile.TemporaryDirectory(prefix="new-java-", dir=cache()) as work:
            made = Path(work) / "made"
            made.mkdir()
            pom = shutil.copy(self.folder / "pom.xml", work)  # Maven may write beside it
            given = [f"-DoutputDirectory={made}", "-DincludeScope=runtime"]
            run([mvn, "-B", "-q", "-f", str(pom), COPY, *given], give_up)
            check_sums(made, (self.folder / SUMS).read_text(encoding="utf-8"))
            if self.sources:
                options = ["-Xlint:all", "-Werror", "-proc:none", "-cp", f"{made}/*"]
                run([javac, *options, "-d", str(made), *map(str, self.sources)], give_up)
            made.rename(self.home)  # whole or not at all


def check_sums(folder: Path, sums: str) -> None:
    """Raise CannotFetch unless a folder has exactly these files, with these contents."""
    wanted = {line.split()[1]: line.split()[0] for line in sums.splitlines()}
    found = {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in folder.iterdir()}
    others = sorted({name for name, _ in wanted.items() ^ found.items()})
    if others:
        raise CannotFetch(f"Maven gave something else than {SUMS} names: {', '.join(others)}")


CURATOR = JavaProgram(TESTS / "languages" / "java" / "curator", "Apache Curator")
REDISSON = JavaProgram(TESTS / "languages" / "java" / "redisson", "Redisson")
DYNAMODB_LOCAL = JavaProgram(TESTS / "servers" / "maven" / "dynamodb", "Amazon's DynamoDB Local")


def is_licensed() -> bool:
    """Whether who runs the tests says that the license of DynamoDB Local allows it to them."""
    return os.environ.get("FENCELOCK_DYNAMODB_LOCAL") == "licensed"


def wanted() -> list[JavaProgram]:
    """Those to fetch."""
    return [CURATOR, REDISSON, *([DYNAMODB_LOCAL] if is_licensed() else [])]


def main() -> int:
    """Fetch, and say so if that cannot be; that is no failure."""
    for program in wanted():
        if not program.is_there():
            try:
                say(f"Fetching {program.what} for the tests into {cache()}")
                program.fetch()
            except (CannotFetch, RuntimeError) as error:
                say(f"{program.what} cannot be had, so its tests will be skipped: {error}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
