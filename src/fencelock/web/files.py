"""Files of a page, as they are served: read once, each with its headers.

No other file can be requested: a path is looked up, never opened. The policy lets a page load its
own files and call its own server, and forbids everything else; text can become markup nowhere,
because there is no policy for Trusted Types.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import NamedTuple

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


def of_page(*folders: str, marks: tuple[bytes, bytes] = (b"", b"")) -> dict[str, File]:
    """Return the files of a page in a folder of the package, and those that all pages share.

    They are keyed by path. ``marks`` are a text in the page and its replacement.
    """
    root = files("fencelock")
    pages = root.joinpath(*folders, "pages")
    found: dict[str, File] = {}
    for url, file in (*_walk("/pages", pages), *_walk("/web", root / "web")):
        found[url] = _file(file.name, file.read_bytes(), "")
    found.pop("/pages/index.html")
    page = (pages / "index.html").read_bytes()
    policy = POLICY.format(map=_digest(page))
    found[INDEX] = _file("index.html", page.replace(*marks, 1) if marks[0] else page, policy)
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
    """Return the digest by which the policy allows the import map, the only inline script."""
    text = page.partition(MAP_BEGIN)[2].partition(MAP_END)[0]
    return base64.b64encode(hashlib.sha256(text).digest()).decode()
