"""The documentation site, and its lab, which plays in the browser without a server."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from playwright.sync_api import Browser, Page, expect

from fencelock import lab
from fencelock.lab.universe import played
from fencelock.web.bundle import held
from tests.lab.site import Server, built, served
from tests.service.browsers import NO_ANSWER, opened

pytestmark = pytest.mark.timeout(600)  # the first builds the site

LOAD_MS = 300_000
READY = "Plays in this browser"
LOADING = "The lab is still loading"


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    folder = shared / "documentation"
    folder.mkdir(exist_ok=True)
    return built(folder)


@pytest.fixture
def server(site: Path) -> Iterator[Server]:
    with served(site) as server:
        yield server


def ready(page: Page) -> None:
    expect(page.get_by_text(READY)).to_be_visible(timeout=LOAD_MS)


def shown(page: Page) -> None:
    expect(page.locator(".chart svg .bar").first).to_be_visible()


def in_the_end(outcome: dict[str, Any]) -> str:
    return (
        f"{outcome['register']} is written, {outcome['writes']} "
        f"{'write' if outcome['writes'] == 1 else 'writes'} taken, {outcome['refused']} refused"
    )


def test_every_scenario_plays_in_the_browser_as_it_does_natively(
    browser: Browser, server: Server
) -> None:
    play = """async (universe) => {
        const { play } = await import("/lab/browser/player.js");
        return (await play(universe)).digest;
    }"""
    with opened(browser, f"{server.url}lab/") as page:
        ready(page)
        found: dict[str, str] = {}
        native: dict[str, str] = {}
        for name in lab.scenarios():
            document = lab.scenario(name)
            for choices in lab.combinations(document):
                key = f"{name} {choices}"
                native[key] = lab.play(lab.chosen(document, **choices)).digest
                universe = {"name": name, "document": document, "choices": choices, "edits": {}}
                found[key] = page.evaluate(play, {**universe, "own": True})  # none is recorded
        assert len(native) > 80
        assert found == native


def test_it_opens_recorded_and_can_be_changed_when_it_is_loaded(
    browser: Browser, server: Server, tmp_path: Path
) -> None:
    server.held = "pyodide.asm.wasm"
    with opened(browser, f"{server.url}lab/#long-work") as page:
        shown(page)
        expect(page.locator(".status")).to_have_text("Loading Python, 1 of 3")
        watched = lab.play(lab.load("long-work", renewal="watchdog"))
        page.get_by_role("button", name="watchdog", exact=True).click()
        expect(page.locator(".end")).to_contain_text(in_the_end(watched.outcome))
        page.get_by_role("combobox", name="compare with").select_option("renewal: none")
        expect(page.locator(".second .bar").first).to_be_visible()
        page.get_by_role("combobox", name="compare with").select_option("")

        for _ in range(3):
            page.keyboard.press("ArrowRight")
        page.get_by_role("button", name="A ❄ freeze").click()
        expect(page.get_by_text(LOADING)).to_be_visible()
        expect(page.locator(".chip")).to_have_count(0)
        server.let_go.set()
        ready(page)
        expect(page.get_by_text(LOADING)).to_have_count(0)
        expect(page.locator(".chip")).to_have_count(1)
        moment = float(page.get_by_role("slider").get_attribute("aria-valuenow") or "")
        fault = {"kind": "pause", "whom": "A", "at": moment, "for": 8}
        native = played({
            "document": lab.scenario("long-work"),
            "switches": {"renewal": "watchdog"},
            "edits": {"faults": [fault]},
        })  # fmt: skip
        assert native["outcome"]["broken"]
        assert not watched.outcome["broken"]
        page.get_by_role("slider").press("End")
        expect(page.locator(".lights .red")).to_have_count(len(native["outcome"]["broken"]))
        expect(page.locator(".end")).to_contain_text(in_the_end(native["outcome"]))

        page.get_by_role("button", name="Share").click()
        with page.expect_download() as download:
            page.get_by_role("button", name="Trace as JSON").click()
        download.value.save_as(tmp_path / "trace.json")
        trace = json.loads((tmp_path / "trace.json").read_text(encoding="utf-8"))
        assert trace["digest"] == native["digest"]
        with page.expect_download() as download:
            page.get_by_role("button", name="Export").click()
        download.value.save_as(tmp_path / "page.html")
        exported: Any = held((tmp_path / "page.html").read_text(encoding="utf-8"))
        assert exported["edits"] == {"faults": [fault]}

        page.get_by_role("button", name="Copy link").click()
        expect(page.locator("#share [role=status]")).not_to_have_text("")
        link = page.url
        page.get_by_role("combobox", name="Scenario").select_option("taking-turns")
        expect(page.get_by_role("heading", level=1)).to_contain_text("Taking turns")
        page.evaluate("fragment => { location.hash = fragment; }", urlsplit(link).fragment)
        expect(page.locator(".lights .red")).to_have_count(len(native["outcome"]["broken"]))
        expect(page.locator(".notice")).to_have_count(0)

        page.get_by_role("combobox", name="Scenario").select_option("your-turn")
        page.get_by_role("group", name="A at the playhead").get_by_text("Acquire").click()
        expect(page.get_by_role("region", name="Events")).to_contain_text("holds seat with fence")
        script = page.get_by_label("Script of A")
        script.fill("acquier seat")
        page.locator("form.script", has=script).get_by_role("button", name="Apply").click()
        expect(page.locator(".wrong")).to_contain_text("Line 1: 'acquier seat' is not a statement")


@pytest.mark.parametrize("missing", ["pyodide.asm.wasm", "worker.js", "liblua5.1.wasm"])
def test_what_cannot_be_loaded_is_said_and_the_recorded_plays_stay(
    browser: Browser, server: Server, missing: str
) -> None:
    server.missing = missing
    with opened(browser, f"{server.url}lab/", expected=NO_ANSWER) as page:
        shown(page)
        expect(page.get_by_role("alert")).to_contain_text("The lab could not be loaded")
        expect(page.get_by_role("alert")).to_contain_text("what you see was recorded")
        expect(page.locator(".palette")).to_have_count(0)
        page.get_by_role("button", name="no guard").click()
        expect(page.locator(".end")).to_contain_text("Alice is written, 2 writes taken, 0 refused")
        page.get_by_role("button", name="A ❄ freeze").click()
        expect(page.locator(".banner")).to_contain_text("not recorded")
        expect(page.locator(".end")).to_contain_text("Alice is written")


class _Links(HTMLParser):
    """What a page leads to, and what it loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.loaded: list[str] = []
        self.ids: set[str] = set()
        self.policy = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.ids |= {given[name] for name in ("id", "name") if name in given}
        if given.get("http-equiv") == "Content-Security-Policy":
            self.policy = given["content"]
        if tag == "a" and "href" in given:
            self.targets.append(given["href"])
        elif tag == "link" and given.get("rel") not in ("canonical", "prev", "next"):
            self.loaded.append(given.get("href", ""))
        elif "src" in given:
            self.loaded.append(given["src"])


def test_every_link_of_the_site_leads_somewhere_and_nothing_comes_from_elsewhere(
    site: Path,
) -> None:
    pages = {path: _Links(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}
    broken: list[str] = []
    for path, page in pages.items():
        assert "default-src 'none'" in page.policy, f"{path} has no policy"
        for target in (*page.targets, *page.loaded):
            url = urlsplit(target)
            if url.scheme or url.netloc:
                if target in page.loaded and url.scheme != "data":
                    broken.append(f"{path.relative_to(site)} loads {target}")
                continue
            there = (path.parent / unquote(url.path)).resolve() if url.path else path
            if path.name == "404.html":  # it is shown at any address, and names them from the root
                there = site / unquote(url.path).lstrip("/")
            there = there / "index.html" if there.is_dir() else there
            anchor = unquote(url.fragment)
            if not there.is_file() or (
                anchor and there in pages and anchor not in pages[there].ids | {"__search"}
            ):
                broken.append(f"{path.relative_to(site)} links to {target}")
    assert broken == []
    for name in ("ghost-writer", "naive-delete", "redlock-clock-jump"):
        assert (site / "docs" / "lab" / f"{name}.html").is_file()
    front = pages[site / "index.html"].targets
    assert "lab/index.html" in front
    assert "docs/lab.html" in front


def test_a_document_is_shown_and_found(browser: Browser, server: Server) -> None:
    with opened(browser, f"{server.url}docs/lab.html") as page:
        expect(page.get_by_role("heading", level=1)).to_contain_text("The lab")
        page.get_by_role("textbox", name="Search").click()
        page.keyboard.type("ghost writer")
        expect(page.locator(".md-search-result__item").first).to_be_visible()
        page.keyboard.press("Escape")
        page.get_by_role("link", name="Play in the browser").first.click()
        shown(page)


def test_the_wheel_has_nothing_of_the_site(site: Path) -> None:
    (wheel,) = (site / "lab" / "browser").glob("fencelock-*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.partition("/")[0].partition("-")[0] for name in names} == {"fencelock"}
    assert not [name for name in names if name.endswith((".wasm", ".mjs", ".zip", ".bin"))]
