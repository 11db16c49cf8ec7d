"""What the documents say is so: their code runs, their links lead somewhere, engines have pages.

A block that cannot run stands behind a comment that says why: ``<!-- not run: reason -->``. One
that shows a part of a file says of which: ``<!-- not run: a part of FILE -->``, and must be in it.

The code of the README runs on real servers: their addresses take the place of the one it names.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.servers.postgresql import Postgresql
from tests.servers.redis import Redis
from tests.servers.shared import shared
from tests.unit.pages import PAGES, ROOT, prose

README = ROOT / "README.md"
README_URL = "redis://localhost:6379"
STORES: dict[str, Callable[[], str]] = {
    "redis": lambda: shared(Redis).url,
    "postgresql": lambda: shared(Postgresql).url(),
    "sqlite": lambda: "sqlite:///locks.db",
}

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
# The blocks of one page are one program: later ones see the names of earlier ones. Numbers of lines
# in a traceback are those of the page.
RUNNER = """
import json, logging, sys
logging.getLogger("fencelock").addHandler(logging.NullHandler())  # losing leases is the point
names = {"__name__": "__main__"}
for line, code in json.load(sys.stdin):
    exec(compile("\\n" * line + code, sys.argv[1], "exec"), names)
"""


class Block(NamedTuple):
    line: int
    language: str
    code: str
    not_run: str


def blocks(text: str) -> list[Block]:
    """The fenced blocks of a page; ``not_run`` is the reason when one must not be run."""
    found: list[Block] = []
    fence, start, language, reason = "", 0, "", ""
    lines = text.splitlines()
    for number, line in enumerate(lines):
        mark = re.match(r"(```+)(\w*)\s*$", line)
        if mark and not fence:
            fence, start, language = mark[1], number + 1, mark[2]
            above = next((words for words in reversed(lines[:number]) if words.strip()), "")
            exempt = re.fullmatch(r"<!-- not run: (.+) -->", above.strip())
            reason = exempt[1] if exempt else ""
        elif mark and mark[1] == fence and not mark[2]:
            code = "\n".join(lines[start:number]) + "\n"
            found.append(Block(start, language, code, reason))
            fence = ""
    assert not fence, f"the block that begins in line {start} has no end"
    return found


def run(arguments: list[str], folder: Path, given: str = "") -> None:
    """Run Python so that every warning is an error; what it complains about is a failure."""
    ran = subprocess.run(
        [sys.executable, "-W", "error", *arguments],
        cwd=folder,
        input=given,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr == "", "an error in a destructor or a thread fails nobody but is one"


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def python_of(page: Path) -> list[Block]:
    return [b for b in blocks(page.read_text(encoding="utf-8")) if b.language == "python"]


def program_of(page: Path) -> str:
    return json.dumps([(block.line, block.code) for block in python_of(page) if not block.not_run])


WITH_CODE = [page for page in PAGES if python_of(page)]


@pytest.mark.parametrize("page", [page for page in WITH_CODE if page != README], ids=name_of)
def test_the_code_of_a_page_runs(page: Path, tmp_path: Path) -> None:
    run(["-c", RUNNER, str(page)], tmp_path, program_of(page))


@pytest.mark.parametrize("page", WITH_CODE, ids=name_of)
def test_what_is_shown_of_a_file_is_in_it(page: Path) -> None:
    for block in python_of(page):
        whole, part_of, path = block.not_run.partition("a part of ")
        if part_of and not whole:
            assert block.code in (ROOT / path).read_text(encoding="utf-8"), f"line {block.line}"


# The README


@pytest.mark.parametrize("store", STORES)
def test_the_code_of_the_readme_runs_on_the_stores_that_it_names(
    store: str, tmp_path: Path
) -> None:
    program = program_of(README)
    assert README_URL in program
    run(["-c", RUNNER, str(README)], tmp_path, program.replace(README_URL, STORES[store]()))


def test_the_readme_is_read_in_a_minute() -> None:
    assert len(README.read_text(encoding="utf-8").splitlines()) <= 150


def test_the_first_screen_of_the_readme_has_code_in_both_flavors() -> None:
    first, second, *others = python_of(README)
    assert first.line < 16
    assert len(first.code.splitlines()) <= 12
    assert "fencelock.connect(" in first.code
    assert "@client.locked(" in first.code
    assert all(f"{store}://" in first.code for store in STORES)
    assert "fencelock.aio.connect(" in second.code
    assert not any(block.not_run for block in (first, second, *others))


@pytest.mark.parametrize("example", EXAMPLES, ids=name_of)
def test_an_example_runs(example: Path, tmp_path: Path) -> None:
    run([str(example)], tmp_path)


def test_there_are_examples_and_each_is_listed() -> None:
    text = (ROOT / "examples" / "README.md").read_text(encoding="utf-8")
    assert len(EXAMPLES) >= 3
    assert [e.name for e in EXAMPLES if f"({e.name})" not in text] == []


# Links


def anchors(text: str) -> set[str]:
    """The anchors that a page's headings get."""
    titles = re.findall(r"(?m)^#+ (.+)$", prose(text))
    return {re.sub(r"[^\w\- ]", "", t.lower().strip()).replace(" ", "-") for t in titles}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_to_files_that_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(text)):
        if re.match(r"[a-z]+:", target):
            continue  # somebody else's page
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        there = file.exists() and file.is_relative_to(ROOT)
        if not there or (anchor and anchor not in anchors(file.read_text(encoding="utf-8"))):
            broken.append(target)
    assert broken == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_files_that_are_named_exist(page: Path) -> None:
    named = re.findall(
        r"`((?:src|tests|docs|examples|bench|requirements)/[^`\s*…<>]+)`",
        page.read_text(encoding="utf-8"),
    )
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_every_page_can_be_reached_from_the_readme() -> None:
    reached, todo = set[Path](), [ROOT / "README.md"]
    while todo:
        page = todo.pop()
        if page in reached or page.suffix != ".md" or not page.is_file():
            continue
        reached.add(page)
        for target in re.findall(r"\]\(([^)#\s:]+)", prose(page.read_text(encoding="utf-8"))):
            todo.append((page.parent / target).resolve())
    assert [name_of(page) for page in PAGES if page not in reached] == []


# The judge itself


def test_blocks_are_found_and_exempted() -> None:
    page = """
text
```python
a = 1
```

<!-- not run: it needs a server -->

```python
b = 2
```
```sh
make
```
"""
    assert blocks(page) == [
        Block(3, "python", "a = 1\n", ""),
        Block(9, "python", "b = 2\n", "it needs a server"),
        Block(12, "sh", "make\n", ""),
    ]


@pytest.mark.parametrize(
    "code",
    [
        "1 / 0",
        "import warnings; warnings.warn('old')",
        "import fencelock; fencelock.connect('memory://').lock('a').acquire()",  # dropped
    ],
)
def test_code_that_fails_or_warns_is_noticed(code: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        run(["-c", RUNNER, "page.md"], tmp_path, json.dumps([[3, code]]))
