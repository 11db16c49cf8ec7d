"""Where MySQL's server is: one that is installed, or one that was fetched for the tests.

MariaDB keeps MySQL out of Debian's stable releases, and the two cannot be installed side by side.
So ``make servers`` runs this file, which fetches MySQL from Debian's unstable suite with all that
it links to, its own C library and loader included, and unpacks it into a folder of the user's
cache. Nothing of the system is touched: apt keeps its lists and archives in a folder of ours. The
mirror and the keys are those that the machine uses already, and only the suite is another.

It is fetched once. Where it cannot be, the tests that need it are skipped and say why. Only the
standard library is used: this runs before anything is installed.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

PACKAGE = "mysql-server-core"
SUITE = "sid"
KEYS = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
FETCH_S = 300.0  # for 70 MB, all in all
ADVICE = (
    "MySQL's server is not there: `make servers` fetches it on Debian; elsewhere install a mysqld "
    "of MySQL 8.0 or newer (Ubuntu: mysql-server)"
)


class CannotFetch(Exception):
    """MySQL cannot be had here; the message says why."""


def cache() -> Path:
    """The folder of what is fetched once for all runs of the tests."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "fencelock-tests"


def find() -> list[str] | None:
    """The command of a MySQL server without its options, or nothing."""
    try:
        return _installed() or _fetched(cache())
    except RuntimeError:  # the user has no home
        return None


def version(command: Sequence[str]) -> str:
    """What a server says of its version; nothing when it is MariaDB or does not run."""
    try:
        ran = subprocess.run([*command, "--version"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    found = re.search(r"\bVer (\d[^ ]*)", ran.stdout)
    return found[1] if found and ran.returncode == 0 and "MariaDB" not in ran.stdout else ""


def _installed() -> list[str] | None:
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"])
    found = shutil.which("mysqld", path=path)
    return [found] if found and version([found]) else None


def _fetched(folder: Path) -> list[str] | None:
    """The one that was fetched last."""
    roots = sorted(folder.glob("mysql-[0-9]*"), key=lambda root: root.stat().st_mtime)
    return _command(roots[-1]) if roots else None


def _command(root: Path) -> list[str] | None:
    """It runs by its own loader, with its own libraries."""
    for loader in root.glob("usr/lib/*-linux-gnu*/ld-linux*.so.*"):
        return [
            *(str(loader), "--library-path", str(loader.parent)),
            str(root / "usr/sbin/mysqld"),
        ]
    return None


def fetch() -> None:
    """Have MySQL in the cache; raise CannotFetch where that is impossible."""
    if find() is not None:
        return
    if not all(map(shutil.which, ("apt-get", "dpkg", "dpkg-deb"))):
        raise CannotFetch("this is no Debian")
    try:
        found = mirrors()
        if not found:
            raise CannotFetch("apt names no mirror of Debian's main archive")
        cache().mkdir(parents=True, exist_ok=True)
        with locked(cache() / "fetching"):
            if _fetched(cache()) is None:  # nobody else has, meanwhile
                _fetch(found, cache())
    except (OSError, RuntimeError, subprocess.SubprocessError) as error:
        raise CannotFetch(str(error)) from error


def mirrors() -> list[str]:
    """The mirrors that the machine's apt takes this release of Debian from."""
    release = Path("/etc/os-release")
    names = release.read_text(encoding="utf-8") if release.exists() else ""
    codename = re.search(r'^VERSION_CODENAME="?(\w+)', names, re.MULTILINE)
    if not re.search(r'^ID="?debian"?$', names, re.MULTILINE):
        return []
    suites = {"stable", "testing", "unstable", SUITE, codename[1] if codename else SUITE}
    asked = ["apt-get", "update", "--print-uris"]
    ran = subprocess.run(asked, capture_output=True, text=True, timeout=60)
    found = re.findall(r"'([^' ]+)/dists/([^/' ]+)/InRelease'", ran.stdout)
    return list(dict.fromkeys(mirror for mirror, suite in found if suite in suites))


def _fetch(mirrors: Sequence[str], into: Path) -> None:
    """Download and unpack beside its place, and move it there when it is seen to run."""
    for left in into.glob("new-*"):  # of one that was killed
        shutil.rmtree(left, ignore_errors=True)
    give_up = time.monotonic() + FETCH_S
    with tempfile.TemporaryDirectory(prefix="new-", dir=into) as work:
        archives = download(mirrors, SUITE, PACKAGE, Path(work), give_up)
        root = Path(work) / "root"
        for archive in archives:
            run(["dpkg-deb", "--extract", str(archive), str(root)], give_up)
        for useless in ("doc", "man", "locale", "perl"):
            shutil.rmtree(root / "usr/share" / useless, ignore_errors=True)
        command = _command(root)
        found = version(command) if command else ""
        if not found:
            raise CannotFetch(f"{PACKAGE} was fetched, but does not run here")
        os.utime(root)
        shutil.rmtree(into / f"mysql-{found}", ignore_errors=True)  # one that was broken since
        root.rename(into / f"mysql-{found}")


def download(
    mirrors: Sequence[str],
    suite: str,
    package: str,
    work: Path,
    give_up: float,
    *,
    alone: bool = False,
) -> list[Path]:
    """Download a package, and all that it needs unless it is to come alone.

    From the first mirror that has the suite: a machine may name others, of other makers.
    """
    why = CannotFetch("no mirror")
    for mirror in mirrors:
        try:
            return _download(mirror, suite, package, work, give_up, alone)
        except CannotFetch as error:
            why = error
    raise why


def _download(
    mirror: str, suite: str, package: str, work: Path, give_up: float, alone: bool
) -> list[Path]:
    """The archives of a package and of everything that it needs: apt says which those are."""
    shutil.rmtree(work / "apt", ignore_errors=True)
    for folder in ("state/lists/partial", "cache/archives/partial"):
        (work / "apt" / folder).mkdir(parents=True)
    architecture = run(["dpkg", "--print-architecture"], give_up).strip()
    keys = f" signed-by={KEYS}" if KEYS.exists() else ""
    sources = f"deb [arch={architecture}{keys}] {mirror} {suite} main\n"
    (work / "apt/sources.list").write_text(sources)
    (work / "apt/status").touch()  # as if nothing were installed
    (work / "apt/conf").write_text(_settings(work / "apt"))
    apt = ["apt-get", "--quiet", "--config-file", str(work / "apt/conf")]
    run([*apt, "update"], give_up)
    archives = work / "apt/cache/archives"
    wanted = ["download"] if alone else ["install", "--yes", "--download-only"]
    run([*apt, *wanted, package], give_up, archives)
    return sorted(archives.glob("*.deb"))


def _settings(folder: Path) -> str:
    """apt's settings: the machine's own (a proxy, for instance), but everything of it elsewhere."""
    hooks = ("Pre-Invoke", "Post-Invoke", "Post-Invoke-Success")
    settings = {
        "Dir::State": folder / "state",
        "Dir::State::status": folder / "status",
        "Dir::Cache": folder / "cache",
        "Dir::Etc::sourcelist": folder / "sources.list",
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::Etc::preferences": "/dev/null",
        "Dir::Etc::preferencesparts": "/dev/null",
        "Dir::Log": folder,
        "Acquire::Languages": "none",
        "Acquire::PDiffs": "false",
        "Acquire::Retries": "1",
        "Acquire::http::Timeout": "20",
        "Acquire::https::Timeout": "20",
        "APT::Update::Error-Mode": "any",
        "APT::Install-Recommends": "false",
        "APT::Sandbox::User": "root",  # the sandbox's own user could not write here
        "Debug::NoLocking": "true",
    }
    cleared = [f"#clear APT::Update::{hook};" for hook in hooks]
    return "\n".join([*cleared, *(f'{key} "{value}";' for key, value in settings.items()), ""])


def run(command: Sequence[str], give_up: float, folder: Path | None = None) -> str:
    """What a command prints that has to end in time."""
    left = give_up - time.monotonic()
    try:
        ran = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=max(1, left),
            cwd=folder,
        )
    except subprocess.TimeoutExpired:
        raise CannotFetch(f"{command[0]} took longer than it may") from None
    if ran.returncode:
        said = (ran.stderr or ran.stdout).strip().splitlines()
        raise CannotFetch(f"{command[0]}: {' '.join(said[-3:])}")
    return ran.stdout


@contextmanager
def locked(file: Path) -> Iterator[None]:
    """One process at a time; it ends with the process, however that ends."""
    with file.open("a") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


def main() -> int:
    """Fetch, and say so if that cannot be; that is no failure."""
    if find() is None:
        try:
            say(f"Fetching MySQL for the tests into {cache()}")
            fetch()
        except (CannotFetch, RuntimeError) as error:
            say(f"MySQL cannot be fetched, so its tests will be skipped: {error}")
    return 0


def say(text: str) -> None:
    """Tell whoever runs ``make servers``."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
