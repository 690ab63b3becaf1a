from pathlib import Path

import pytest

from perago.adapters.spark.settings import (
    Machine,
    SparkSettings,
    build_spark_conf,
    is_local,
    select_launch_conf,
)
from perago.domain.errors import SettingsError

SCRATCH = Path("/scratch space")
MACHINE = Machine(cores=8, memory_mb=16_000)


def conf_of(
    settings: SparkSettings | None = None, machine: Machine = MACHINE, executors: int = 1
) -> dict[str, str]:
    return build_spark_conf(
        settings or SparkSettings(), machine, scratch=SCRATCH, executors=executors
    )


@pytest.mark.parametrize(("executors", "master"), [(1, "local[8]"), (3, "local[2]")])
def test_cores_are_divided_among_executors(executors: int, master: str) -> None:
    assert conf_of(executors=executors)["spark.master"] == master


def test_every_executor_has_a_core() -> None:
    assert conf_of(executors=20)["spark.master"] == "local[1]"


def test_cores_that_were_asked_for_are_divided() -> None:
    assert conf_of(SparkSettings(cores=4), executors=2)["spark.master"] == "local[2]"


@pytest.mark.parametrize("master", ["local[3]", "spark://host:7077"])
def test_a_master_that_says_more_is_taken_as_it_is(master: str) -> None:
    assert conf_of(SparkSettings(master=master), executors=4)["spark.master"] == master


@pytest.mark.parametrize(
    ("machine_mb", "executors", "heap"),
    [
        (16_000, 1, "8000m"),
        (16_000, 4, "2000m"),
        (256_000, 1, "8192m"),
        (2_000, 8, "512m"),
    ],
)
def test_half_of_the_memory_is_shared_within_bounds(
    machine_mb: int, executors: int, heap: str
) -> None:
    machine = Machine(cores=8, memory_mb=machine_mb)
    assert conf_of(machine=machine, executors=executors)["spark.driver.memory"] == heap


def test_memory_that_was_asked_for_has_no_upper_bound() -> None:
    settings = SparkSettings(memory_mb=64_000)
    assert conf_of(settings, executors=2)["spark.driver.memory"] == "32000m"


def test_what_the_user_sets_wins() -> None:
    mine = {"spark.sql.session.timeZone": "Asia/Shanghai", "spark.app.name": "mine"}
    conf = conf_of(SparkSettings(conf=mine))
    assert conf.items() >= mine.items()


def test_java_options_of_the_user_come_last() -> None:
    settings = SparkSettings(
        quick_start=True, conf={"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=4"}
    )
    options = conf_of(settings)["spark.driver.extraJavaOptions"]
    assert options.endswith(" -XX:TieredStopAtLevel=1 -XX:TieredStopAtLevel=4")
    assert '"-Djava.io.tmpdir=/scratch space/tmp"' in options
    assert "file:///scratch%20space/log4j2.properties" in options


def test_all_that_spark_writes_by_itself_is_below_the_scratch_directory() -> None:
    conf = conf_of()
    for key in ("spark.local.dir", "spark.sql.warehouse.dir"):
        assert Path(conf[key]).is_relative_to(SCRATCH)


def test_spark_is_reachable_from_this_machine_alone() -> None:
    conf = conf_of()
    assert conf["spark.driver.host"] == conf["spark.driver.bindAddress"] == "127.0.0.1"
    assert conf["spark.ui.enabled"] == "false"


def test_secrets_stay_off_the_command_line() -> None:
    secret = {"spark.hadoop.fs.s3a.secret.key": "hunter2"}
    launch = select_launch_conf(conf_of(SparkSettings(conf=secret)))
    assert secret.keys().isdisjoint(launch)
    assert {"spark.master", "spark.driver.memory", "spark.driver.extraJavaOptions"} <= launch.keys()


def test_bad_settings_are_refused() -> None:
    with pytest.raises(SettingsError, match="at least 1 core, not 0"):
        SparkSettings(cores=0)
    with pytest.raises(SettingsError, match="at least 512 MB of memory, not 100"):
        SparkSettings(memory_mb=100)
    with pytest.raises(SettingsError, match="master is empty"):
        SparkSettings(master="")


@pytest.mark.parametrize(
    ("master", "local"),
    [
        ("local", True),
        ("local[*]", True),
        ("local[2,3]", True),
        ("local-cluster[2,1,1024]", False),
        ("spark://host:7077", False),
        ("k8s://https://host", False),
        ("yarn", False),
    ],
)
def test_what_is_decided_for_one_machine_is_for_a_local_master_alone(
    master: str, local: bool
) -> None:
    conf = conf_of(SparkSettings(master=master))
    one_machine = {"spark.driver.host", "spark.local.dir", "spark.sql.shuffle.partitions"}
    assert is_local(master) is local
    assert (one_machine & conf.keys()) == (one_machine if local else set())


def test_delta_joins_what_the_user_set() -> None:
    settings = SparkSettings(
        cores=3, conf={"spark.sql.extensions": "my.Extension", "spark.jars": "/mine.jar"}
    )
    conf = build_spark_conf(
        settings,
        MACHINE,
        scratch=SCRATCH,
        s3a_jars=[Path("/both.jar"), Path("/s3a.jar")],
        delta_jars=[Path("/both.jar"), Path("/delta.jar")],
    )
    assert conf["spark.sql.extensions"] == "my.Extension,io.delta.sql.DeltaSparkSessionExtension"
    assert conf["spark.sql.catalog.spark_catalog"].endswith("DeltaCatalog")
    assert conf["spark.jars"] == "/mine.jar,/both.jar,/s3a.jar,/delta.jar"
    assert conf["spark.databricks.delta.snapshotPartitions"] == "3"
    assert conf["spark.sql.sources.parallelPartitionDiscovery.parallelism"] == "3"


def test_without_delta_nothing_is_said_of_it() -> None:
    assert not [key for key in conf_of() if "delta" in key or "extensions" in key]
    cluster = SparkSettings(master="spark://host:7077")
    conf = build_spark_conf(cluster, MACHINE, scratch=SCRATCH, delta_jars=[])
    assert "spark.databricks.delta.snapshotPartitions" not in conf
    assert "spark.jars" not in conf


def test_the_file_system_is_chosen_before_spark_opens_it() -> None:
    """To look at its jars, before it hears of the other settings."""
    assert "spark.hadoop.fs.file.impl" in select_launch_conf(conf_of())


def test_local_spark_has_a_secret_and_a_cluster_s_owner_decides() -> None:
    for master in ("local", "local[2]", "local[*]", "local[2, 3]"):
        assert conf_of(SparkSettings(master=master))["spark.authenticate"] == "true"
    for master in ("spark://host:7077", "yarn", "local[nonsense]"):
        assert "spark.authenticate" not in conf_of(SparkSettings(master=master))
    mine = {"spark.authenticate": "false"}
    assert conf_of(SparkSettings(conf=mine))["spark.authenticate"] == "false"


def test_spark_hides_what_secret_settings_hold() -> None:
    names = ("spark.hadoop.my.own", "spark.mine[0]")
    conf = dict.fromkeys(names, "hunter2")
    by_spark = "(?i)secret|password|token|access[.]?key"

    ours = conf_of(SparkSettings(conf=conf, secret_names=names))["spark.redaction.regex"]
    also = {**conf, "spark.redaction.regex": "mine"}
    users = conf_of(SparkSettings(conf=also, secret_names=names))["spark.redaction.regex"]

    assert ours == rf"{by_spark}|my\.own|spark\.mine\[0\]"
    assert users == r"mine|my\.own|spark\.mine\[0\]"
    assert "spark.redaction.regex" not in conf_of(SparkSettings(conf=conf))
    assert "hunter2" not in repr(SparkSettings(conf=conf))
