"""Faults on the page of the lab: chips, the palette, its form, and clocks to turn."""

from __future__ import annotations

from playwright.sync_api import Browser, Locator, Page, expect

from fencelock.lab.palette import palette
from tests.lab.test_page import shown
from tests.service.browsers import NO_ANSWER, opened

FROZEN = "pause A, 1 s to 9 s"


def chips(page: Page) -> list[str]:
    found = page.locator(".chip").all()
    return [one.get_attribute("aria-label") or "" for one in found]


def chip(page: Page, said: str) -> Locator:
    return page.get_by_role("button", name=said, exact=True)


def pull(page: Page, node: Locator, x: float, by: float) -> None:
    """Drag from a place in a node, counted from its right edge if it is negative."""
    box = node.bounding_box()
    assert box is not None
    begin = box["x"] + (x if x >= 0 else box["width"] + x)
    y = box["y"] + box["height"] / 2
    page.mouse.move(begin, y)
    page.mouse.down()
    page.mouse.move(begin + by, y, steps=6)
    page.mouse.up()


def scrub(page: Page, moment: float) -> None:
    """Move the playhead by the keyboard, to an event at that moment."""
    slider = page.get_by_role("slider", name="Moment")
    page.keyboard.press("Home")
    for _ in range(60):
        if float(slider.get_attribute("aria-valuenow") or 0) >= moment:
            return
        page.keyboard.press("ArrowRight")
    raise AssertionError(f"there is nothing at {moment}")


def test_a_chip_is_dragged_and_stretched_and_its_play_follows(browser: Browser, url: str) -> None:
    with opened(browser, url) as page:
        shown(page)
        expect(chip(page, FROZEN)).to_be_visible()
        assert chips(page) == [FROZEN]
        second = page.locator(".chart svg").first.bounding_box()
        assert second is not None
        wide = (second["width"] - 16) / 14
        pull(page, chip(page, FROZEN), 40, 4 * wide)
        moved = "pause A, 5 s to 13 s"
        expect(chip(page, moved)).to_be_visible()
        expect(page.locator(".end")).to_contain_text("2 writes taken, 0 refused")
        pull(page, chip(page, moved), -5, -6 * wide)
        expect(chip(page, "pause A, 5 s to 7 s")).to_be_visible()
        page.get_by_role("button", name="Take back").click()
        expect(chip(page, moved)).to_be_visible()
        page.get_by_role("button", name="Take back").click()
        expect(chip(page, FROZEN)).to_be_visible()
        expect(page.locator(".story h2")).to_be_visible()
        expect(page.locator(".end")).to_contain_text("1 write taken, 1 refused")


def test_the_keyboard_moves_stretches_edits_and_deletes_a_chip(browser: Browser, url: str) -> None:
    with opened(browser, url) as page:
        shown(page)
        for _ in range(30):
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.matches('.chip')"):
                break
        page.keyboard.press("ArrowRight")
        expect(chip(page, "pause A, 1.1 s to 9.1 s")).to_be_focused()
        page.keyboard.press("Control+ArrowLeft")
        expect(chip(page, "pause A, 0.1 s to 8.1 s")).to_be_focused()
        page.keyboard.press("Shift+ArrowLeft")
        expect(chip(page, "pause A, 0.1 s to 8 s")).to_be_focused()
        page.keyboard.press("Enter")
        form = page.locator("form.fault")
        expect(form.get_by_role("textbox", name="at")).to_be_focused()
        page.keyboard.press("Escape")
        expect(chip(page, "pause A, 0.1 s to 8 s")).to_be_focused()
        page.keyboard.press("Enter")
        expect(form.get_by_role("textbox", name="at")).to_be_focused()
        page.keyboard.press("Control+A")
        page.keyboard.type("1.0")
        page.keyboard.press("Enter")
        expect(chip(page, "pause A, 1 s to 8.9 s")).to_be_visible()
        form.get_by_role("combobox", name="kind").select_option("crash")
        form.get_by_role("combobox", name="whom").select_option("B")
        form.get_by_role("button", name="Apply").press("Enter")
        expect(chip(page, "crash B, at 1 s")).to_be_visible()
        expect(page.get_by_role("region", name="Events")).to_contain_text("is killed")
        chip(page, "crash B, at 1 s").press("Delete")
        expect(page.locator(".chip")).to_have_count(0)
        expect(page.get_by_role("slider")).to_be_focused()
        assert form.count() == 0
        page.get_by_role("button", name="Start over").click()
        expect(chip(page, FROZEN)).to_be_visible()


def test_every_kind_is_added_at_the_playhead_by_the_form(browser: Browser, url: str) -> None:
    with opened(browser, f"{url}#redlock-majority") as page:
        shown(page)
        scrub(page, 0.5)
        count = len(chips(page))
        offered = page.get_by_role("group", name="Let something go wrong")
        for one in palette():
            offered.get_by_role("button", name=one["kind"], exact=True).click()
            form = page.get_by_role("form", name="A new fault")
            form.get_by_role("button", name="Add").click()
            count += 1
            expect(page.locator(".chip")).to_have_count(count)
            assert chips(page)[-1].startswith(one["kind"])
            assert page.get_by_role("alert").count() == 0
        page.get_by_role("form").get_by_role("button", name="Delete").click()
        expect(page.locator(".chip")).to_have_count(count - 1)
        page.get_by_role("combobox", name="Scenario").select_option("double-booking")
        expect(page.get_by_role("heading", level=1)).to_contain_text("Double booking")
        assert page.get_by_role("form", name="Fault").count() == 0
        assert offered.get_by_role("button", name="pace").count() == 0, "the store has no pace"


def test_a_kind_is_dropped_on_a_lane(browser: Browser, url: str) -> None:
    with opened(browser, url) as page:
        shown(page)
        offered = page.get_by_role("group", name="Let something go wrong")

        def drop(kind: str, y: float) -> None:
            box = offered.get_by_role("button", name=kind, exact=True).bounding_box()
            picture = page.locator(".chart svg").first.bounding_box()
            assert box is not None
            assert picture is not None
            half = picture["x"] + 2 + (picture["width"] - 16) / 2
            page.mouse.move(box["x"] + 9, box["y"] + 9)
            page.mouse.down()
            page.mouse.move(half, picture["y"] + y, steps=5)
            expect(page.locator(".carried")).to_contain_text(kind)
            page.mouse.up()
            expect(page.locator(".carried")).to_have_count(0)

        drop("crash", 90)  # of the lane of B
        expect(page.locator(".chip")).to_have_count(2)
        assert chips(page)[1].startswith("crash B, at 7")
        drop("freeze", 90)
        expect(page.get_by_role("alert")).to_contain_text("a fault of a server: drop it on redis")
        assert len(chips(page)) == 2
        drop("cut", 130)  # of the lane of redis
        expect(page.locator(".chip")).to_have_count(3)
        assert chips(page)[2].startswith("cut redis ⇄ A, B, 7")
        assert page.get_by_role("alert").count() == 0


def test_what_cannot_be_played_is_said_and_the_last_picture_stays(
    browser: Browser, url: str
) -> None:
    with opened(browser, url, expected=NO_ANSWER) as page:
        shown(page)
        chip(page, FROZEN).click()
        form = page.get_by_role("form", name="Fault: pause A")
        form.get_by_role("textbox", name="for").fill("long")
        form.get_by_role("button", name="Apply").click()
        alert = page.get_by_role("alert")
        expect(alert).to_contain_text("faults[0].for: a number from 0 to 600 is wanted, not 'long'")
        assert form.get_by_role("textbox", name="for").input_value() == "long"
        expect(chip(page, FROZEN)).to_be_visible()
        expect(page.locator(".story h2")).to_be_visible()
        expect(page.locator(".end")).to_contain_text("1 write taken, 1 refused")
        page.get_by_role("button", name="Close this message").click()
        expect(alert).to_have_count(0)
        form.get_by_role("textbox", name="for").fill("")
        form.get_by_role("button", name="Apply").click()
        expect(chip(page, "pause A, from 1 s on")).to_be_visible()
        expect(page.locator(".end")).to_contain_text("1 write taken, 0 refused")


def test_the_clock_of_a_server_is_stepped_by_a_number_and_by_its_hand(
    browser: Browser, url: str
) -> None:
    with opened(browser, url) as page:
        shown(page)
        scrub(page, 2.1)
        page.get_by_text("Clocks of the servers").press("Enter")
        by = page.get_by_role("textbox", name="Step the clock of redis")
        by.fill("3.5")
        by.press("Enter")
        expect(chip(page, "step redis +3.5 s, at 2.1 s")).to_be_visible()
        card = page.locator(".stage .server")
        expect(card).to_contain_text("clock +3.5 s")
        expect(card).to_contain_text("lock is free")
        page.get_by_role("button", name="Start over").click()
        expect(card).to_contain_text("lock of A")
        face = page.locator(".face")
        face.scroll_into_view_if_needed()
        box = face.bounding_box()
        assert box is not None
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        page.mouse.move(x, y - 15)
        page.mouse.down()
        for dx, dy in ((11, -11), (15, 0)):
            page.mouse.move(x + dx, y + dy, steps=3)
        expect(page.locator(".clocks")).to_contain_text("steps by +3 s")
        page.mouse.up()
        expect(chip(page, "step redis +3 s, at 2.1 s")).to_be_visible()
        expect(card).to_contain_text("clock +3 s")
