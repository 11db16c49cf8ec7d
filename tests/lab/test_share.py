"""What is taken along from the lab: one file, a link, a test, a trace; and two plays compared."""

from __future__ import annotations

import base64
import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Locator, Page, expect

from fencelock import lab
from fencelock.errors import UsageError
from fencelock.lab.recorded import SIZE_MAX, recorded_page
from fencelock.lab.variant import variants, varied
from fencelock.web.bundle import held
from tests.cli.program import Program, end
from tests.service.browsers import Scheme, opened, started


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with started() as browser:
        yield browser


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Program]:
    program = Program(tmp_path)
    yield program
    assert program.close() == [], "processes were left behind"


@pytest.fixture
def url(program: Program) -> Iterator[str]:
    process = program.start("lab", "--no-browser", "--json")
    assert process.stdout is not None
    yield str(json.loads(process.stdout.readline())["url"])
    process.send_signal(signal.SIGINT)
    ended = end(process)
    assert (ended.returncode, ended.stderr) == (130, "")


def exported(folder: Path, name: str = "ghost-writer") -> Path:
    path = folder / f"{name}.html"
    lab.export(lab.scenario(name), path)
    return path


def shown(page: Page) -> None:
    expect(page.locator(".chart svg .bar").first).to_be_visible()


def offline(page: Page) -> None:
    """Load the page again without a network; whatever it asks for but itself fails the test."""
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.context.set_offline(True)
    page.reload()
    shown(page)
    assert asked == [page.url.partition("#")[0]]


def violations(page: Page) -> str:
    results = Axe().run(page)
    return "" if not results.violations_count else str(results.generate_report())


def compare(page: Page) -> Locator:
    return page.get_by_role("combobox", name="compare with")


def clipboard(page: Page, button: str) -> str:
    """What a button of the panel copies."""
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    status = page.locator("#share [role=status]")
    page.get_by_role("button", name=button).click()
    expect(status).to_contain_text("is copied")
    return str(page.evaluate("navigator.clipboard.readText()"))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_an_exported_file_needs_neither_the_lab_nor_a_network(
    browser: Browser, tmp_path: Path, scheme: Scheme
) -> None:
    with opened(browser, exported(tmp_path).as_uri(), scheme=scheme) as page:
        offline(page)
        heading, told = page.locator(".story h2"), lab.play(lab.load("ghost-writer")).data["steps"]
        for number, step in enumerate(told, 1):
            page.get_by_role("button", name="Next step").click()
            expect(heading).to_have_text(f"Step {number} of {len(told)}")
            expect(page.locator(".story p")).to_have_text(step["say"])
        expect(page.locator(".end")).to_contain_text("Bob is written, 1 write taken, 1 refused")
        page.get_by_role("button", name="no guard").click()
        expect(page.locator(".end")).to_contain_text("Alice is written, 2 writes taken, 0 refused")
        page.keyboard.press("Home")
        expect(page.locator(".lights .red")).to_have_count(0)
        page.keyboard.press("End")
        expect(page.locator(".lights .red")).to_contain_text("B wrote Bob and A wrote Alice")
        page.keyboard.press("Home")
        page.keyboard.press("Space")
        expect(page.get_by_role("button", name="Pause")).to_be_visible()
        page.keyboard.press("Space")
        box = page.locator(".chart .scrubber svg").bounding_box()
        assert box is not None
        page.mouse.click(box["x"] + box["width"] / 2, box["y"] + 5)
        expect(page.get_by_role("slider")).to_have_attribute("aria-valuenow", re.compile("^[67]"))
        page.get_by_role("button", name="A ❄ frozen").wait_for()
        page.get_by_role("button", name="B ❄ freeze").click()
        needed = "Another play needs the live lab: fencelock lab ghost-writer"
        expect(page.get_by_role("alert")).to_contain_text(needed)
        expect(page.locator(".end")).to_contain_text("Alice is written")
        page.get_by_role("button", name="Share").click()
        assert page.get_by_role("button", name="Export").count() == 0
        for width in (1280, 390):
            page.set_viewport_size({"width": width, "height": 800})
            assert violations(page) == ""
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_the_policy_of_an_exported_file_allows_its_own_script_alone(
    browser: Browser, tmp_path: Path
) -> None:
    title = "</script><script>document.title = 'broken'</script><!--"
    lab.export(lab.scenario("ghost-writer") | {"title": title}, tmp_path / "mine.html")
    text = (tmp_path / "mine.html").read_text(encoding="utf-8")
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]+)"', text)
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy
    assert "trusted-types 'none'" in policy
    assert text.count("<script") == text.count("</script>") == 2
    assert "Permission is hereby granted" in text, "the licenses of the libraries are missing"
    assert "Apache License" in text
    with opened(browser, (tmp_path / "mine.html").as_uri()) as page:
        expect(page.get_by_role("heading", level=1)).to_contain_text(title)
        assert page.title() == f"{title} · Fencelock lab"
    changed = text.replace("const module0", "const  module0", 1)
    assert changed != text
    (tmp_path / "changed.html").write_text(changed, encoding="utf-8")
    with opened(browser, (tmp_path / "changed.html").as_uri(), expected="violates") as page:
        page.wait_for_timeout(100)
        assert page.locator(".chart").count() == 0, "a changed script ran"


@pytest.mark.parametrize("name", lab.scenarios())
def test_an_export_holds_every_play_and_is_small(name: str) -> None:
    document = lab.scenario(name)
    page = recorded_page(document, name=name)
    assert len(page.encode()) <= SIZE_MAX
    data = cast("Any", held(page))
    assert data["document"] == document
    plays = [one for one in data["plays"] if not one["variant"]]
    assert [one["choices"] for one in plays] == list(lab.combinations(document))
    for one in plays:
        chosen = lab.chosen(document, **one["choices"])
        assert one["trace"]["digest"] == lab.play(chosen).digest
        assert one["trace"]["variants"] == variants(chosen)
    for one in data["plays"]:
        if one["variant"]:
            other = varied(lab.chosen(document, **one["choices"]), one["variant"])
            assert one["trace"]["digest"] == lab.play(other).digest


def test_the_page_downloads_the_same_file_with_what_was_changed(
    browser: Browser, url: str, tmp_path: Path
) -> None:
    with opened(browser, url) as page:
        shown(page)
        page.get_by_role("button", name="no guard").click()
        expect(page.locator(".end")).to_contain_text("Alice is written")
        page.get_by_role("button", name="B ❄ freeze").click()
        expect(page.get_by_role("region", name="Your changes")).to_be_visible()
        ended = page.locator(".end").inner_text()
        page.get_by_role("button", name="Share").click()
        with page.expect_download() as download:
            page.get_by_role("button", name="Export").click()
        assert download.value.suggested_filename == "ghost-writer.html"
        download.value.save_as(tmp_path / "changed.html")
        with page.expect_download() as download:
            page.get_by_role("button", name="Trace as JSON").click()
        assert download.value.suggested_filename == "ghost-writer-trace.json"
        trace = json.loads(download.value.path().read_text(encoding="utf-8"))
        assert trace["digest"] == lab.play(trace["document"]).digest
    with opened(browser, (tmp_path / "changed.html").as_uri()) as page:
        offline(page)
        expect(page.get_by_role("region", name="Your changes")).to_be_visible()
        expect(page.locator(".end")).to_have_text(ended)
        page.get_by_role("button", name="Start over").click()
        expect(page.locator(".story h2")).to_be_visible()
        expect(page.locator(".end")).to_contain_text("Alice is written")


def test_a_link_plays_the_same_elsewhere(browser: Browser, url: str, program: Program) -> None:
    with opened(browser, url) as page:
        shown(page)
        page.get_by_role("button", name="no guard").click()
        expect(page.locator(".end")).to_contain_text("Alice is written")
        page.get_by_role("slider").press("ArrowRight")
        page.get_by_role("button", name="B ❄ freeze").click()
        expect(page.get_by_role("region", name="Your changes")).to_be_visible()
        compare(page).select_option("fence: guard")
        expect(page.locator(".second")).to_be_visible()
        events = page.get_by_role("region", name="Events").inner_text()
        page.get_by_role("button", name="Share").click()
        link = clipboard(page, "Copy link")
        assert link.startswith(f"{url}#")
        page.goto("about:blank")
    process = program.start("lab", link, "--no-browser", "--json")
    assert process.stdout is not None
    other = str(json.loads(process.stdout.readline())["url"])
    assert other.partition("#")[2] == link.partition("#")[2]
    assert other != link
    with opened(browser, other) as page:
        shown(page)
        expect(page.get_by_role("region", name="Your changes")).to_be_visible()
        assert page.get_by_role("region", name="Events").inner_text() == events
        expect(page.get_by_role("button", name="no guard")).to_have_attribute(
            "aria-pressed", "true"
        )
        expect(page.get_by_role("slider")).to_have_attribute("aria-valuenow", "0.539")
        expect(compare(page)).to_have_value("fence: guard")
        assert page.locator(".notice").count() == 0
    process.send_signal(signal.SIGTERM)
    assert end(process).stderr == ""


def test_a_link_carries_a_document_of_ones_own(
    browser: Browser, url: str, program: Program, tmp_path: Path
) -> None:
    document = lab.scenario("ghost-writer") | {"title": "Ünser ☃ 😀"}
    (tmp_path / "mine.json").write_text(json.dumps(document), encoding="utf-8")
    process = program.start("lab", str(tmp_path / "mine.json"), "--no-browser", "--json")
    assert process.stdout is not None
    with opened(browser, json.loads(process.stdout.readline())["url"]) as page:
        shown(page)
        page.get_by_role("button", name="Share").click()
        link = clipboard(page, "Copy link")
    process.send_signal(signal.SIGTERM)
    assert end(process).stderr == ""
    said = base64.urlsafe_b64decode(link.partition("#")[2] + "==")
    assert json.loads(said)["name"] == "mine.json", "a link tells of folders"
    with opened(browser, f"{url}#{link.partition('#')[2]}") as page:
        shown(page)
        expect(page.get_by_role("heading", level=1)).to_contain_text("Ünser ☃ 😀")
        assert page.locator(".notice").count() == 0
        page.get_by_role("combobox", name="Scenario").select_option("taking-turns")
        expect(page.get_by_role("heading", level=1)).to_contain_text("Taking turns")
        page.get_by_role("combobox", name="Scenario").select_option("mine.json")
        expect(page.get_by_role("heading", level=1)).to_contain_text("Ünser")


def packed(**fields: object) -> str:
    link = {"v": 1, "name": "ghost-writer", "choices": {}, "edits": {}, "beside": "", "at": 0}
    text = json.dumps(link | {"digest": "0" * 16, "version": "0.0.9"} | fields)
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


@pytest.mark.parametrize(
    ("fragment", "words"),
    [
        (packed(), "made with version 0.0.9, and here is"),
        (packed()[:-9], "This link is broken"),
        ("%", "This link is broken"),
        ("%ff", "This link is broken"),
        ("nowhere", "This link is broken"),
        (packed(choices=[]), "This link is broken"),
        (packed(at="soon"), "This link is broken"),
        (packed(v=2), "of version 2 of links"),
        (packed(name="the-past"), "about the scenario the-past, which is not here"),
        (packed(name="</p><b>x"), "about the scenario </p><b>x, which is not here"),
    ],
)
def test_what_is_wrong_with_a_link_is_said_in_words(
    browser: Browser, tmp_path: Path, fragment: str, words: str
) -> None:
    with opened(browser, f"{exported(tmp_path).as_uri()}#{fragment}") as page:
        shown(page)
        expect(page.locator(".notice")).to_contain_text(words)
        expect(page.get_by_role("heading", level=1)).to_contain_text("The ghost writer")
        page.get_by_role("button", name="Close this notice").click()
        expect(page.locator(".notice")).to_have_count(0)


def test_a_link_that_cannot_be_played_says_why(browser: Browser, url: str) -> None:
    fragment = packed(edits={"faults": [{"kind": "pause", "whom": "Z", "at": 1}]})
    with opened(browser, f"{url}#{fragment}", expected="422") as page:
        expect(page.get_by_role("alert")).to_contain_text("there is no 'Z'")
    with opened(browser, url) as page:
        shown(page)
        page.evaluate(f"location.hash = {packed(choices={'fence': 'no guard'})!r}")
        expect(page.locator(".end")).to_contain_text("Alice is written")


def test_the_copied_test_passes_and_notices_another_outcome(
    browser: Browser, url: str, tmp_path: Path
) -> None:
    copies: list[str] = []
    with opened(browser, url) as page:
        shown(page)
        page.get_by_role("button", name="no guard").click()
        expect(page.locator(".end")).to_contain_text("Alice is written")
        page.get_by_role("button", name="Share").click()
        copies.append(clipboard(page, "Copy as pytest"))
        page.get_by_role("button", name="B ❄ freeze").click()
        expect(page.get_by_role("region", name="Your changes")).to_be_visible()
        copies.append(clipboard(page, "Copy as pytest"))
    assert 'lab.load("ghost-writer", **{"fence": "no guard"})' in copies[0]
    assert len(copies[0].splitlines()) < 20
    assert copies[0] != copies[1]
    assert copies[1].count('"pause"') == 2
    for number, text in enumerate(copies):
        path = tmp_path / f"test_copied_{number}.py"
        for written, code in ((text, 0), (text.replace('"register": "', '"register": "not '), 1)):
            path.write_text(written, encoding="utf-8")
            command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(path)]
            ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
            assert ran.returncode == code, ran.stdout


def test_two_plays_are_compared_by_the_keyboard(browser: Browser, url: str) -> None:
    with opened(browser, url) as page:
        shown(page)
        compare(page).focus()
        page.keyboard.press("ArrowDown")
        expect(compare(page)).to_have_value("fence: no guard")
        both = page.get_by_role("region", name="Side by side")
        expect(both).to_contain_text("They part at 9.006 s")
        expect(page.locator(".chart .fork")).to_have_count(3)  # in both, and in the words
        rows = {
            row.locator("th").inner_text(): row.locator("td").all_inner_texts()
            for row in both.locator("tbody tr").all()
        }
        assert rows["written in the end"] == ["Bob", "Alice"]
        assert rows["writes refused"] == ["1", "0"]
        assert rows["no acknowledged update is lost"] == ["held", "held until 9.02 s"]
        both.get_by_role("button", name="9.006 s").press("Enter")
        expect(page.get_by_role("slider")).to_have_attribute("aria-valuenow", "9.006")
        heads = page.locator(".chart .playhead line")
        expect(heads).to_have_count(2)
        assert len({head.get_attribute("x1") for head in heads.all()}) == 1, "two playheads"
        page.get_by_role("slider").press("End")
        lost = both.locator("tr", has_text="no acknowledged update is lost").locator("td")
        expect(lost.nth(1)).to_have_text("broken at 9.02 s")
        expect(lost.nth(1)).to_have_class("red")
        page.get_by_role("button", name="no guard").press("Enter")
        expect(compare(page)).to_have_value("fence: guard")  # they change places
        expect(both.locator("thead th").first).to_have_text("fence: no guard")
        compare(page).select_option("")
        expect(both).to_have_count(0)
        expect(page.locator(".second")).to_have_count(0)


def test_an_edit_is_made_in_both(browser: Browser, url: str) -> None:
    with opened(browser, url) as page:
        shown(page)
        compare(page).select_option("clients: textbook")
        expect(page.locator(".second .bar.frozen")).to_have_count(1)
        page.get_by_role("button", name="B ❄ freeze").click()
        expect(page.locator(".second .bar.frozen")).to_have_count(2)
        expect(page.locator(".names.twin")).to_contain_text("textbook")
        compare(page).select_option("engine: redlock")
        expect(page.locator(".names.twin")).to_contain_text("redis-5")
        compare(page).select_option("engine: zookeeper")
        expect(page.locator(".names.twin")).to_contain_text("zookeeper-3")
        expect(page.locator(".second .bar.frozen")).to_have_count(2)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_what_is_compared_is_drawn_for_everybody(
    browser: Browser, tmp_path: Path, scheme: Scheme
) -> None:
    with opened(browser, exported(tmp_path).as_uri(), scheme=scheme) as page:
        offline(page)
        found = [one["words"] for one in variants(lab.load("ghost-writer"))]
        for words in ["fence: no guard", *found]:
            compare(page).select_option(words)
            expect(page.locator(".head.other")).to_contain_text(words)
            page.get_by_role("slider").press("End")
            for width in (1280, 390):
                page.set_viewport_size({"width": width, "height": 800})
                assert violations(page) == ""
                assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_riddle_is_not_solved_by_comparing(browser: Browser, tmp_path: Path) -> None:
    with opened(browser, exported(tmp_path, "find-the-bug").as_uri()) as page:
        shown(page)
        assert compare(page).count() == 0


def test_a_variant_is_the_same_document_with_one_thing_otherwise() -> None:
    document = lab.load("ghost-writer")
    kept = {name: one for name, one in document.items() if name not in ("steps", "expect")}
    textbook = varied(document, {"clients": "textbook"})
    assert {one["client"] for one in textbook["actors"].values()} == {"textbook"}
    assert textbook["resource"]["guard"] is False, "without a fence there is nothing to compare"
    assert textbook["faults"] == document["faults"]
    assert varied(textbook, {"clients": "fencelock"}) == kept
    broken = lab.play(textbook).outcome["broken"]
    assert broken == ["one_holder", "no_lost_update"]
    for unknown in ({"clients": "none"}, {"engine": "none"}, {"seed": "2"}):
        with pytest.raises(UsageError, match="to be compared with"):
            varied(document, unknown)


def test_faults_of_servers_go_over_to_the_servers_of_another_engine() -> None:
    document = lab.load("ghost-writer") | {
        "faults": [
            {"kind": "freeze", "whom": "redis", "at": 1, "for": 1},
            {"kind": "cut", "from": "A", "to": "redis", "at": 3, "for": 1},
            {"kind": "cut", "from": ["A", "redis"], "to": "seats", "at": 5, "for": 1},
        ]
    }
    several = varied(document, {"engine": "redlock"})
    servers = [f"redis-{number}" for number in range(1, 6)]
    assert several["faults"] == [
        {"kind": "freeze", "whom": "redis-1", "at": 1, "for": 1},
        {"kind": "cut", "from": "A", "to": servers, "at": 3, "for": 1},
        {"kind": "cut", "from": ["A", *servers], "to": "seats", "at": 5, "for": 1},
    ]
    assert varied(several, {"engine": "redis"})["faults"] == document["faults"]
    few = varied(
        several | {"faults": [{**several["faults"][0], "whom": "redis-4"}]}, {"engine": "redis"}
    )
    assert few["faults"] == []
    ensemble = varied(document, {"engine": "zookeeper"})
    assert ensemble["engine"] == {"kind": "zookeeper", "session": 5}, "as long as the ttl"
    (words,) = [
        one["words"]
        for one in variants(lab.load("redlock-clock-jump"))
        if one["variant"] == {"engine": "redis"}
    ]
    assert words == "engine: redis, without 2 of its faults"


def test_what_cannot_be_exported_is_said_in_words(program: Program, tmp_path: Path) -> None:
    document = lab.scenario("ghost-writer")
    many: dict[str, Any] = {f"s{number}": {"a": {}, "b": {}} for number in range(7)}
    with pytest.raises(UsageError, match="128 combinations are too many for one file: 64"):
        lab.export(document | {"switches": many, "expect": {}}, tmp_path / "many.html")
    with pytest.raises(UsageError, match="there is no choice 'x'"):
        lab.export(document, tmp_path / "x.html", fence="x")
    assert list(tmp_path.glob("*.html")) == []
    for words, code, why in (
        (("export",), 125, "export needs a scenario"),
        (("export", "nowhere"), 78, "'nowhere' is neither a file nor a scenario"),
        (("export", "ghost-writer", "--set", "fence=x"), 78, "there is no choice 'x'"),
        (("export", "ghost-writer", "-o", "no/where.html"), 78, "no/where.html cannot be written"),
        (("play", "ghost-writer", "-o", "x.html"), 125, "-o is for export"),
        (("export", "ghost-writer", "--port", "1"), 125, "--port and --no-browser are for"),
    ):
        ran = program.run("lab", *words)
        assert (ran.returncode, ran.stdout) == (code, ""), ran
        assert why in ran.stderr
        assert ran.stderr.count("\n") == 1
    ran = program.run("lab", "export", "ghost-writer", "--set", "fence=no guard", "--json")
    assert ran.returncode == 0, ran
    told = json.loads(ran.stdout)
    page = (tmp_path / "ghost-writer.html").read_text(encoding="utf-8")
    assert told["bytes"] == len(page.encode())
    assert cast("Any", held(page))["choices"] == {"fence": "no guard"}


def test_a_file_of_ones_own_is_exported_without_its_folders(
    browser: Browser, program: Program, tmp_path: Path
) -> None:
    (tmp_path / "my#own.json").write_text(json.dumps(lab.scenario("server-dies") | {"seed": 2}))
    ran = program.run("lab", "export", str(tmp_path / "my#own.json"))
    assert (ran.returncode, ran.stderr) == (0, "")
    page = (tmp_path / "my#own.html").read_text(encoding="utf-8")
    data = cast("Any", held(page))
    assert (data["name"], data["own"], data["document"]["seed"]) == ("my#own.json", True, 2)
    process = program.start("lab", "my#own.json", "--no-browser", "--json")
    assert process.stdout is not None
    assert "#" not in json.loads(process.stdout.readline())["url"], "a file is no link"
    process.send_signal(signal.SIGTERM)
    assert end(process).stderr == ""


def test_a_damaged_file_says_so(browser: Browser, tmp_path: Path) -> None:
    path = exported(tmp_path)
    text = path.read_text(encoding="utf-8")
    start = text.index('id="recorded">') + 2000
    path.write_text(text[:start] + text[start + 4000 :], encoding="utf-8")
    with opened(browser, path.as_uri()) as page:
        expect(page.get_by_role("alert")).to_contain_text("cannot be read: it is damaged")


def test_a_browser_that_keeps_nothing_shows_it_as_well(browser: Browser, tmp_path: Path) -> None:
    with opened(browser, exported(tmp_path).as_uri()) as page:
        page.add_init_script(
            "Object.defineProperty(window, 'localStorage', { get() { throw new Error('no'); } })"
        )
        page.reload()
        shown(page)
        page.get_by_role("button", name="Colors: auto").click()
        expect(page.locator("html")).to_have_attribute("data-theme", "light")


def test_a_file_that_would_be_too_large_has_no_variants_or_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    document = lab.scenario("ghost-writer")
    whole = recorded_page(document, name="ghost-writer")
    monkeypatch.setattr("fencelock.lab.recorded.SIZE_MAX", len(whole.encode()) - 1)
    less = cast("Any", held(recorded_page(document, name="ghost-writer")))
    assert [one["variant"] for one in less["plays"]] == [{}, {}]
    assert [one["trace"]["variants"] for one in less["plays"]] == [[], []]
    monkeypatch.setattr("fencelock.lab.recorded.SIZE_MAX", 1000)
    with pytest.raises(UsageError, match="one file would have"):
        recorded_page(document, name="ghost-writer")
