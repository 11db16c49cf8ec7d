"""The files of the dashboard: what is served, with which headers, and what is not in them."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.service.nodes import Node

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "fencelock"
PAGES = PACKAGE / "service" / "pages"
WEB = PACKAGE / "web"
LAB_PAGES = PACKAGE / "lab" / "pages"
OURS = [one for one in [*PAGES.rglob("*"), *WEB.glob("*")] if one.is_file()]
UNSAFE = ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function(")


def test_text_never_becomes_markup_or_code() -> None:
    assert len(OURS) > 10
    for file in OURS:
        text = file.read_text(encoding="utf-8")
        found = [word for word in (*UNSAFE, "dangerouslySet", "confirm(", "alert(") if word in text]
        assert not found, (file, found)


def test_nothing_is_loaded_from_elsewhere_and_addresses_are_relative() -> None:
    for file in OURS:
        text = re.sub(r"^\s*(//|/\*).*$", "", file.read_text(encoding="utf-8"), flags=re.MULTILINE)
        text = text.replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"https?://|@import|url\(", text), file
        assert not re.search(r"""(?:src|href)=["']/""", text), file
        assert not re.search(r"""from ["']/""", text), file


def test_vendored_files_are_those_that_were_taken() -> None:
    vendor = WEB / "vendor"
    lines = (vendor / "SHA256SUMS").read_text().splitlines()
    sums = {name: digest for digest, name in (line.split() for line in lines)}
    present = {one.name for one in vendor.iterdir()} - {"SHA256SUMS", "README.md"}
    assert present == set(sums)
    for name, digest in sums.items():
        assert hashlib.sha256((vendor / name).read_bytes()).hexdigest() == digest, name


def test_the_page_is_served_with_a_strict_policy(node: Node) -> None:
    reply = node.send("GET", "/")
    assert reply.status == 200
    assert reply.headers["content-type"] == "text/html; charset=utf-8"
    policy = reply.headers["content-security-policy"]
    for rule in (
        "default-src 'none'",
        "style-src 'self'",
        "connect-src 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    ):
        assert rule in policy
    assert "unsafe" not in policy
    assert "set-cookie" not in reply.headers
    assert not [name for name in reply.headers if name.startswith("access-control")]
    assert b'data-identities="no"' in reply.body


def test_every_file_that_is_served_is_one_of_ours(node: Node) -> None:
    page = node.send("GET", "/").body.decode()
    for path in re.findall(r'(?:src|href)="([^"]+)"|: "\./([^"]+)"', page):
        reply = node.send("GET", f"/{path[0] or path[1]}")
        assert (reply.status, reply.headers["x-content-type-options"]) == (200, "nosniff"), path
    for path in (
        "/pages/../app.py",
        "/pages/%2e%2e/app.py",
        "/pages/",
        "/pages/index.html",
        "/web/vendor/SHA256SUMS",
        "/pages//dashboard.js",
        "/web/ui.js/",
    ):
        assert node.send("GET", path).status == 404, path
    assert node.send("POST", "/").status == 404
    assert node.send("GET", "/?token=x").problem == "malformed"
    assert node.send("GET", "/", None, {"Host": "evil.example"}).problem == "wrong-host"


def test_a_file_that_is_known_is_not_sent_again(node: Node) -> None:
    first = node.send("GET", "/pages/dashboard.js")
    again = node.send("GET", "/pages/dashboard.js", None, {"If-None-Match": first.headers["etag"]})
    assert (again.status, again.body) == (304, b"")
    assert first.headers["cache-control"] == "no-cache"
    head = node.send("HEAD", "/pages/dashboard.js")
    assert (head.status, head.body) == (200, b"")


@pytest.mark.skipif(sys.platform == "win32", reason="the build is tried on one system")
def test_the_wheel_has_the_pages(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    wanted = {one.relative_to(ROOT / "src").as_posix() for one in PAGES.iterdir()}
    wanted |= {
        one.relative_to(ROOT / "src").as_posix()
        for folder in (WEB, LAB_PAGES)
        for one in folder.rglob("*")
        if one.is_file() and one.suffix != ".pyc"
    }
    assert wanted <= names
