"""The files of the dashboard, as they are served.

They are read once. Nothing else can be asked for: a path is looked up, never opened. The policy
lets the page load its own files and call its own service, and forbids everything else; text can
become markup nowhere, because there is no policy for Trusted Types.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import NamedTuple

from .messages import Answer

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".htm": "text/plain; charset=utf-8",
    ".preact": "text/plain; charset=utf-8",
    ".signals": "text/plain; charset=utf-8",
}
INDEX = "/"
MAP_BEGIN, MAP_END = b'<script type="importmap">', b"</script>"
POLICY = (
    "default-src 'none'; script-src 'self' 'sha256-{map}'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)


class File(NamedTuple):
    """One file."""

    data: bytes
    headers: tuple[tuple[str, str], ...]
    tag: str


def answer(path: str, is_open: bool, known: str) -> Answer | None:
    """The answer with a file, short if the client has it already; None if there is no such file.

    The page is told whether everybody may call, so that it asks for no token then.
    """
    file = _files(is_open).get(path)
    if file is None:
        return None
    if known == file.tag:
        return Answer(b"", 304, file.headers)
    return Answer(file.data, 200, file.headers)


@cache
def _files(is_open: bool) -> dict[str, File]:
    root = files("fencelock")
    found: dict[str, File] = {}
    for url, file in _walk("/pages", root / "service" / "pages"):
        found[url] = _file(file.name, file.read_bytes(), "")
    for url, file in _walk("/web", root / "web"):
        found[url] = _file(file.name, file.read_bytes(), "")
    page = (root / "service" / "pages" / "index.html").read_bytes()
    policy = POLICY.format(map=_digest(page))
    if is_open:
        page = page.replace(b'data-identities="yes"', b'data-identities="no"', 1)
    found.pop("/pages/index.html")
    found[INDEX] = _file("index.html", page, policy)
    return found


def _walk(url: str, folder: Traversable) -> Iterator[tuple[str, Traversable]]:
    for entry in folder.iterdir():
        where = f"{url}/{entry.name}"
        if entry.is_dir():
            yield from _walk(where, entry)
        elif _type(entry.name):
            yield where, entry


def _type(name: str) -> str | None:
    return TYPES.get("." + name.rpartition(".")[2])


def _file(name: str, data: bytes, policy: str) -> File:
    tag = f'"{hashlib.sha256(data).hexdigest()[:32]}"'
    headers = (
        ("Content-Type", _type(name) or ""),
        ("Cache-Control", "no-cache"),
        ("ETag", tag),
        ("Referrer-Policy", "no-referrer"),
        ("Cross-Origin-Opener-Policy", "same-origin"),
        ("Cross-Origin-Resource-Policy", "same-origin"),
        *((("Content-Security-Policy", policy),) if policy else ()),
    )
    return File(data, headers, tag)


def _digest(page: bytes) -> str:
    """The digest by which the policy allows the import map, the only script within the page."""
    text = page.partition(MAP_BEGIN)[2].partition(MAP_END)[0]
    return base64.b64encode(hashlib.sha256(text).digest()).decode()
