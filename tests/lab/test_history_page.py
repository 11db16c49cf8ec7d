"""Pages of histories in a real browser, opened as files: tortures, and a failing seed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from fencelock import __version__
from fencelock.judge import Promises, verdict
from fencelock.lab.histories import CLIENTS_MAX, Report, page_of, parts
from tests.cli.program import Program
from tests.cli.stealing import stealing
from tests.judge.telling import acquire, history
from tests.lab.test_histories import turns
from tests.service.browsers import Scheme, opened, started
from tests.sim.flaws import planted
from tests.sim.runs import Broken, examine


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with started() as browser:
        yield browser


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Program]:
    program = Program(tmp_path)
    yield program
    assert program.close() == [], "processes were left behind"


@pytest.fixture(scope="module")
def stolen(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The page of a torture of an engine that steals."""
    program = Program(tmp_path_factory.mktemp("stolen"))
    words = ("--seconds", "6", "--ttl", "2s", "--clients", "4", "--faults", "pause")
    ran = program.run("torture", stealing(program), *words, "--html", "page.html")
    assert ran.returncode == 80, ran.stderr
    assert program.close() == []
    return (program.folder / "page.html").as_uri()


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The page of many clients and turns; in the end a lock is given away that is held."""
    names = [f"client {number + 1}" for number in range(30)]
    told = turns(300, names)
    fence = max(event.fence for event in told)
    thief = acquire("thief", fence + 5, told.ends_at - 0.4, told.ends_at - 0.3)
    whole = history(told, thief)
    rulings = verdict(whole, Promises(ttl=2.0, slack=0.01)).rulings
    page = tmp_path_factory.mktemp("long") / "page.html"
    page.write_text(page_of(parts(Report(whole, rulings, "Long"))), encoding="utf-8")
    return page.as_uri()


def shown(page: Page) -> None:
    expect(page.locator(".chart svg .bar").first).to_be_visible()


def facts(page: Page) -> dict[str, str]:
    pairs = page.locator(".facts div").all()
    return {one.locator("dt").inner_text(): one.locator("dd").inner_text() for one in pairs}


def moment(page: Page) -> float:
    slider = page.get_by_role("slider", name="Moment")
    return float(slider.get_attribute("aria-valuenow") or "nan")


def test_a_torture_that_held_says_so_in_one_line_below_the_picture(
    browser: Browser, program: Program
) -> None:
    words = ("--seconds", "3", "--ttl", "500ms", "--clients", "3", "--seed", "4")
    assert program.run("torture", *words, "--html", "page.html").returncode == 0
    with opened(browser, (program.folder / "page.html").as_uri()) as page:
        shown(page)
        expect(page).to_have_title("Torture of fencelock, a mutex · Fencelock lab")
        told = facts(page)
        assert told["engine"].endswith("locks.db")
        assert told["seed"] == "4"
        assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC", told["date"])
        assert f"fencelock {__version__}, Python 3" in told["versions"]
        assert told["command"].startswith("fencelock torture sqlite:///")
        assert "--seconds 3 " in told["command"]
        expect(page.locator(".conclusion")).to_have_text("every promise that was judged held")
        assert page.locator(".lights").count() == 0
        (held, *_) = page.locator(".ruled").all()
        assert held.inner_text().startswith("Held: never two holders · ")
        chart, judge = page.locator(".chart").bounding_box(), held.bounding_box()
        assert chart is not None
        assert judge is not None
        assert chart["y"] < judge["y"]
        for editing in ("Share", "Freeze", "freeze", "Next step", "faults"):
            assert page.get_by_role("button", name=editing).count() == 0


def test_a_light_goes_to_what_was_broken(browser: Browser, stolen: str) -> None:
    with opened(browser, stolen) as page:
        shown(page)
        expect(page.locator(".conclusion")).to_have_text("a promise was broken")
        light = page.locator(".brief li", has_text="never two holders: broken at")
        at = float((light.inner_text().split(" at ")[1]).removesuffix(" s"))
        page.keyboard.press("Home")
        assert moment(page) < at
        light.get_by_role("button").click()
        expect(page.locator(".chart .broken").first).to_be_visible()
        page.wait_for_function(
            "at => Math.abs(document.querySelector('.scrubber').getAttribute('aria-valuenow') - at)"
            " < 0.01",
            arg=at,
        )
        acting = page.locator(".stage .client dd", has_text=re.compile("holds|believes wrongly"))
        assert acting.count() >= 2, "two act on the lock at that moment"
        for one in page.locator(".verdict .lights ol button").all():
            at = float(one.inner_text().split(" s:")[0])
            one.click()
            page.wait_for_function(
                "at => Math.abs(document.querySelector('.scrubber').getAttribute('aria-valuenow')"
                " - at) < 0.01",
                arg=at,
            )


def test_parts_of_a_long_history_are_moved_through(browser: Browser, long: str) -> None:
    with opened(browser, long) as page:
        shown(page)
        picker = page.get_by_label("Part 1 of")
        expect(picker).to_have_value("part-1")
        assert "never two holders" in picker.inner_text()
        assert page.get_by_role("button", name="Previous part").is_disabled()
        count = page.locator(".stretch option").count()
        assert count > 20
        seen: list[tuple[float, float]] = []
        for number in range(2, 7):
            page.get_by_role("button", name="Next part").click()
            expect(page.locator(".stretch select")).to_have_value(f"part-{number}")
            assert page.locator(".names .ink").count() <= CLIENTS_MAX
            slider = page.get_by_role("slider", name="Moment")
            seen.append(
                (
                    float(slider.get_attribute("aria-valuemin") or "nan"),
                    float(slider.get_attribute("aria-valuemax") or "nan"),
                )
            )
            page.keyboard.press("Home")
            assert moment(page) == pytest.approx(seen[-1][0], abs=0.001)
            page.keyboard.press("End")
            assert moment(page) == pytest.approx(seen[-1][1], abs=0.001)
        assert all(one[1] == other[0] for one, other in pairwise(seen))
        page.locator(".stretch select").select_option(index=count - 1)
        expect(page.get_by_label(f"Part {count} of {count}")).to_be_visible()
        page.locator(".stretch select").select_option(index=3)
        page.locator(".brief button").first.click()
        expect(page.locator(".stretch select")).to_have_value("part-1")
        assert page.url.endswith("#part-1")


def test_a_failing_seed_opens_with_its_servers_and_messages(browser: Browser) -> None:
    with planted("release_without_owner"), pytest.raises(Broken) as caught:
        for seed in range(20):
            examine("redis", "pauses", seed)
    lines = dict(line.split(": ", 1) for line in str(caught.value).splitlines())
    path = Path(lines["page"])
    try:
        with opened(browser, path.as_uri()) as page:
            shown(page)
            assert facts(page)["command"] == lines["replay"]
            assert facts(page)["engine"] == "redis, simulated"
            expect(page.locator(".stage .server")).to_contain_text("lock")
            assert page.locator(".bar.keeps").count() > 0
            assert page.locator(".message").count() > 10
            assert page.locator(".brief .red").count() > 0
            page.get_by_role("button", name="Messages").click()
            expect(page.locator(".messages")).to_contain_text("acquire")
            assert violations(page) == ""
    finally:
        path.unlink()


def violations(page: Page) -> str:
    results = Axe().run(page)
    return "" if not results.violations_count else str(results.generate_report())


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_a_page_of_a_history_is_accessible_and_fits(
    browser: Browser, stolen: str, long: str, scheme: Scheme, width: int
) -> None:
    for url in (stolen, long):
        with opened(browser, url, scheme=scheme) as page:
            page.set_viewport_size({"width": width, "height": 900})
            shown(page)
            assert violations(page) == ""
            wide = page.evaluate("document.documentElement.scrollWidth")
            assert wide <= width, "nothing stands beside the page"
