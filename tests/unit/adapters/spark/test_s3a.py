"""What Hadoop is told about a lakeFS server."""

from pathlib import Path

import pytest

from perago.adapters.spark.s3a import S3A_CONF, S3Gateway
from perago.adapters.spark.settings import (
    Machine,
    SparkSettings,
    build_spark_conf,
    select_launch_conf,
)
from perago.domain.ids import RepositoryName

GATEWAY = S3Gateway(
    endpoint="https://lakefs.example.com", access_key_id="AKIA", secret_access_key="hidden"
)
MACHINE = Machine(cores=2, memory_mb=4096)
REPO = RepositoryName("repo")


def test_keys_are_for_one_repository_only() -> None:
    conf = GATEWAY.hadoop_conf(REPO)
    assert all(name.startswith("fs.s3a.bucket.repo.") for name in conf)
    assert conf["fs.s3a.bucket.repo.endpoint"] == "https://lakefs.example.com"
    assert conf["fs.s3a.bucket.repo.secret.key"] == "hidden"


@pytest.mark.parametrize(("scheme", "ssl"), [("http", "false"), ("https", "true")])
def test_tls_goes_by_the_address(scheme: str, ssl: str) -> None:
    gateway = S3Gateway(endpoint=f"{scheme}://x", access_key_id="a", secret_access_key="b")
    assert gateway.hadoop_conf(REPO)["fs.s3a.bucket.repo.connection.ssl.enabled"] == ssl


def test_the_secret_is_not_shown() -> None:
    assert "hidden" not in repr(GATEWAY)


def test_spark_gets_jars_and_committers_for_a_direct_workspace_alone(tmp_path: Path) -> None:
    jars = [Path("/jars/a.jar"), Path("/jars/b.jar")]
    settings = SparkSettings(conf={"spark.jars": "/own.jar"})

    plain = build_spark_conf(settings, MACHINE, scratch=tmp_path)
    direct = build_spark_conf(settings, MACHINE, scratch=tmp_path, s3a_jars=jars)

    assert not S3A_CONF.keys() & plain.keys()
    assert plain["spark.jars"] == "/own.jar"
    assert direct["spark.jars"] == "/own.jar,/jars/a.jar,/jars/b.jar"
    assert direct.items() >= S3A_CONF.items()
    assert "spark.jars" in select_launch_conf(direct)


def test_a_cluster_that_has_the_jars_needs_none(tmp_path: Path) -> None:
    conf = build_spark_conf(SparkSettings(), MACHINE, scratch=tmp_path, s3a_jars=[])
    assert "spark.jars" not in conf
    assert conf.items() >= S3A_CONF.items()


def test_what_the_user_sets_wins(tmp_path: Path) -> None:
    own = {"spark.hadoop.fs.s3a.committer.name": "directory"}
    conf = build_spark_conf(SparkSettings(conf=own), MACHINE, scratch=tmp_path, s3a_jars=[])
    assert conf.items() >= own.items()


@pytest.mark.parametrize(("master", "is_ours"), [("local[2]", True), ("spark://head:7077", False)])
def test_what_is_on_its_way_to_the_store_waits_below_the_scratch(
    tmp_path: Path, master: str, is_ours: bool
) -> None:
    """Of a cluster's machines nothing is known."""
    settings = SparkSettings(master=master)
    conf = build_spark_conf(settings, MACHINE, scratch=tmp_path, s3a_jars=[])
    found = conf.get("spark.hadoop.fs.s3a.buffer.dir")
    assert found == (str(tmp_path / "tmp") if is_ours else None)
