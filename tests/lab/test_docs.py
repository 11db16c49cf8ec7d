"""What the documents show of the lab is what is played now; `make docs` makes it again."""

from __future__ import annotations

from typing import Any, cast

import pytest
from playwright.sync_api import expect

from fencelock import lab
from fencelock.lab.recorded import SIZE_MAX
from fencelock.lab.variant import varied
from fencelock.web.bundle import held
from tests.lab.documents import DOCS, FOLDER, NAMES, PICTURE, SHOWN, digests, noted
from tests.service.browsers import opened, started

PICTURE_MAX = 150_000
AGAIN = "run `make docs`"


@pytest.mark.parametrize("name", NAMES)
def test_a_scenario_of_the_documents_is_what_is_played_now(name: str) -> None:
    page = (FOLDER / f"{name}.html").read_text(encoding="utf-8")
    assert len(page.encode()) <= SIZE_MAX
    data, document = cast("Any", held(page)), lab.scenario(name)
    assert (data["name"], data["document"]) == (name, document), AGAIN
    choices = [one["choices"] for one in data["plays"] if not one["variant"]]
    assert choices == list(lab.combinations(document)), AGAIN
    for one in data["plays"]:
        chosen = lab.chosen(document, **one["choices"])
        played = lab.play(varied(chosen, one["variant"]) if one["variant"] else chosen)
        assert one["trace"]["digest"] == played.digest, AGAIN


def test_the_picture_shows_what_is_played_now() -> None:
    picture = PICTURE.read_bytes()
    assert len(picture) <= PICTURE_MAX
    assert noted(picture) == digests(SHOWN), AGAIN


def test_all_of_them_are_shown() -> None:
    assert sorted(one.name for one in FOLDER.iterdir()) == [f"{name}.html" for name in NAMES]
    page = (DOCS / "lab.md").read_text(encoding="utf-8")
    readme = (DOCS.parent / "README.md").read_text(encoding="utf-8")
    assert [name for name in NAMES if f"(lab/{name}.html)" not in page] == []
    assert "(docs/pictures/ghost-writer.png)" in readme
    assert "(docs/lab/ghost-writer.html)" in readme


def test_the_scenarios_of_the_documents_open_in_a_browser() -> None:
    with started() as browser:
        for name in NAMES:
            with opened(browser, (FOLDER / f"{name}.html").as_uri()) as page:
                title = lab.scenario(name)["title"]
                expect(page.get_by_role("heading", level=1)).to_contain_text(title)
                expect(page.locator(".chart svg .bar").first).to_be_visible()
