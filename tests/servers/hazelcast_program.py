"""Where Hazelcast is: a jar that Maven fetched for the tests, and the small programs over it.

``make servers`` runs this file, which has Maven copy ``com.hazelcast:hazelcast:5.4.0`` into a
folder of the user's cache, from whichever repository Maven is set up for. Its checksum is compared
with the one below. Members and contenders are programs in ``java/``, compiled once into the same
folder. Where there is no Maven, no JDK or no repository, the tests that need them are skipped and
say why. Only the standard library is used: this runs before anything is installed.
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

from tests.servers.mysql_program import CannotFetch, cache, locked, run, say

VERSION = "5.4.0"  # the last whose CP Subsystem is free
ARTIFACT = f"com.hazelcast:hazelcast:{VERSION}"
SHA256 = "cbcd4de863ee859dd6094fe01752e1bc9986c5240621443fe6609a5e16903f0d"
FETCH_S = 300.0  # for 17 MB, and Maven's own plugins
SOURCES = Path(__file__).parent / "java"
ADVICE = (
    "Hazelcast is not there: `make servers` fetches it where there are Maven (mvn) and a JDK "
    "(java, javac): sudo apt-get install maven default-jdk-headless"
)


def find() -> Path | None:
    """The jar, or nothing."""
    try:
        jar = _home() / "hazelcast.jar"
    except RuntimeError:  # the user has no home
        return None
    have = shutil.which("java") and shutil.which("javac")
    return jar if have and jar.exists() else None


def classpath(jar: Path) -> str:
    """The jar, and our programs, compiled anew when they have changed."""
    sources = sorted(SOURCES.glob("*.java"))
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:16]
    classes = jar.parent / f"classes-{digest}"
    with locked(jar.parent / "compiling"):
        if not classes.exists():
            with tempfile.TemporaryDirectory(dir=jar.parent) as work:
                made = Path(work) / "classes"
                command = ["javac", "-cp", str(jar), "-d", str(made), *map(str, sources)]
                run(command, time.monotonic() + FETCH_S)
                os.replace(made, classes)
    return os.pathsep.join((str(jar), str(classes)))


def fetch() -> None:
    """Have the jar in the cache; raise CannotFetch where that is impossible."""
    if not all(map(shutil.which, ("mvn", "java", "javac"))):
        raise CannotFetch("there is no mvn, java or javac")
    try:
        _home().mkdir(parents=True, exist_ok=True)
        with locked(_home() / "fetching"):
            if find() is None:  # nobody else has, meanwhile
                _fetch()
    except (OSError, RuntimeError, subprocess.SubprocessError) as error:
        raise CannotFetch(str(error)) from error


def _fetch() -> None:
    with tempfile.TemporaryDirectory(prefix="new-", dir=_home()) as work:
        where = [f"-Dartifact={ARTIFACT}", f"-DoutputDirectory={work}"]
        run(["mvn", "-q", "-B", "dependency:copy", *where], time.monotonic() + FETCH_S, Path(work))
        (jar,) = Path(work).glob("*.jar")
        found = hashlib.sha256(jar.read_bytes()).hexdigest()
        if found != SHA256:
            raise CannotFetch(f"{ARTIFACT} has another checksum than expected: {found}")
        os.replace(jar, _home() / "hazelcast.jar")


def _home() -> Path:
    return cache() / f"hazelcast-{VERSION}"


def main() -> int:
    """Fetch, and say so if that cannot be; that is no failure."""
    if find() is None:
        try:
            say(f"Fetching Hazelcast for the tests into {cache()}")
            fetch()
        except (CannotFetch, RuntimeError) as error:
            say(f"Hazelcast cannot be fetched, so its tests will be skipped: {error}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
