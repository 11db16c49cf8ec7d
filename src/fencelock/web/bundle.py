"""A page as one file, with data inside: it needs neither a server nor a network.

The modules of the page become one script, in the order in which they import each other; styles
and the icon are in the page as well. The policy allows this script and these styles by their
digests, and forbids all else: what is in the file cannot send requests.

Only the forms of ``import`` and ``export`` that the pages use are parsed, each a statement of its
own; any other form is refused here, not met in a browser.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import posixpath
import re
from collections.abc import Mapping

from .files import INDEX, of_page

DATA = "recorded"
"""The id of the element that holds the data: JSON, compressed, as Base64."""
POLICY = (
    "default-src 'none'; script-src 'sha256-{script}'; style-src 'sha256-{style}'; "
    "img-src data:; base-uri 'none'; form-action 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
MAP = re.compile(r'<script type="importmap">(.*?)</script>\s*', re.DOTALL)
ENTRY = re.compile(r'<script type="module" src="([^"]+)"></script>\s*')
SHEET = re.compile(r'<link rel="stylesheet" href="([^"]+)">\s*')
ICON = re.compile(r'(<link rel="icon" [^>]*href=")([^"]+)(">)')
START = r"(?:^|(?<=[;}]))"
NAMES = r"\{([^{}]*)\}"
FROM = r'\s*from\s*"([^"]+)";?'
IMPORT = re.compile(rf"{START}import\s*(?:{NAMES}|([A-Za-z_$][\w$]*)){FROM}", re.MULTILINE)
REEXPORT = re.compile(rf"{START}export\s*{NAMES}{FROM}", re.MULTILINE)
EXPORT_LIST = re.compile(rf"{START}export\s*{NAMES};?", re.MULTILINE)
DEFAULT = re.compile(rf"{START}export default\s+", re.MULTILINE)
EXPORT_DECLARATION = re.compile(
    rf"{START}export\s+((?:const|class|function|async function)\s+([A-Za-z_$][\w$]*))",
    re.MULTILINE,
)
UNPARSED = re.compile(rf"{START}\s*(?:import|export)\b.*", re.MULTILINE)
SOURCE_MAP = re.compile(r"//# sourceMappingURL=.*")


def one_file(*folders: str, data: object) -> str:
    """Return the page in a folder of the package as one file of HTML that holds these data."""
    files = {path: file.data.decode() for path, file in of_page(*folders).items()}
    page = files[INDEX]
    imports: Mapping[str, str] = json.loads(_one(MAP, page))["imports"]
    bundle = _Bundle(files, imports)
    bundle.add("/" + _one(ENTRY, page))
    script = "".join(bundle.parts)
    styles = "\n".join(files["/" + sheet] for sheet in SHEET.findall(page))
    icon = base64.b64encode(files["/" + ICON.findall(page)[0][1]].encode()).decode()
    for text in (script, styles):
        if re.search(r"</(script|style)|<!--|\r", text):
            raise ValueError("the files of the page hold what would end their element")
    for pattern in (MAP, ENTRY, SHEET):
        page = pattern.sub("", page)
    page = ICON.sub(rf"\1data:image/svg+xml;base64,{icon}\3", page)
    policy = POLICY.format(script=_digest(script), style=_digest(styles))
    packed = base64.b64encode(gzip.compress(_json(data), 9, mtime=0)).decode()
    head = (
        f"<style>{styles}</style>\n"
        f'<script type="application/octet-stream" id="{DATA}">{packed}</script>\n'
        f'<script type="module">{script}</script>\n</head>'
    )
    page = page.replace("</head>", head, 1)
    charset = '<meta charset="utf-8">'
    meta = f'{charset}\n<meta http-equiv="Content-Security-Policy" content="{policy}">'
    return page.replace(charset, meta, 1) + f"<!--\n{_licenses(files)}\n-->\n"


def held(page: str) -> object:
    """Return the data that a page of one file holds."""
    found = re.search(rf'id="{DATA}">([A-Za-z0-9+/=]*)</script>', page)
    if found is None:
        raise ValueError("there are no data in this page")
    return json.loads(gzip.decompress(base64.b64decode(found[1])))


class _Bundle:
    """JavaScript modules as functions, each after those that it imports."""

    def __init__(self, files: Mapping[str, str], imports: Mapping[str, str]) -> None:
        self._files = files
        self._imports = imports
        self._names: dict[str, str] = {}
        self.parts: list[str] = []

    def add(self, path: str, above: tuple[str, ...] = ()) -> str:
        """Add a module and those it imports, once; return the variable that holds its exports."""
        if path in above:
            raise ValueError(f"{path} imports itself by way of {', '.join(above)}")
        if path not in self._names:
            body = self._scoped(path, (*above, path))
            name = self._names[path] = f"module{len(self._names)}"
            self.parts.append(f"const {name} = (() => {{\n{body}}})();\n")
        return self._names[path]

    def _scoped(self, path: str, above: tuple[str, ...]) -> str:
        """Return the text of a module as the body of a function that returns its exports."""
        exports: list[str] = []

        def other(module: str) -> str:
            target = self._imports.get(module)
            folder = "/" if target else posixpath.dirname(path)
            return self.add(posixpath.normpath(posixpath.join(folder, target or module)), above)

        def imported(found: re.Match[str]) -> str:
            names = f"default: {found[2]}" if found[2] else _renamed(found[1])
            return f"const {{ {names} }} = {other(found[3])};"

        def reexport(found: re.Match[str]) -> str:
            module = other(found[2])
            for name, as_name in _parse_names(found[1]):
                exports.append(f"{as_name}: {module}.{name}")
            return ""

        def export_list(found: re.Match[str]) -> str:
            exports.extend(f"{as_name}: {name}" for name, as_name in _parse_names(found[1]))
            return ""

        def export_declaration(found: re.Match[str]) -> str:
            exports.append(found[2])
            return found[1]

        def default(_: re.Match[str]) -> str:
            exports.append("default: exported")
            return "const exported = "

        text = SOURCE_MAP.sub("", self._files[path])
        for pattern, change in (
            (IMPORT, imported), (REEXPORT, reexport), (EXPORT_LIST, export_list),
            (EXPORT_DECLARATION, export_declaration), (DEFAULT, default),
        ):  # fmt: skip
            text = pattern.sub(change, text)
        if unparsed := UNPARSED.search(text):
            raise ValueError(f"{path}: this form is not known: {unparsed[0][:80]}")
        return f"{text.strip()}\nreturn {{ {', '.join(exports)} }};\n"


def _parse_names(names: str) -> list[tuple[str, str]]:
    """Parse the names between braces, each with the name that it gets."""
    found = [one.split() for one in names.split(",") if one.strip()]
    return [(words[0], words[-1]) for words in found]


def _renamed(names: str) -> str:
    return ", ".join(f"{name}: {as_name}" for name, as_name in _parse_names(names))


def _one(pattern: re.Pattern[str], page: str) -> str:
    (found,) = pattern.findall(page)
    return str(found)


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _json(data: object) -> bytes:
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode()


def _licenses(files: Mapping[str, str]) -> str:
    """Return the licenses of the libraries that the script holds."""
    return "\n\n".join(
        f"{path.rpartition('.')[2]}:\n{text}" for path, text in files.items() if "/LICENSE." in path
    )
