"""What a worker must have before it starts: files that Spark sees, and what it needs to do so."""

import os
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from pyspark.sql import SparkSession

from perago import SparkWorkspace, WorkspaceSpec, task
from perago.adapters.progress import Progress
from perago.authoring import AnyTask
from perago.bootstrap.machine import delta_jars, get_jars
from perago.bootstrap.worker import (
    prepare_direct_access,
    prepare_tables,
    require_files_in_reach,
)
from perago.domain.errors import SettingsError
from perago.settings import Settings

OWNER = "data@example.com"


class Nothing(BaseModel):
    pass


@task("plain", owner_email=OWNER, workspace=WorkspaceSpec())
def plain(workspace: Path, _params: Nothing) -> Nothing:
    del workspace
    return Nothing()


@task("mixed", owner_email=OWNER, workspace=WorkspaceSpec())
def mixed(workspace: Path, _params: Nothing, spark: SparkSession) -> Nothing:
    del workspace, spark
    return Nothing()


@task("tables", owner_email=OWNER, workspace=WorkspaceSpec())
def tables(workspace: SparkWorkspace, _params: Nothing) -> Nothing:
    del workspace
    return Nothing()


@task("direct", owner_email=OWNER, workspace=WorkspaceSpec(access="direct"))
def direct(workspace: SparkWorkspace, _params: Nothing) -> Nothing:
    del workspace
    return Nothing()


@task("bare", owner_email=OWNER)
def bare(_params: Nothing, spark: SparkSession) -> Nothing:
    del spark
    return Nothing()


ALL: list[AnyTask] = [plain, mixed, tables, direct, bare]


def settings(**changes: Any) -> Settings:
    cluster = {"spark_master": "spark://host:7077", "store": "lakefs"}
    return Settings(**(cluster | changes))


@pytest.mark.parametrize(
    ("changes", "refused"),
    [
        ({}, "mixed, tables"),
        ({"spark_access": "direct"}, "mixed"),
        ({"store": "embedded"}, "direct, mixed, tables"),
        ({"spark_master": "local", "spark_remote": "sc://host/;token=x"}, "mixed, tables"),
    ],
)
def test_local_files_on_a_cluster_are_refused(changes: dict[str, Any], refused: str) -> None:
    with pytest.raises(SettingsError, match=f"^{refused}: the files would be on") as caught:
        require_files_in_reach(settings(**changes), ALL)
    assert "PERAGO_SPARK_ACCESS" in (caught.value.hint or "")
    assert "token" not in str(caught.value)


@pytest.mark.parametrize(
    "changes",
    [{"workspace_root_is_shared": True}, {"spark_master": "local"}, {"spark_master": "local[4]"}],
)
def test_files_that_everybody_sees_are_no_matter(changes: dict[str, Any]) -> None:
    require_files_in_reach(settings(**changes), ALL)


def test_tasks_that_hand_spark_no_local_files_are_no_matter() -> None:
    require_files_in_reach(settings(), [plain, direct, bare])


def test_direct_tasks_need_their_jars_at_the_start(tmp_path: Path) -> None:
    missing = settings(spark_jars=str(tmp_path / "missing.jar"))
    with pytest.raises(SettingsError, match=r"missing\.jar, which is no file"):
        prepare_direct_access(missing, [direct])
    prepare_direct_access(missing, [plain, tables, bare])
    prepare_direct_access(settings(spark_jars="none"), [direct])
    here = tmp_path / "here.jar"
    here.touch()
    prepare_direct_access(settings(spark_jars=f"{here}, {here}"), [direct])


def test_tasks_on_spark_need_the_jars_of_their_tables_at_the_start(tmp_path: Path) -> None:
    missing = settings(spark_tables="delta", spark_jars=str(tmp_path / "missing.jar"))
    for one in (tables, direct, bare):
        with pytest.raises(SettingsError, match=r"missing\.jar, which is no file"):
            prepare_tables(missing, [one])
    prepare_tables(missing, [plain])
    prepare_tables(settings(spark_jars=str(tmp_path / "missing.jar")), [tables])


def test_jars_of_ones_own_hold_delta_too(tmp_path: Path) -> None:
    jar = tmp_path / "all.jar"
    jar.touch()
    own = settings(spark_tables="delta", spark_jars=str(jar))
    assert get_jars(own, os.environ, Progress(say=print)) == [jar]
    assert delta_jars(own) is not None
    assert delta_jars(settings()) is None


def test_java_does_not_read_our_certificates(tmp_path: Path) -> None:
    authority = tmp_path / "ca.pem"
    with pytest.raises(SettingsError, match="does not read lakefs_ca_file") as caught:
        prepare_direct_access(settings(lakefs_ca_file=authority, spark_jars="none"), [direct])
    assert "trustStore" in (caught.value.hint or "")
    told = {"spark.driver.extraJavaOptions": "-Djavax.net.ssl.trustStore=/x"}
    prepare_direct_access(
        settings(lakefs_ca_file=authority, spark_jars="none", spark_conf=told), [direct]
    )
