"""Run the tests in a place of their own: ``python -m tests.run [--again] [pytest's arguments]``.

What fails is not repeated: a test that fails now and then is a defect, of the test or of the lock.
Only with ``--again``, as in ``.ci/run``, which decides on changes that others made: if no more than
FEW of all tests failed, those are run by themselves, and each must pass three times in a row. They
are named at the end as UNSTEADY, each a defect to mend.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.tmp_dirs import temporary_folder

FEW = 3
TIMES = 3
FAILED = 1  # pytest's exit code when tests failed; others mean that it could not run them

ROOT = Path(__file__).parents[1]
CACHE = ROOT / ".pytest_cache"
RECORD = CACHE / "v" / "cache" / "lastfailed"


def main(arguments: Sequence[str]) -> int:
    """Run them; if wanted, the few that failed again, by themselves."""
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
