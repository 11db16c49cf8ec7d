"""Run the tests: ``python -m tests.run [--again] [pytest's arguments]``, as ``make test`` does.

What fails is not tried again: a test that fails now and then is a defect, of the test or of the
lock. Only with ``--again``, for the slow and rare ones of ``make test-all``, the few that failed
are run once more by themselves, where each must pass three times in a row: some of them fill the
machine alone, and keep others waiting for longer than those allow for. They are named at the end
and not forgotten.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.tmp_dirs import temporary_folder

FEW = 40  # a server that did not start fails the tests of a whole module
TIMES = 3
FAILED = 1  # pytest's exit code when tests failed; others mean that it could not run them

ROOT = Path(__file__).parents[1]
CACHE = ROOT / ".pytest_cache"
RECORD = CACHE / "v" / "cache" / "lastfailed"


def main(arguments: Sequence[str]) -> int:
    """Run them; if wanted, the few that failed again."""
    wanted = "--again" in arguments
    arguments = [word for word in arguments if word != "--again"]
    RECORD.unlink(missing_ok=True)
    code = pytest(*arguments)
    failed = last_failed()
    if not wanted or code != FAILED or not 0 < len(failed) <= FEW:
        return code
    record = RECORD.read_text(encoding="utf-8")
    for time in range(1, TIMES + 1):
        print(f"\nby themselves, {time} of {TIMES}: {len(failed)} that failed", flush=True)
        RECORD.write_text(record, encoding="utf-8")
        code = pytest(*arguments, "-n", "0", "--last-failed", "--last-failed-no-failures", "none")
        if code or last_failed():  # what was not found stays on record
            return code or FAILED
    print(f"\nfailed beside the others, then passed {TIMES} times alone (their failures: above):")
    for name in failed:
        print(f"  UNSTEADY {name}")
    return 0


def pytest(*arguments: str) -> int:
    """Run pytest in a process of its own, which begins with nothing imported or started."""
    where = ["--rootdir", str(ROOT), "-o", f"cache_dir={CACHE}"]
    command = [sys.executable, "-m", "pytest", *where, *arguments]
    with temporary_folder() as environment:
        return subprocess.run(command, env=environment).returncode


def last_failed() -> list[str]:
    """What pytest has noted of the tests that failed."""
    if not RECORD.exists():
        return []
    return [str(name) for name in json.loads(RECORD.read_text(encoding="utf-8"))]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
