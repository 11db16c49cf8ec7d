"""On the page of the lab: scripts that are written there, riddles, votes, and true fences."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, Page, expect

from fencelock import lab
from tests.lab.test_page import shown, violations
from tests.service.browsers import NO_ANSWER, Scheme, opened


@contextmanager
def turned(browser: Browser, url: str, expected: str = "") -> Iterator[Page]:
    with opened(browser, f"{url}#your-turn", expected=expected) as page:
        expect(page.get_by_role("heading", level=1)).to_contain_text("Your turn")
        yield page


def move(page: Page, moment: float) -> None:
    """Click at a moment of the picture."""
    picture = page.locator(".chart svg").first
    box = picture.bounding_box()
    assert box is not None
    picture.click(position={"x": 2 + moment / 20 * (box["width"] - 16), "y": 8})


def press(page: Page, actor: str, button: str) -> None:
    turns = page.get_by_role("group", name=f"{actor} at the playhead")
    turns.get_by_role("button", name=button).press("Enter")


def script(page: Page, actor: str) -> list[str]:
    return page.get_by_label(f"Script of {actor}").input_value().split("\n")


def test_the_buttons_write_the_scripts_of_a_ghost_writer(browser: Browser, url: str) -> None:
    with turned(browser, url, expected=NO_ANSWER) as page:
        end = page.locator(".end")
        expect(end).to_contain_text("nothing is written, 0 writes taken")
        turns = page.get_by_role("group", name="A at the playhead")
        expect(turns.get_by_role("button", name="Write")).to_be_disabled()
        move(page, 1)
        press(page, "A", "Acquire")
        expect(page.locator(".drawing .bar.holds")).to_have_count(1)
        move(page, 2)
        press(page, "A", "Freeze")
        expect(page.locator(".chip")).to_have_count(1)
        press(page, "A", "Write")
        expect(end).to_contain_text("A1 is written")
        move(page, 3)
        press(page, "B", "Acquire")
        expect(page.locator(".drawing .bar.holds")).to_have_count(2)
        move(page, 8)
        press(page, "B", "Write")
        expect(end).to_contain_text("B1 is written, 1 write taken, 1 refused")
        press(page, "B", "Release")
        expect(page.get_by_role("region", name="Events")).to_contain_text("releases it")
        lines = [re.sub(r"\.\d+", "", line) for line in script(page, "B")]
        assert lines[1:3] == ["acquire seat ttl 5", "read"]
        assert lines[4::2] == ["write B1", "release"]
        move(page, 2.5)
        press(page, "B", "Write")
        expect(page.get_by_role("alert")).to_contain_text(
            "actors.B.script line 2: the resource is guarded, and there is no fence"
        )
        expect(end).to_contain_text("B1 is written, 1 write taken, 1 refused")
        page.get_by_role("button", name="no guard").click()
        expect(end).to_contain_text("A1 is written, 2 writes taken, 0 refused")
        expect(page.locator(".lights")).to_contain_text("update is lost: held until")


def test_a_script_is_edited_and_what_is_wrong_is_said_with_its_line(
    browser: Browser, url: str
) -> None:
    with turned(browser, url, expected=NO_ANSWER) as page:
        box = page.get_by_label("Script of A")
        form = page.locator("form.script", has=box)
        box.focus()
        page.keyboard.type("at 1\nacquire seat ttl 5\nwrite Ann")
        form.get_by_role("button", name="Apply").press("Enter")
        end = page.locator(".end")
        expect(end).to_contain_text("Ann is written")
        box.fill("at 1\nacquire seat ttl 5\nwrote Ann")
        form.get_by_role("button", name="Apply").click()
        expect(form.locator(".wrong")).to_contain_text("Line 3: 'wrote Ann' is not a statement")
        expect(box).to_have_attribute("aria-invalid", "true")
        expect(end).to_contain_text("Ann is written")
        assert script(page, "A")[-1] == "wrote Ann"
        form.get_by_role("button", name="As it was").click()
        assert script(page, "A")[-1] == "write Ann"
        box.fill("")
        form.get_by_role("button", name="Apply").click()
        expect(end).to_contain_text("nothing is written")


def test_a_riddle_names_nothing_until_it_is_guessed(browser: Browser, url: str) -> None:
    raw = lab.scenario("find-the-bug")
    answers, posed = raw["quiz"]["answers"], list(raw["switches"]["mistake"])
    with opened(browser, f"{url}#find-the-bug") as page:
        shown(page)
        riddle = page.get_by_role("region", name="Find the bug")
        for number, choice in enumerate(posed, 1):
            expect(riddle.get_by_role("heading")).to_contain_text(f"Riddle {number} of 9")
            text = page.locator("main").inner_text()
            assert not [one for one in ("textbook", "local", "nx px", "watchdog") if one in text]
            assert page.get_by_role("group", name="mistake").count() == 0
            expect(riddle.get_by_role("button", name="Guess")).to_be_disabled()
            wrong = next(one for one in answers if one != choice)
            riddle.get_by_role("radio", name=answers[wrong]["say"]).press("Space")
            riddle.get_by_role("button", name="Guess").press("Enter")
            expect(riddle).to_contain_text("It is not that one")
            assert riddle.locator(".told").count() == 0
            riddle.get_by_role("radio", name=answers[choice]["say"]).press("Space")
            riddle.get_by_role("button", name="Guess").press("Enter")
            expect(riddle).to_contain_text("Right.")
            expect(riddle.locator(".told")).to_contain_text(answers[choice]["because"])
            broken = raw["expect"][choice]["broken"]
            expect(riddle.locator(".told button")).to_have_count(len(broken))
            if broken:
                riddle.locator(".told button").first.click()
                expect(page.locator(".lights .red").first).to_be_visible()
            riddle.get_by_role("button", name="Next riddle").press("Enter")
        expect(riddle.get_by_role("heading")).to_contain_text("Riddle 1 of 9")
        riddle.get_by_role("combobox", name="Number").select_option(label="5")
        expect(riddle.get_by_role("heading")).to_contain_text("Riddle 5 of 9")
        page.get_by_role("button", name="A ❄ freeze").click()
        riddle.get_by_role("button", name="Tell me").click()
        expect(riddle.locator(".told")).to_contain_text("you have changed it")
        riddle.get_by_role("button", name="Next riddle").click()
        expect(riddle.get_by_role("heading")).to_contain_text("Riddle 6 of 9")
        assert page.get_by_role("region", name="Your changes").count() == 0


def test_votes_and_validity_are_those_of_the_trace(browser: Browser, url: str) -> None:
    states = lab.play(lab.load("redlock-majority")).data["states"]
    with opened(browser, f"{url}#redlock-majority") as page:
        shown(page)
        card = page.locator(".stage .client").first
        expect(card).to_contain_text("0 of 3 votes")
        granted = page.get_by_role("region", name="Events").get_by_role("button", name="holds")
        granted.first.click()
        expect(card).to_contain_text("3 of 3 votes")
        expect(card.locator(".pips .vote")).to_have_count(3)
        now = float(page.get_by_role("slider").get_attribute("aria-valuenow") or 0)
        (until,) = {one["valid_until"] for at, one in states["A"] if at <= now and one["votes"]} - {
            None
        }
        expect(card).to_contain_text(f"valid for {until - now:.1f} s")
        assert page.get_by_role("note").count() == 0
        page.get_by_role("button", name="slow", exact=True).click()
        form = page.get_by_role("form")
        for by, warned in (("2", 0), ("3", 1)):  # there and back, of a ttl of 10 s
            form.get_by_role("textbox", name="later by").fill(by)
            form.get_by_role("button", name=re.compile("Add|Apply")).click()
            expect(page.locator(".chip").last).to_contain_text(f"+{by} s")
            expect(page.get_by_role("note")).to_have_count(warned)
        page.get_by_role("combobox", name="Scenario").select_option("redlock-slow-server")
        expect(page.get_by_role("note")).to_contain_text("Unsafe parameters. A ttl of 0.4 s")
        page.get_by_role("button", name="quick").click()
        expect(page.get_by_role("note")).to_have_count(0)


def test_the_true_fence_is_one_click_away(browser: Browser, url: str) -> None:
    trace = lab.play(lab.load("ghost-writer")).data
    first, second = sorted(trace["fences"])
    with opened(browser, url) as page:
        shown(page)
        page.get_by_role("button", name="Next step").click()
        card = page.locator(".stage .client").first
        expect(card).to_contain_text("holds, fence 33")
        card.get_by_role("button", name="fence 33, show the true number").press("Enter")
        expect(card).to_contain_text(f"holds, fence {first}")
        expect(page.locator(".story p")).to_have_text(f"A holds the lock, fence {first}.")
        events = page.get_by_role("region", name="Events")
        expect(events).to_contain_text(f"refused, fence {first} is below {second}")
        page.get_by_role("checkbox", name="true fences").uncheck()
        expect(events).to_contain_text("refused, fence 33 is below 34")


def test_messages_are_a_list_as_well(browser: Browser, url: str) -> None:
    sent = lab.play(lab.load("ghost-writer")).data["messages"]
    with opened(browser, url) as page:
        shown(page)
        events = page.get_by_role("region", name="Events")
        events.get_by_role("button", name="Messages", exact=True).click()
        expect(events.get_by_role("listitem")).to_have_count(len(sent))
        last = events.get_by_role("listitem").last.get_by_role("button")
        last.click()
        expect(last).to_have_attribute("aria-current", "true")
        expect(page.get_by_role("slider")).to_have_attribute(
            "aria-valuenow", f"{round(sent[-1]['sent'], 3):g}"
        )


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_that_can_be_opened_is_for_everybody(
    browser: Browser, url: str, scheme: Scheme
) -> None:
    with opened(browser, url, scheme=scheme) as page:
        for name in ("your-turn", "find-the-bug", "redlock-slow-server"):
            page.get_by_role("combobox", name="Scenario").select_option(name)
            expect(page.get_by_role("heading", level=1)).to_contain_text(
                lab.scenario(name)["title"]
            )
            page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
            page.get_by_role("button", name="cut", exact=True).click()
            page.get_by_role("button", name="Add").click()
            expect(page.get_by_role("form", name="Fault: cut")).to_be_visible()
            page.get_by_role("button", name="Messages", exact=True).click()
            if name == "find-the-bug":
                page.get_by_role("button", name="Tell me").click()
            assert violations(page) == ""
            page.set_viewport_size({"width": 390, "height": 800})
            assert violations(page) == ""
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), name
            page.set_viewport_size({"width": 1280, "height": 800})
            page.get_by_role("button", name="Events", exact=True).click()


def test_changes_that_overtake_each_other_are_all_kept(browser: Browser, url: str) -> None:
    with turned(browser, url) as page:
        page.evaluate("document.querySelectorAll('.turns button').forEach(one => one.click())")
        for actor in ("A", "B"):
            expect(page.get_by_label(f"Script of {actor}")).to_have_value(
                re.compile("^at 0\nacquire seat ttl 5\nread$")
            )
        expect(page.locator(".chip")).to_have_count(2)
        for left in (1, 1, 0):
            page.get_by_role("button", name="Take back").click()
            expect(page.locator(".chip")).to_have_count(left)
        assert script(page, "A") != [""]
        page.get_by_role("button", name="Take back").click()
        expect(page.get_by_label("Script of A")).to_have_value("")
        expect(page.get_by_role("region", name="Your changes")).to_have_count(0)
