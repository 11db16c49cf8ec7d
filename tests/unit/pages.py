"""The pages of the documentation, and what of them is prose."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]


def prose(text: str) -> str:
    """A page without its code."""
    return re.sub(r"(?ms)^(```+).*?^\1$", "", text)
