"""Anybody can run the checks over an engine of their own: in ten lines, or from a shell."""

from __future__ import annotations

import subprocess
import sys
import unittest
from pathlib import Path

import pytest

from fencelock.engines.memory import MemoryEngine
from fencelock.errors import Unavailable, UsageError
from fencelock.model import Grant
from fencelock.testing import conformance
from fencelock.testing.conformance.__main__ import main
from tests.conformance.broken import ordering

# What somebody would write who keeps locks elsewhere. Only the class is theirs.
TEN_LINES = """
import pytest
from fencelock.testing import conformance
from their_locks import TheirEngine

@pytest.mark.parametrize("flavor", conformance.FLAVORS)
@pytest.mark.parametrize("check", conformance.checks()[:12], ids=str)
def test_our_engine_keeps_its_promises(check, flavor):
    conformance.run(lambda: "theirs://localhost/table", flavor, check, engine=TheirEngine)
"""

THEIR_LOCKS = """
from fencelock.engines.memory import MemoryEngine

class TheirEngine(MemoryEngine):
    schemes = ("theirs",)
    traits = MemoryEngine.traits._replace(fence=False, safety="efficiency")
"""


def test_a_third_party_runs_the_checks_in_ten_lines(tmp_path: Path) -> None:
    assert len(TEN_LINES.strip().splitlines()) <= 10
    (tmp_path / "test_theirs.py").write_text(TEN_LINES)
    (tmp_path / "their_locks.py").write_text(THEIR_LOCKS)
    command = [sys.executable, "-m", "pytest", "-q", "-rs", "-W", "error", "-p", "no:cacheprovider"]
    run = subprocess.run([*command, "test_theirs.py"], cwd=tmp_path, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout
    fence = sum("fence" in check.needs for check in conformance.checks()[:12])
    assert f"{24 - 2 * fence} passed, {2 * fence} skipped" in run.stdout
    assert "the engine does not promise fence" in run.stdout


def test_what_is_not_promised_is_skipped_by_any_runner() -> None:
    class Promises(unittest.TestCase):
        def test_durable(self) -> None:
            check = "a_grant_survives_while_nobody_is_connected"
            conformance.run(lambda: "memory://unittest", "sync", check)

    outcome = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(Promises).run(outcome)
    assert [why for _, why in outcome.skipped] == ["the engine does not promise durable"]


def test_what_an_engine_does_not_offer_is_not_asked() -> None:
    class Plain(MemoryEngine):
        from fencelock.engine import Engine

        revoke, scan = Engine.revoke, Engine.scan

    report = conformance.run_all(
        lambda: "memory://plain",
        only=["a_revoked_holder_is_told", "scan_lists_names_by_prefix"],
        engine=Plain,
    )
    assert report.ok
    assert {result.why for result in report.results} == {
        "the engine does not offer revoke()",
        "the engine does not offer scan()",
    }


def test_the_report_says_what_failed_and_why() -> None:
    told: list[conformance.Result] = []
    report = conformance.run_all(
        lambda: "memory://report",
        flavors=["sync"],
        only=[
            "a_held_lock_is_refused",
            "fences_fit_where_numbers_go",
            "a_cancelled_waiter_is_gone",
        ],
        engine=ordering.FenceTooLarge,
        tell=told.append,
    )
    assert [result.outcome for result in report.results] == ["passed", "failed", "not applicable"]
    assert told == [*report.results]
    assert not report.ok
    (failed,) = report.failed
    assert isinstance(failed.error, conformance.Broken)
    assert "2**53" in failed.why
    assert report.summary == "1 passed, 1 failed, 1 not applicable"
    assert str(report).splitlines()[1].split()[:3] == [failed.check.name, "sync", "failed"]


def test_a_report_about_nothing_is_not_ok() -> None:
    assert not conformance.Report(()).ok


def test_an_engine_that_cannot_be_reached_fails_its_checks(tmp_path: Path) -> None:
    where = f"sqlite:///{tmp_path}/no such folder/locks.db"
    report = conformance.run_all(lambda: where, only=["a_held_lock_is_refused"])
    assert [result.outcome for result in report.results] == ["failed", "failed"]
    assert "no such folder" in report.results[0].why


def test_options_go_along_with_the_url(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/locks.db"
    conformance.run(lambda: (url, {"request_timeout": 1.0}), "sync", "a_held_lock_is_refused")
    report = conformance.run_all(lambda: (url, {"wrong": 1}), only=["a_held_lock_is_refused"])
    assert "has no option 'wrong'" in report.results[0].why


def test_an_engine_that_hangs_does_not_hang_the_judge() -> None:
    class Hangs(MemoryEngine):
        async def release(self, grant: Grant) -> bool:
            await self.world.wait(self.world.signal(), self.world.now() + 1)
            return False

    where, check = "memory://hangs", "release_says_whether_it_freed"
    for flavor in conformance.FLAVORS:
        with pytest.raises(conformance.Broken, match="did not"):
            conformance.run(lambda: where, flavor, check, engine=Hangs, timeout=0.05)


def test_a_client_that_cannot_be_closed_fails_what_it_passed() -> None:
    class CannotClose(MemoryEngine):
        async def close(self) -> None:
            raise Unavailable("it does not let go")

    for flavor in conformance.FLAVORS:
        with pytest.raises(Unavailable, match="let go"):
            conformance.run(
                lambda: "memory://close", flavor, "a_held_lock_is_refused", engine=CannotClose
            )


def test_wrong_words_are_refused() -> None:
    with pytest.raises(UsageError, match="no check"):
        conformance.run(lambda: "memory://", "sync", "the_moon_is_round")
    with pytest.raises(UsageError, match="flavor"):
        conformance.run(lambda: "memory://", "trio", "a_held_lock_is_refused")  # type: ignore[arg-type]


def test_each_check_says_what_is_promised() -> None:
    for check in conformance.checks():
        assert check.promise.endswith("."), check.name
        assert len(check.promise) > 20, check.name
    names = [check.name for check in conformance.checks()]
    assert len(names) == len(set(names)) > 60


def test_the_runner_prints_a_table_and_passes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["memory://runner", "--check", "a_held_lock_is_refused"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:3] for line in lines[:2]] == [
        ["a_held_lock_is_refused", "sync", "passed"],
        ["a_held_lock_is_refused", "asyncio", "passed"],
    ]
    assert lines[-1] == "2 passed, 0 failed, 0 not applicable"


def test_the_runner_fails_with_the_promise_that_was_broken(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from fencelock import engines

    monkeypatch.setitem(engines.TABLE, "large", "tests.conformance.broken.ordering:FenceTooLarge")
    check = "fences_fit_where_numbers_go"
    assert main(["large://x", "--check", check, "--flavor", "sync"]) == 1
    out = capsys.readouterr().out
    assert "0 passed, 1 failed" in out
    assert "JSON and doubles carry it exactly" in out
    assert "Traceback" in out


@pytest.mark.parametrize("arguments", [[], ["memory://", "--check", "the_moon_is_round"]])
def test_the_runner_says_how_it_is_called(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert capsys.readouterr().out


def test_the_runner_lists_the_promises(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list"]) == 0
    out = capsys.readouterr().out
    assert all(check.name in out and check.promise in out for check in conformance.checks())


def test_the_runner_runs_from_a_shell() -> None:
    command = [sys.executable, "-W", "error", "-m", "fencelock.testing.conformance", "memory://"]
    chosen = ["--check", "max_hold_ends_a_renewed_lease", "--flavor", "sync"]
    run = subprocess.run([*command, *chosen], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert "1 passed, 0 failed" in run.stdout
    assert run.stderr == ""
