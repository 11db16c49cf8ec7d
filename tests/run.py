"""Run the tests in a place of their own: ``python -m tests.run [pytest's arguments]``.

No test is repeated: one that fails now and then is a defect, of the test or of the lock.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.tmp_dirs import temporary_folder

ROOT = Path(__file__).parents[1]


def main(arguments: Sequence[str]) -> int:
    """Run pytest in a process of its own, which begins with nothing imported or started."""
    command = [sys.executable, "-m", "pytest", "--rootdir", str(ROOT), *arguments]
    with temporary_folder() as environment:
        return subprocess.run(command, env=environment).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
