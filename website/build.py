"""Builds the documentation site: ``make site``. It needs npm, and the generator that is named.

The site has the layout of the repository: the README is its front page, and every link between
documents is the link of the source. Whatever else the documents link to is copied beside them.

``lab/`` is the page of `fencelock.lab` with another player (`browser/player.js`). It shows recorded
plays at once. Meanwhile a worker loads Pyodide, a Lua 5.1, the wheel of this package and of those
that the lab needs: then everything is played in the browser. hiredis, lupa and redis-py are not to
be had there, or not needed; `browser/python` stands in for them. None of this is in the wheel.

What is fetched is named by version and checksum (`npm/package-lock.json`, `requirements/dev.txt`)
and becomes part of the site, which loads nothing from elsewhere: its policy forbids it.
"""

from __future__ import annotations

import argparse
import base64
import gzip
import hashlib
import json
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fencelock import lab
from fencelock.lab.page import listed
from fencelock.lab.recorded import plays_of
from fencelock.web.files import INDEX, of_page
from tests.servers import npm_programs

HERE = Path(__file__).parent
ROOT = HERE.parent
LISTS = HERE / "npm"
FRONT = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "LICENSE")
FIRST = "ghost-writer"
WHEELS = ("h11", "kazoo", "msgspec")
PYODIDE = (
    "pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "python_stdlib.zip", "pyodide-lock.json",
)  # fmt: skip
LUA = ("dist/index.js", "dist/liblua5.1.wasm", "LICENSE")
BUILD_S = 300.0
LINK = re.compile(r"\[(?P<text>[^\]]*)\]\((?P<target>[^)\s]+)\)")
NESTED = re.compile(r"(?m)^  (?=[*-] )")
SCRIPT = re.compile(r"<script(?P<attributes>[^>]*)>(?P<text>.*?)</script>", re.DOTALL)
CHARSET = '<meta charset="utf-8">'
LAB_POLICY = (
    "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'{digests}; style-src 'self'; "
    "img-src 'self'; connect-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'"
)
TRUSTED = "; require-trusted-types-for 'script'; trusted-types lab-worker"
PAGE_POLICY = (
    "default-src 'none'; script-src 'self'{digests}; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; font-src 'self'; connect-src 'self'; worker-src 'self'; "
    "base-uri 'self'; form-action 'self'"
)


class Failed(Exception):
    """The site cannot be built; says why."""


def build(generator: str, site: Path, work: Path) -> None:
    """Build the site into a folder; another one is for what it is made from."""
    for folder in (site, work):
        shutil.rmtree(folder, ignore_errors=True)
    pages = work / "pages"
    pages.mkdir(parents=True)
    _documents(pages)
    _lab(pages / "lab")
    _browser(pages / "lab" / "browser", work)
    config = work / "mkdocs.yml"
    _write_json(config, _config(pages, site))
    _run([generator, "build", "--quiet", "--strict", "--config-file", str(config)])
    for page in (*_made(pages), Path("404.html")):
        _guard(site / page)
    index = (site / "lab" / "index.html").read_text(encoding="utf-8")
    policy = LAB_POLICY.format(digests=_digests(index))
    headers = f"/lab/*\n  Content-Security-Policy: {policy}\n"
    (site / "_headers").write_text(headers, encoding="utf-8")  # for hosts that read it: workers


def _documents(pages: Path) -> None:
    """Lay out the documents, and what they link to."""
    shutil.copytree(ROOT / "docs", pages / "docs")
    for name in FRONT:
        shutil.copy(ROOT / name, pages / name)
    shutil.copy(HERE / "site.css", pages)
    (pages / "examples").mkdir()
    shutil.copy(ROOT / "examples" / "README.md", pages / "examples")
    for page in list(pages.rglob("*.md")):
        text = page.read_text(encoding="utf-8")
        page.write_text(_laid_out(text, page, pages), encoding="utf-8")


def _laid_out(text: str, page: Path, pages: Path) -> str:
    """A document as the generator reads it; files that it links to are copied."""

    def linked(found: re.Match[str]) -> str:
        target = found["target"].partition("#")[0]
        if not target or ":" in target:
            return found[0]
        there = (page.parent / target).resolve()
        source = ROOT / there.relative_to(pages.resolve())
        if source.is_dir():
            return found["text"]  # a site lists no folders
        if source.is_file() and not there.exists():
            there.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, there)
        return found[0]

    return NESTED.sub("    ", LINK.sub(linked, text))  # as deep as it wants lists in lists


def _made(pages: Path) -> Iterator[Path]:
    """The pages that the generator makes of documents."""
    for path in pages.rglob("*.md"):
        found = path.relative_to(pages).with_suffix(".html")
        yield found.with_name("index.html") if found.stem == "README" else found


def _config(pages: Path, site: Path) -> dict[str, Any]:
    """What the generator is told: the order of the pages is that of docs/index.md."""
    rooms: dict[str, list[dict[str, str]]] = {"Documents": [], "Engines": [], "Guards": []}
    for found in LINK.finditer((pages / "docs" / "index.md").read_text(encoding="utf-8")):
        folder = found["target"].partition("/")[0]
        room = {"engines": "Engines", "guards": "Guards", "..": ""}.get(folder, "Documents")
        if room:
            rooms[room].append({found["text"]: f"docs/{found['target']}"})
    nav: list[dict[str, Any]] = [
        {"Fencelock": "README.md"},
        {"Play in the browser": "lab/index.html"},
        {"All documents": "docs/index.md"},
        *({name: entries} for name, entries in rooms.items()),
        {"Changes": "CHANGELOG.md"},
        {"Contributing": "CONTRIBUTING.md"},
        {"Security": "SECURITY.md"},
    ]
    return {
        "INHERIT": str(HERE / "mkdocs.yml"),
        "docs_dir": str(pages),
        "site_dir": str(site),
        "nav": nav,
    }


def _lab(folder: Path) -> None:
    """The page, with the player of the site, and its recorded plays."""
    for path, file in of_page("lab").items():
        target = folder / ("index.html" if path == INDEX else path.lstrip("/"))
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(file.data)
    index = folder / "index.html"
    text = index.read_text(encoding="utf-8")
    text = text.replace('"player": "./pages/player.js"', '"player": "./browser/player.js"')
    policy = LAB_POLICY.format(digests=_digests(text)) + TRUSTED
    index.write_text(_with_policy(text, policy), encoding="utf-8")
    recorded = folder / "recorded"
    recorded.mkdir()
    scenarios = {name: lab.scenario(name) for name in lab.scenarios()}
    _write_json(recorded / "scenarios.json", listed(scenarios, FIRST))
    for name, document in scenarios.items():
        plays = list(plays_of(document, {}, with_variants=True))
        data = json.dumps({"document": document, "plays": plays}, ensure_ascii=False).encode()
        (recorded / f"{name}.bin").write_bytes(gzip.compress(data, 9, mtime=0))


def _browser(folder: Path, work: Path) -> None:
    """A Python, a Lua, and the packages that are loaded into them."""
    shutil.copytree(HERE / "browser", folder, ignore=shutil.ignore_patterns("python"))
    if why := npm_programs.fetch(LISTS):
        raise Failed(f"npm cannot fetch Pyodide and Lua: {why}")
    modules = npm_programs.folder_of(LISTS)
    assert modules is not None
    for package, names, where in (
        ("pyodide", PYODIDE, folder / "pyodide"),
        ("wasmoon-lua5.1", LUA, folder / "wasmoon"),
    ):
        where.mkdir()
        for name in names:
            shutil.copy(modules / package / name, where)
    _download(folder, folder / "pyodide" / "pyodide-lock.json", work)
    _run([sys.executable, "-m", "hatchling", "build", "--target", "wheel", "-d", str(folder)])
    standins = folder / "standins.zip"
    with zipfile.ZipFile(standins, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted((HERE / "browser" / "python").rglob("*.py")):
            name = path.relative_to(HERE / "browser" / "python").as_posix()
            archive.writestr(zipfile.ZipInfo(name), path.read_bytes())
    wheels = sorted(path.name for path in folder.glob("*.whl"))
    _write_json(folder / "contents.json", {"packages": wheels, "standins": standins.name})
    _write_notice(folder / "NOTICE.txt", wheels)


def _download(folder: Path, lock: Path, work: Path) -> None:
    """The wheels that the lab needs, of the versions that the tests have, for this Pyodide."""
    info = json.loads(lock.read_text(encoding="utf-8"))["info"]
    version = ".".join(info["python"].split(".")[:2])
    pins = (ROOT / "requirements" / "dev.txt").read_text(encoding="utf-8")
    wanted = [re.search(rf"(?m)^{name}==(?:.*\\\n)*.*$", pins) for name in WHEELS]
    listed = work / "wheels.txt"
    listed.write_text("\n".join(found[0] for found in wanted if found), encoding="utf-8")
    _run([
        sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "download",
        "--no-deps", "--require-hashes", "--only-binary", ":all:", "--implementation", "cp",
        "--python-version", version, "--abi", f"cp{version.replace('.', '')}", "--abi", "none",
        "--platform", f"pyemscripten_{info['abi_version']}_wasm32", "--platform", "any",
        "--dest", str(folder), "--requirement", str(listed),
    ])  # fmt: skip


def _write_notice(path: Path, wheels: list[str]) -> None:
    lock = json.loads((LISTS / "package-lock.json").read_text(encoding="utf-8"))
    named = json.loads((LISTS / "package.json").read_text(encoding="utf-8"))["dependencies"]
    lines = ["This folder has files of other projects, unchanged. From npm:"]
    for name in named:
        entry = lock["packages"][f"node_modules/{name}"]
        lines.append(f"  {name} {entry['version']}, license {entry['license']}")
    lines += ["From PyPI, each with its license inside:", *(f"  {name}" for name in wheels)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _guard(page: Path) -> None:
    """Give a page of the generator a policy: its own scripts by their digests, and nothing else."""
    text = page.read_text(encoding="utf-8")
    policy = PAGE_POLICY.format(digests=_digests(text))
    page.write_text(_with_policy(text, policy), encoding="utf-8")


def _with_policy(text: str, policy: str) -> str:
    if text.count(CHARSET) != 1:
        raise Failed("a page does not say its character set as expected: there is no policy for it")
    meta = f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
    return text.replace(CHARSET, f"{CHARSET}\n{meta}", 1)


def _digests(text: str) -> str:
    """The scripts within a page, as a policy allows them."""
    found = [
        base64.b64encode(hashlib.sha256(one["text"].encode()).digest()).decode()
        for one in SCRIPT.finditer(text)
        if "src=" not in one["attributes"] and "application/json" not in one["attributes"]
    ]
    return "".join(f" 'sha256-{digest}'" for digest in dict.fromkeys(found))


def _write_json(path: Path, data: object) -> None:
    path.write_text(json.dumps(data, ensure_ascii=False), encoding="utf-8")


def _run(command: list[str]) -> None:
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=BUILD_S)
    except OSError as error:
        raise Failed(f"{command[0]}: {error.strerror}") from None
    except subprocess.TimeoutExpired:
        raise Failed(f"{' '.join(command[:4])} took longer than {BUILD_S:g} s") from None
    if done.returncode:
        raise Failed(f"{' '.join(command[:4])} failed:\n{done.stdout}{done.stderr}")


def main() -> int:
    """Build it, and say where it is or why it is not."""
    parser = argparse.ArgumentParser(description="Build the documentation site.")
    parser.add_argument("--generator", required=True, help="the program mkdocs")
    parser.add_argument("--site", type=Path, default=ROOT / "build" / "site")
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "website")
    options = parser.parse_args()
    try:
        build(options.generator, options.site.resolve(), options.work.resolve())
    except Failed as failed:
        sys.stderr.write(f"The site cannot be built: {failed}\n")
        return 1
    sys.stdout.write(
        f"The site is in {options.site}. To see it:\n"
        f"  {sys.executable} -m http.server --bind 127.0.0.1 --directory {options.site}\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
