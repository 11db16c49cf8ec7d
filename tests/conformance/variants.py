"""Every way to run an engine of ours, each with a store, or a part of one, of its own per check.

A server is shared by all checks of a test process, and started when the first of them asks for it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

Where = Callable[[Path], tuple[str, dict[str, Any]]]

_number = itertools.count()

# Each way to run an engine of ours, with a store of its own for each check. A variant is named
# after its scheme and what is special about it.
VARIANTS: dict[str, Where] = {
    "memory": lambda folder: (f"memory://conformance-{next(_number)}", {}),
    "sqlite": lambda folder: (f"sqlite:///{folder}/locks.db", {}),
    "sqlite push=no": lambda folder: (f"sqlite:///{folder}/locks.db", {"push": False}),
}

# What an engine does not promise, so that its checks are skipped. Nothing else may be.
NOT_PROMISED = {"memory": {"durable"}}
