"""Which Spark an executor gets, by the settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from perago.adapters.spark import ConnectSparkSessions, LocalSparkSessions, TaskCode
from perago.bootstrap import machine
from perago.bootstrap.machine import describe_spark, open_spark
from perago.domain.errors import EnvironmentUnfitError, SettingsError
from perago.settings import Settings

LAKE = {
    "store": "lakefs",
    "lakefs_endpoint": "http://127.0.0.1:8000",
    "lakefs_access_key_id": "AKIA",
    "lakefs_secret_access_key": "secret",
}


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What the sessions were made with."""
    seen: list[dict[str, Any]] = []
    for name in ("LocalSparkSessions", "ConnectSparkSessions"):
        kind = getattr(machine, name)

        def make(*arguments: Any, _kind: Any = kind, **named: Any) -> Any:
            seen.append(named)
            return _kind(*arguments, **named)

        monkeypatch.setattr(machine, name, make)
    return seen


def settings(tmp_path: Path, **changes: Any) -> Settings:
    return Settings(home=tmp_path, **(LAKE | changes))


def test_spark_of_its_own_needs_no_code(tmp_path: Path, made: list[dict[str, Any]]) -> None:
    sessions = open_spark(settings(tmp_path), executor=0)
    assert isinstance(sessions, LocalSparkSessions)
    assert made[0]["code"] is None
    assert made[0]["direct"].gateway.access_key_id == "AKIA"


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"spark_master": "spark://host:7077"}, LocalSparkSessions),
        ({"spark_remote": "sc://host"}, ConnectSparkSessions),
    ],
)
def test_spark_elsewhere_is_sent_the_code_unless_it_has_it(
    tmp_path: Path, made: list[dict[str, Any]], changes: dict[str, Any], kind: type
) -> None:
    assert isinstance(open_spark(settings(tmp_path, **changes), executor=0), kind)
    open_spark(settings(tmp_path, **changes, spark_ship_code=False), executor=0)
    library = tmp_path / "one.py"
    library.write_text("")
    both = {"spark_ship_code": False, "spark_py_files": str(library)}
    open_spark(settings(tmp_path, **changes, **both), executor=0)
    assert made[0]["code"] == TaskCode()
    assert made[1]["code"] is None
    assert made[2]["code"] == TaskCode(with_modules=False, libraries=(library,))


def test_a_cluster_with_keys_of_its_own_is_given_none(
    tmp_path: Path, made: list[dict[str, Any]]
) -> None:
    open_spark(settings(tmp_path, spark_credentials="cluster"), executor=0)
    remote = settings(tmp_path, spark_credentials="cluster", spark_remote="sc://host")
    open_spark(remote, executor=0)
    assert made[0]["direct"].gateway is None
    assert made[1]["gateway"] is None


def test_libraries_that_are_not_there_are_refused(tmp_path: Path) -> None:
    bad = settings(tmp_path, spark_remote="sc://host", spark_py_files="none.zip")
    with pytest.raises(SettingsError, match=r"none\.zip"):
        open_spark(bad, executor=0)


def test_a_server_is_described_once_it_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remote = settings(tmp_path, spark_remote="sc://host:15002/;token=hidden")
    monkeypatch.setattr(machine, "require_server", lambda _settings: None)
    assert describe_spark(remote).endswith(", Spark Connect server sc://host:15002")

    def refuse(_settings: object) -> None:
        raise EnvironmentUnfitError("no Spark Connect server answers at sc://host:15002")

    monkeypatch.setattr(machine, "require_server", refuse)
    with pytest.raises(EnvironmentUnfitError):
        describe_spark(remote)


@pytest.mark.parametrize("changes", [{}, {"spark_remote": "sc://host"}])
def test_scratch_space_of_an_earlier_version_is_refused_at_the_start(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    chosen = settings(tmp_path, **changes)
    scratch = chosen.attempts_root / "spark" / "executor-0"
    scratch.mkdir(parents=True)
    open_spark(chosen, executor=0)
    (scratch / ".perago-directory").unlink()
    (scratch / "spark-1").mkdir()

    with pytest.raises(EnvironmentUnfitError, match="Spark's scratch space") as caught:
        open_spark(chosen, executor=0)

    assert "move it away" in (caught.value.hint or "")
    assert (scratch / "spark-1").is_dir()
    open_spark(chosen, executor=1)
    assert not scratch.with_name("executor-1").exists()
