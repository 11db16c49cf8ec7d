"""Programs for the tests that are written in Go: clients of locks that others have made.

``make servers`` runs this file. Go fetches what ``tests/languages/go/go.mod`` names, checks it
against ``go.sum``, and builds the programs into a folder of the user's cache. Where there is no Go,
one that is too old or no network, the tests that need them are skipped and say why.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

from tests.servers.mysql_program import CannotFetch, cache, locked, run, say

SOURCES = Path(__file__).parents[1] / "languages" / "go"
PROGRAMS = ("etcd", "redsync")
FETCH_S = 120.0
BUILD_S = 600.0  # it compiles gRPC, which needs no network
ADVICE = "the programs in Go are not there: install Go 1.26 or newer, then `make servers`"


def find(name: str) -> Path | None:
    """A program that was built from the sources as they are, or nothing."""
    try:
        found = home() / name
    except RuntimeError:  # the user has no home
        return None
    return found if found.exists() else None


def build() -> None:
    """Have the programs in the cache; raise CannotFetch where that is impossible."""
    go = shutil.which("go", path=f"{os.environ.get('PATH', '')}:/usr/local/go/bin")
    if go is None:
        raise CannotFetch("there is no Go")
    try:
        cache().mkdir(parents=True, exist_ok=True)
        with locked(cache() / "building-go"):
            if not home().exists():  # nobody else has, meanwhile
                _build(go)
    except (OSError, RuntimeError) as error:
        raise CannotFetch(str(error)) from error


def _build(go: str) -> None:
    packages = [f"./{name}" for name in PROGRAMS]
    run([go, "list", "-mod=readonly", "-deps", *packages], time.monotonic() + FETCH_S, SOURCES)
    with tempfile.TemporaryDirectory(prefix="new-go-", dir=cache()) as work:
        made = Path(work) / "made"
        made.mkdir()
        options = ["-mod=readonly", "-trimpath", "-buildvcs=false", "-o", f"{made}/"]
        run([go, "build", *options, *packages], time.monotonic() + BUILD_S, SOURCES)
        made.rename(home())  # whole or not at all


def home() -> Path:
    """Where the programs belong: of other sources, another folder."""
    digest = hashlib.sha256()
    for file in sorted([*SOURCES.rglob("*.go"), SOURCES / "go.mod", SOURCES / "go.sum"]):
        digest.update(f"{file.relative_to(SOURCES)}\0".encode() + file.read_bytes())
    return cache() / f"go-{digest.hexdigest()[:16]}"


def main() -> int:
    """Build, and say so if that cannot be; that is no failure."""
    if any(find(name) is None for name in PROGRAMS):
        try:
            say(f"Building programs in Go for the tests into {cache()}")
            build()
        except (CannotFetch, RuntimeError) as error:
            say(f"No programs in Go, so their tests will be skipped: {error}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
