"""The documentation site, built once, and a server for it that can withhold files."""

from __future__ import annotations

import fcntl
import functools
import http.server
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any, cast

import pytest

from tests.servers import npm_programs
from website import build

HELD_S = 100.0
TYPES = {".mjs": "text/javascript", ".js": "text/javascript", ".wasm": "application/wasm"}


class Server(http.server.ThreadingHTTPServer):
    """Serves a folder, with the headers that its file ``_headers`` names."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), functools.partial(_Handler, directory=str(folder)))
        self.url = f"http://127.0.0.1:{self.server_port}/"
        lines = (folder / "_headers").read_text(encoding="utf-8").splitlines()
        self.prefix = lines[0].removesuffix("*")
        name, _, value = lines[1].strip().partition(": ")
        self.header = name, value
        self.missing = ""
        """What ends so is not found."""
        self.held = ""
        """What ends so is answered when ``let_go`` is set."""
        self.let_go = threading.Event()

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of a browser that went away."""


class _Handler(http.server.SimpleHTTPRequestHandler):
    def do_GET(self) -> None:
        server = cast("Server", self.server)
        if server.held and self.path.endswith(server.held):
            server.let_go.wait(HELD_S)
        if server.missing and self.path.endswith(server.missing):
            self.send_error(HTTPStatus.NOT_FOUND)
        else:
            super().do_GET()

    def guess_type(self, path: Any) -> str:
        return TYPES.get(Path(path).suffix) or super().guess_type(path)

    def end_headers(self) -> None:
        server = cast("Server", self.server)
        if self.path.startswith(server.prefix):
            self.send_header(*server.header)
        super().end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


def built(folder: Path) -> Path:
    """The site. Workers of one run share it: the first builds it. Skip where npm has nothing."""
    site, done = folder / "site", folder / "done"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            done.write_text(_build(site, folder / "work"), encoding="utf-8")
    if why := done.read_text(encoding="utf-8"):
        pytest.skip(why)
    return site


def _build(site: Path, work: Path) -> str:
    if why := npm_programs.fetch(build.LISTS):
        return f"THE LAB IN THE BROWSER IS NOT TESTED: npm cannot fetch what it needs: {why}"
    venv = ".venv-site"
    made = ["make", "--silent", f"{venv}/.made", "VENV=.venv", f"PYTHON={sys.executable}"]
    clean = {
        name: one for name, one in os.environ.items() if not name.startswith(("MAKE", "MFLAG"))
    }
    subprocess.run(made, cwd=build.ROOT, env=clean, check=True, stdout=subprocess.DEVNULL)
    build.build(str(build.ROOT / venv / "bin" / "mkdocs"), site, work)
    return ""


@contextmanager
def served(site: Path) -> Iterator[Server]:
    """A server of the site, on a free port."""
    server = Server(site)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.let_go.set()
        server.shutdown()
        server.server_close()
        thread.join()
