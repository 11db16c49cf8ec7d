"""``python -m fencelock.demo``: load the demo and run it."""

from __future__ import annotations

import signal
import sys


def main() -> int:
    """Run the demo, and return its exit code."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends it quietly until it handles that
    from .program import main

    return main()


if __name__ == "__main__":
    sys.exit(main())
