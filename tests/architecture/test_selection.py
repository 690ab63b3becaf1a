"""The rules of `tests/conftest.py`: what is deselected, and when a skip is a failure."""

import os
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
        env=clean | environment,
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
