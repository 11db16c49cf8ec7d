"""Where Consul is: one that is installed, or one that was fetched for the tests.

The last release of Debian that has Consul is bullseye, with 1.8.7. ``make servers`` runs this file,
which fetches the package from there and unpacks the one program that it consists of into a folder
of the user's cache, as ``mysql_program.py`` does with MySQL: apt checks the signature, and
nothing of the system is touched. Where it cannot be fetched, the tests that need it are skipped and
say why. Only the standard library is used: this runs before anything is installed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.servers.mysql_program import CannotFetch, cache, download, locked, mirrors, run, say

SUITE, PACKAGE = "bullseye", "consul"
FETCH_S = 120.0  # for 27 MB, all in all
ADVICE = "Consul is not there: `make servers` fetches it on Debian; elsewhere install HashiCorp's"


def find() -> str | None:
    """The path of the program, or nothing."""
    try:
        fetched = _home() / "consul"
    except RuntimeError:  # the user has no home
        return shutil.which("consul")
    return str(fetched) if fetched.exists() else shutil.which("consul")


def fetch() -> None:
    """Have Consul in the cache; raise CannotFetch where that is impossible."""
    if not all(map(shutil.which, ("apt-get", "dpkg", "dpkg-deb"))):
        raise CannotFetch("this is no Debian")
    try:
        found = mirrors()
        if not found:
            raise CannotFetch("apt names no mirror of Debian's main archive")
        cache().mkdir(parents=True, exist_ok=True)
        with locked(cache() / "fetching"):
            if find() is None:  # nobody else has, meanwhile
                _fetch(found)
    except (OSError, RuntimeError, subprocess.SubprocessError) as error:
        raise CannotFetch(str(error)) from error


def _fetch(found: list[str]) -> None:
    give_up = time.monotonic() + FETCH_S
    with tempfile.TemporaryDirectory(prefix="new-", dir=cache()) as work:
        root = Path(work) / "root"
        for archive in download(found, SUITE, PACKAGE, Path(work), give_up, alone=True):
            run(["dpkg-deb", "--extract", str(archive), str(root)], give_up)
        program = root / "usr/bin/consul"
        run([str(program), "version"], give_up)
        _home().mkdir(exist_ok=True)
        os.replace(program, _home() / "consul")


def _home() -> Path:
    return cache() / f"consul-{SUITE}"


def main() -> int:
    """Fetch, and say so if that cannot be; that is no failure."""
    if find() is None:
        try:
            say(f"Fetching Consul for the tests into {cache()}")
            fetch()
        except (CannotFetch, RuntimeError) as error:
            say(f"Consul cannot be fetched, so its tests will be skipped: {error}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
