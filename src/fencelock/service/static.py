"""The files of the dashboard, as they are served."""

from __future__ import annotations

from functools import cache

from ..web.files import File, of_page
from .call import Answer


def answer(path: str, is_open: bool, known: str) -> Answer | None:
    """Answer with a file, or with 304 if the client has it already; None if there is no such file.

    The page has a mark of whether everybody may call: then it needs no token.
    """
    file = _files(is_open).get(path)
    if file is None:
        return None
    if known == file.tag:
        return Answer(b"", 304, file.headers)
    return Answer(file.data, 200, file.headers)


@cache
def _files(is_open: bool) -> dict[str, File]:
    marks = (b'data-identities="yes"', b'data-identities="no"') if is_open else (b"", b"")
    return of_page("service", marks=marks)
