"""Load the Lua scripts that each node of a Redlock runs; renewal is a script of ``redis``."""

from __future__ import annotations

import os
from functools import partial

from ...redis import scripts

script = partial(scripts.script, folder=os.path.dirname(__file__))
