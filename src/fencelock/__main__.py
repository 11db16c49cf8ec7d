"""``python -m fencelock``: the command line."""

from __future__ import annotations

import sys

from .cli import entry

if __name__ == "__main__":
    sys.exit(entry())
