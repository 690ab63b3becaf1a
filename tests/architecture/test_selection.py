"""The rules of every session: what is deselected, when a skip fails it, and how long tests take."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

SUITE = """
import pytest

def test_runs():
    pass

@pytest.mark.torture
def test_long():
    pass

@pytest.mark.skipif(True, reason="no server")
def test_skipped():
    pass

@pytest.mark.xfail(reason="known")
def test_known_failure():
    assert False
"""

PROJECT = Path(__file__).parents[2]

MANY = """
import pytest

@pytest.mark.parametrize("number", range(8))
def test_many(number, worker_id):
    with open("processes.txt", "a") as file:
        print(worker_id, file=file)
"""

SLEEPERS = """
import time
import pytest

@pytest.fixture
def slow():
    time.sleep(0.6)

def test_that_sleeps(slow):
    time.sleep(0.6)

@pytest.mark.torture
def test_that_may_sleep():
    time.sleep(1.2)

def test_that_fails():
    assert "this" == "that"
"""

SKIPPED_MODULE = """
import pytest

pytest.skip("no toolchain", allow_module_level=True)
"""


@pytest.fixture
def suite(tmp_path: Path, project_root: Path) -> Path:
    conftest = (project_root / "tests/conftest.py").read_text(encoding="utf-8")
    (tmp_path / "conftest.py").write_text(conftest, encoding="utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n  torture\n  spark\n")
    (tmp_path / "test_suite.py").write_text(SUITE)
    return tmp_path


def run(suite: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTEST_", "COV_", "COVERAGE_", "PERAGO_"))
    }
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments],
        cwd=suite,
        # The suite's conftest is a copy of ours, and imports what ours does.
        env=clean | {"PYTHONPATH": str(PROJECT)} | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_skips_are_fine_by_default(suite: Path) -> None:
    answer = run(suite)
    assert answer.returncode == pytest.ExitCode.OK, answer.stdout
    assert "1 passed, 1 skipped, 1 deselected, 1 xfailed" in answer.stdout


@pytest.mark.parametrize("workers", ["0", "1"])
def test_require_all_turns_skips_into_a_failure(suite: Path, workers: str) -> None:
    (suite / "test_module.py").write_text(SKIPPED_MODULE)
    answer = run(suite, "-n", workers, PERAGO_REQUIRE_ALL="1")
    assert answer.returncode == pytest.ExitCode.TESTS_FAILED, answer.stdout
    assert "test_suite.py::test_skipped: Skipped: no server" in answer.stdout
    assert "test_module.py: Skipped: no toolchain" in answer.stdout
    assert "test_known_failure:" not in answer.stdout


def test_require_all_is_content_without_skips(suite: Path) -> None:
    answer = run(suite, "-k", "not skipped", PERAGO_REQUIRE_ALL="1")
    assert answer.returncode == pytest.ExitCode.OK, answer.stdout


def test_torture_runs_when_named(suite: Path) -> None:
    answer = run(suite, "-m", "torture")
    assert answer.returncode == pytest.ExitCode.OK, answer.stdout
    assert "1 passed, 3 deselected" in answer.stdout


def test_spark_tests_are_skipped_with_a_reason_without_java(suite: Path) -> None:
    # This machine may well have a Java: play one that has none.
    with (suite / "conftest.py").open("a") as conftest:
        conftest.write("\ndef missing_java():\n    return 'needs Java 17'\n")
    (suite / "test_suite.py").write_text(
        "import pytest\n\n@pytest.mark.spark\ndef test_spark():\n    pass\n"
    )
    answer = run(suite, "-rs")
    assert "needs Java 17" in answer.stdout
    assert "1 skipped" in answer.stdout


def test_lakefs_tests_are_skipped_with_a_reason_without_a_server(suite: Path) -> None:
    with (suite / "conftest.py").open("a") as conftest:
        conftest.write("\ndef missing_lakefs():\n    return 'needs a lakeFS server'\n")
    (suite / "test_suite.py").write_text(
        "import pytest\n\n@pytest.mark.lakefs\ndef test_lakefs():\n    pass\n"
    )
    answer = run(suite, "-rs")
    assert "needs a lakeFS server" in answer.stdout
    assert "1 skipped" in answer.stdout


@pytest.mark.parametrize("workers", ["0", "2"])
def test_a_test_that_takes_too_long_fails_the_session_unless_it_is_torture(
    suite: Path, workers: str
) -> None:
    (suite / "test_suite.py").write_text(SLEEPERS)
    chosen = ["-n", workers, "-m", "torture or not torture", "-k", "sleep"]

    patient = run(suite, *chosen, TEST_SECONDS="60")
    strict = run(suite, *chosen, TEST_SECONDS="1")

    assert patient.returncode == pytest.ExitCode.OK, patient.stdout
    assert "slowest 20 tests" in patient.stdout
    assert strict.returncode == pytest.ExitCode.TESTS_FAILED, strict.stdout
    assert re.search(r"\d s, not 1: test_suite\.py::test_that_sleeps", strict.stdout)
    assert "not 1: test_suite.py::test_that_may_sleep" not in strict.stdout


@pytest.mark.parametrize(
    "mark", ["xdist_group('group')", "spark"], ids=["of a group", "that run Spark"]
)
def test_tests_run_in_one_process(suite: Path, mark: str) -> None:
    with (suite / "conftest.py").open("a") as conftest:
        conftest.write("\ndef missing_java():\n    return None\n")
    (suite / "test_suite.py").write_text(f"{MANY}\npytestmark = pytest.mark.{mark}\n")

    answer = run(suite, "-n", "2", "--dist", "loadgroup")

    assert answer.returncode == pytest.ExitCode.OK, answer.stdout
    processes = (suite / "processes.txt").read_text().split()
    assert len(processes) == 8
    assert len(set(processes)) == 1


def test_what_failed_and_how_long_tests_took_is_kept_in_files(suite: Path, tmp_path: Path) -> None:
    (suite / "test_suite.py").write_text(SLEEPERS)
    results = tmp_path / "results"

    run(suite, "-n", "2", f"--results={results}")

    failed = (results / "failed.txt").read_text()
    assert "test_suite.py::test_that_fails (call)" in failed
    assert "'this' == 'that'" in failed
    names = [line.split("\t")[1] for line in (results / "seconds.txt").read_text().splitlines()]
    assert names == ["test_suite.py::test_that_sleeps", "test_suite.py::test_that_fails"]


def test_signals_that_a_background_job_ignores_reach_what_tests_start(suite: Path) -> None:
    (suite / "test_suite.py").write_text(
        "import os, signal, subprocess, sys\n\n"
        "def test_child():\n"
        "    code = 'import signal; print(signal.getsignal(signal.SIGINT).__name__)'\n"
        "    said = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True)\n"
        "    assert said.stdout == 'default_int_handler\\n'\n"
        "    assert os.umask(0o022) == 0o022\n"
    )
    before = signal.signal(signal.SIGINT, signal.SIG_IGN), os.umask(0o077)
    try:
        answer = run(suite, "-n", "1")
    finally:
        signal.signal(signal.SIGINT, before[0])
        os.umask(before[1])

    assert answer.returncode == pytest.ExitCode.OK, answer.stdout
