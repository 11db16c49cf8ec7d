"""A real browser, one at a time in each worker, and pages of it that collect what goes wrong."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

CHROMIUM = "/usr/bin/chromium"
ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PATIENCE_MS = 150_000
NO_ANSWER = "Failed to load resource"  # what the browser says of a call that fails
Scheme = Literal["light", "dark"]


@contextmanager
def started() -> Iterator[Browser]:
    """Start the browser; skip where there is none. It runs until the module has ended."""
    path = CHROMIUM if os.access(CHROMIUM, os.X_OK) else shutil.which("chromium")
    if path is None:
        pytest.skip(f"THE DASHBOARD IS NOT TESTED: there is no {CHROMIUM} (apt install chromium)")
    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def opened(
    browser: Browser,
    url: str,
    *,
    scheme: Scheme = "light",
    token: str = "",
    expected: str = "",
) -> Iterator[Page]:
    """Open the dashboard. An error in its console fails the test, unless it is expected."""
    context = browser.new_context(color_scheme=scheme, viewport={"width": 1360, "height": 820})
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on(
        "console",
        lambda said: errors.append(said.text) if said.type in ("error", "warning") else None,
    )
    page.on("dialog", lambda dialog: errors.append(f"dialog {dialog.message}"))
    try:
        page.goto(url)
        if token:
            page.get_by_label("Token").fill(token)
            page.get_by_role("button", name="Look").click()
        yield page
        assert context.cookies() == []
        assert [one for one in errors if not expected or expected not in one] == []
    finally:
        context.close()


def row(page: Page, name: str) -> str:
    """A selector for the row of a lock."""
    return f'[role="row"]:has(a[title="{name}"])'
