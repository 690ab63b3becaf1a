import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from py4j.protocol import Py4JNetworkError

from perago.adapters.spark import LocalSparkSessions, SparkSettings
from perago.adapters.spark.gateway import SparkJvm, prepare_scratch, require_pyspark
from perago.adapters.spark.isolation import IsolatedSession
from perago.adapters.spark.scratch import make_scratch, sweep_scratch
from perago.domain.errors import EnvironmentUnfitError


def test_a_missing_pyspark_is_said_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(EnvironmentUnfitError, match=r"perago-runtime\[spark\]"):
        require_pyspark()


def test_importing_the_adapter_needs_no_pyspark() -> None:
    code = "import sys, perago.adapters.spark; sys.exit('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_scratch_is_made_empty(tmp_path: Path) -> None:
    scratch = tmp_path / "executor-0" / "spark-1"
    make_scratch(scratch)
    (scratch / "warehouse" / "old").mkdir(parents=True)
    prepare_scratch(scratch)
    assert sorted(path.name for path in scratch.rglob("*")) == [
        "local",
        "log4j2.properties",
        "tmp",
        "warehouse",
    ]


def test_only_dead_processes_lose_their_scratch(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    ours = tmp_path / "executor-0"
    for name in (f"spark-{ended.pid}", f"spark-{os.getpid()}", "spark-notes"):
        make_scratch(ours / name)
    sweep_scratch(ours)
    assert sorted(path.name for path in ours.iterdir()) == sorted(
        [".perago-directory", f"spark-{os.getpid()}", "spark-notes"]
    )


def test_scratch_below_a_stranger_s_directory_is_left_alone(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    stranger = tmp_path / f"spark-{ended.pid}"
    stranger.mkdir()

    sweep_scratch(tmp_path)

    assert stranger.is_dir()


def test_stopping_what_never_started_is_nothing(tmp_path: Path) -> None:
    LocalSparkSessions(SparkSettings(), tmp_path).stop()
    assert list(tmp_path.iterdir()) == []


class DiesWhileItSettles(IsolatedSession):
    """On a JVM that answers once, and never again."""

    def __init__(self) -> None:
        self._jvm = cast("SparkJvm", SimpleNamespace(is_usable=True, context=None, root=None))

    def _let_nothing_write(self) -> None:
        raise Py4JNetworkError("Answer from Java side is empty")


def test_a_spark_that_dies_while_it_settles_is_told_as_such() -> None:
    told = r"does not say what it still does: Answer from Java side is empty"
    with pytest.raises(EnvironmentUnfitError, match=told):
        DiesWhileItSettles().settle()
