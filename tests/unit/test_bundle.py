"""A page as one file: its modules become one script, or are refused."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from fencelock.web import bundle
from fencelock.web.files import File

PAGE = """<!doctype html>
<html><head><meta charset="utf-8">
<link rel="icon" type="image/svg+xml" href="web/icon.svg">
<link rel="stylesheet" href="pages/a.css">
<script type="importmap">{"imports": {"ui": "./web/ui.js"}}</script>
<script type="module" src="pages/main.js"></script>
</head><body></body></html>
"""
MODULES = {
    "/web/ui.js": "const n=1;function f(){return n}export{n as one,f};//# sourceMappingURL=x",
    "/pages/more.js": 'export { one as first } from "ui";\nexport default function () {}\n',
    "/pages/main.js": (
        'import { one, f as call } from "ui";\nimport {\n  first,\n} from "./more.js";\n'
        'import more from "./more.js";\nexport const two = one + first;\n'
        "export async function go() {}\n"
    ),
}


def made(monkeypatch: pytest.MonkeyPatch, modules: Mapping[str, str], css: str = "b {}") -> str:
    files = {"/": PAGE, "/pages/a.css": css, "/web/icon.svg": "<svg/>", **modules}

    def of_page(*_: str) -> dict[str, File]:
        return {path: File(text.encode(), (), "") for path, text in files.items()}

    monkeypatch.setattr(bundle, "of_page", of_page)
    return bundle.one_file("x", data={"text": "</script>"})


def test_modules_become_one_script_each_after_what_it_needs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    page = made(monkeypatch, MODULES)
    assert page == made(monkeypatch, MODULES), "equal pages are equal files"
    script = page.partition('<script type="module">')[2].partition("</script>")[0]
    assert script == (
        "const module0 = (() => {\n"
        "const n=1;function f(){return n}\nreturn { one: n, f: f };\n})();\n"
        "const module1 = (() => {\n"
        "const exported = function () {}\n"
        "return { first: module0.one, default: exported };\n})();\n"
        "const module2 = (() => {\n"
        "const { one: one, f: call } = module0;\nconst { first: first } = module1;\n"
        "const { default: more } = module1;\nconst two = one + first;\nasync function go() {}\n"
        "return { two, go };\n})();\n"
    )
    assert bundle.held(page) == {"text": "</script>"}
    assert "importmap" not in page
    assert 'href="data:image/svg+xml;base64,PHN2Zy8+"' in page


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('import * as all from "ui";', "this form is not known: import"),
        ('import "ui";', "this form is not known: import"),
        ("export let three = 3;", "this form is not known: export let"),
        ("export const { a, b } = c;", "this form is not known: export const"),
        ("const x = 1;export*from'ui';", "this form is not known: export"),
        ('import { two } from "./main.js";', "imports itself by way of"),
        ("const x = '</script>';", "would end their element"),
        ("const x = '<!-- ';", "would end their element"),
    ],
)
def test_what_cannot_be_put_together_is_refused(
    monkeypatch: pytest.MonkeyPatch, text: str, why: str
) -> None:
    with pytest.raises(ValueError, match=why):
        made(monkeypatch, {**MODULES, "/pages/more.js": f"{text}\n{MODULES['/pages/more.js']}"})


def test_styles_cannot_end_their_element(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="would end their element"):
        made(monkeypatch, MODULES, "b::after { content: '</style>' }")


def test_a_page_without_data_holds_none() -> None:
    with pytest.raises(ValueError, match="no data"):
        bundle.held(Path(__file__).read_text(encoding="utf-8").replace('id="recorded"', ""))
