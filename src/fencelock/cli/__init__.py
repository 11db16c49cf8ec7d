"""The command line. ``main.py`` picks the verb; each verb is a module that is imported when used.

On stdout ``run`` prints only the output of its command; our own messages go to stderr, one line
each. Without ``-v`` a user sees no traceback of ours.
"""

from __future__ import annotations


def entry() -> int:
    """Run the console script and return its exit code."""
    try:
        from .main import main
        from .signals import leave

        return leave(main())
    except KeyboardInterrupt:  # before the modules were loaded: main() handles it from then on
        return 130
