"""Play the scenarios of the documents again: ``make docs``.

``docs/lab`` gets a file for each, and the README the picture of one. Both say which plays they
show, by digests; test_docs.py compares these with what is played now.
"""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

from playwright.sync_api import Browser

from fencelock import lab, observe
from tests.service.browsers import started

DOCS = Path(__file__).parents[2] / "docs"
FOLDER = DOCS / "lab"
PICTURE = DOCS / "pictures" / "ghost-writer.png"
NAMES = ("ghost-writer", "naive-delete", "redlock-clock-jump")
SHOWN, BESIDE = "ghost-writer", "fence: no guard"
KEYWORD = b"fencelock"
HEAD = 8  # bytes before the first chunk of a PNG


def digests(name: str) -> str:
    """Of what the picture shows: a scenario in both of its choices."""
    document = lab.scenario(name)
    every = [lab.play(lab.chosen(document, **one)).digest for one in lab.combinations(document)]
    return " ".join(every)


def noted(picture: bytes) -> str:
    """The digests that a picture carries."""
    place = HEAD
    while place < len(picture):
        (length,) = struct.unpack(">I", picture[place : place + 4])
        data = picture[place + 8 : place + 8 + length]
        if picture[place + 4 : place + 8] == b"tEXt" and data.startswith(KEYWORD + b"\0"):
            return data[len(KEYWORD) + 1 :].decode()
        place += length + 12
    return ""


def with_note(picture: bytes, text: str) -> bytes:
    """The same picture, with the text before its last chunk, which is the mark of its end."""
    data = b"tEXt" + KEYWORD + b"\0" + text.encode()
    chunk = struct.pack(">I", len(data) - 4) + data + struct.pack(">I", zlib.crc32(data))
    return picture[:-12] + chunk + picture[-12:]


def taken(browser: Browser, file: Path) -> bytes:
    """A picture of an exported scenario and its other choice, at the end, in light colors."""
    context = browser.new_context(
        color_scheme="light", viewport={"width": 960, "height": 900}, device_scale_factor=1.25
    )
    page = context.new_page()
    page.goto(file.as_uri())
    page.get_by_role("combobox", name="compare with").select_option(BESIDE)
    page.locator(".second .bar").first.wait_for()
    page.get_by_role("button", name="To the end").click()
    page.locator(".chart").evaluate("chart => chart.querySelector('.hint').hidden = true")
    picture = page.locator(".chart").screenshot()
    context.close()
    return picture


def main() -> None:
    """Write all of them."""
    observe.redirect(lambda message: None)
    for folder in (FOLDER, PICTURE.parent):
        folder.mkdir(exist_ok=True)
    for name in NAMES:
        lab.export(lab.scenario(name), FOLDER / f"{name}.html")
    with started() as browser:
        picture = taken(browser, FOLDER / f"{SHOWN}.html")
    PICTURE.write_bytes(with_note(picture, digests(SHOWN)))


if __name__ == "__main__":
    main()
