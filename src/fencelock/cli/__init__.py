"""The command line. ``main.py`` picks the verb; each verb is a module that is imported when asked.

Nothing but the child's output goes to stdout of ``run``; what we have to say goes to stderr, one
line each. No traceback of ours reaches a user unless ``-v`` asks for it.
"""

from __future__ import annotations


def entry() -> int:
    """The console script."""
    try:
        from .main import main
        from .signals import leave

        return leave(main())
    except KeyboardInterrupt:  # before the modules were loaded: main() handles it from then on
        return 130
