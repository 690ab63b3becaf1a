"""A warm JVM that attempts share without seeing each other."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from perago.adapters.spark import LocalSparkLease, LocalSparkSessions, SparkSettings
from perago.domain.errors import EnvironmentUnfitError
from perago.domain.ids import ExecutionId
from tests.integration.spark.conftest import QUICK, Lease, an_attempt
from tests.spark_archive import JAVA_VARIABLE

pytestmark = pytest.mark.spark


def wait_until(condition: Callable[[], bool], seconds: float = 60) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def jvm_pid(spark: SparkSession) -> int:
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    return int(gateway.proc.pid)


def local_properties(spark: SparkSession) -> str:
    return str(spark.sparkContext._jsc.sc().getLocalProperties().toString())


def test_attempts_share_a_jvm_and_see_nothing_of_each_other(lease: Lease) -> None:
    with lease() as first:
        spark = first.session
        context = spark.sparkContext
        application = context.applicationId
        spark.range(3).createOrReplaceTempView("mine")
        spark.range(3).createOrReplaceGlobalTempView("everybodys")
        spark.sql("CREATE DATABASE other")
        spark.sql("CREATE TABLE kept USING parquet AS SELECT 1 AS a")
        spark.udf.register("twice", lambda x: 2 * x)
        spark.conf.set("spark.sql.shuffle.partitions", "77")
        spark.range(5).cache().count()
        context.parallelize([1, 2]).cache().count()
        context._jsc.hadoopConfiguration().set("fs.s3a.secret.key", "mine")
        context.setLocalProperty("spark.scheduler.pool", "mine")
    with lease() as second:
        spark = second.session
        context = spark.sparkContext
        assert context.applicationId == application
        assert spark.catalog.listTables() == []
        assert spark.catalog.listTables("global_temp") == []
        assert [database.name for database in spark.catalog.listDatabases()] == ["default"]
        with pytest.raises(AnalysisException, match="twice"):
            spark.sql("SELECT twice(1)").collect()
        assert spark.conf.get("spark.sql.shuffle.partitions") == "4"
        assert context._jsc.getPersistentRDDs().isEmpty()
        assert context._jsc.hadoopConfiguration().get("fs.s3a.secret.key") is None
        assert context._jsc.hadoopConfiguration().get("test.secret") == "hunter2"
        assert context.getLocalProperty("spark.scheduler.pool") is None


def test_jobs_are_named_after_the_attempt_while_it_runs(
    lease: Lease, sessions: LocalSparkSessions
) -> None:
    with lease() as held:
        context = held.session.sparkContext
        assert context.getLocalProperty("spark.jobGroup.id") == "task-1-0"
        description = context.getLocalProperty("spark.job.description")
        assert description == "flights.clean as clean, workflow workflow-1"
    assert context.getLocalProperty("spark.jobGroup.id") is None


def test_get_or_create_gives_the_attempts_session(lease: Lease) -> None:
    with lease() as held:
        got = SparkSession.builder.config("spark.sql.shuffle.partitions", "9").getOrCreate()
        assert got is held.session is SparkSession.getActiveSession()
    with lease() as held:
        assert held.session.conf.get("spark.sql.shuffle.partitions") == "4"


def test_results_do_not_depend_on_where_the_worker_stands(lease: Lease) -> None:
    with lease() as held:
        row = held.session.sql("SELECT current_timezone() AS zone").head()
    assert row is not None
    assert row.zone == "UTC"


def test_python_functions_run_on_this_python(lease: Lease) -> None:
    with lease() as held:
        interpreter = F.udf(lambda _: sys.executable, "string")
        row = held.session.range(1).select(interpreter("id").alias("python")).head()
    assert row is not None
    assert row.python == sys.executable


def test_what_still_runs_is_cancelled(lease: Lease) -> None:
    failures: list[BaseException] = []

    def count_for_ever(spark: SparkSession) -> None:
        try:
            spark.range(10**15).selectExpr("sum(id % 7)").collect()
        except Exception as error:  # noqa: BLE001 - whatever Spark makes of a cancelled job
            failures.append(error)

    with lease() as held:
        tracker = held.session.sparkContext.statusTracker()
        thread = threading.Thread(target=count_for_ever, args=(held.session,))
        thread.start()
        assert wait_until(lambda: bool(tracker.getActiveJobsIds()))
    thread.join(60)
    assert not thread.is_alive()
    assert failures
    assert wait_until(lambda: not tracker.getActiveJobsIds())


def test_a_second_lease_at_once_is_refused(
    lease: Lease, sessions: LocalSparkSessions, tmp_path: Path
) -> None:
    others = LocalSparkSessions(QUICK, tmp_path)
    with lease():
        for refusing in (sessions, others):
            with (
                pytest.raises(EnvironmentUnfitError, match=r"join \(task-1\).*clean \(task-1\)"),
                refusing.lease(an_attempt("join"), ExecutionId("2")),
            ):
                pass
    with lease() as held:
        assert held.session.range(3).count() == 3


def test_a_failed_body_keeps_the_jvm(lease: Lease) -> None:
    pids = []

    def run_and_fail() -> None:
        with lease() as held:
            pids.append(jvm_pid(held.session))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run_and_fail()
    with lease() as held:
        assert pids == [jvm_pid(held.session)]


def test_secrets_are_not_on_the_command_line(lease: Lease) -> None:
    with lease() as held:
        pid = jvm_pid(held.session)
        shown = subprocess.run(
            ["ps", "-ww", "-o", "args=", "-p", str(pid)], capture_output=True, text=True, check=True
        )
    assert "spark.master=local[2]" in shown.stdout
    assert "hunter2" not in shown.stdout


def test_interrupts_are_still_pythons_own(lease: Lease) -> None:
    with lease():
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.slow
def test_a_body_that_ends_spark_costs_a_start(lease: Lease) -> None:
    with lease() as held:
        pids = [jvm_pid(held.session)]
        held.session.stop()
    with lease() as held:
        pids.append(jvm_pid(held.session))
        os.kill(pids[-1], signal.SIGKILL)
    with lease() as held:
        pids.append(jvm_pid(held.session))
        assert held.session.range(3).count() == 3
    assert len(set(pids)) == 3


@pytest.mark.slow
def test_two_sessions_in_one_process_take_turns_and_write_the_same_bytes(
    lease: Lease, tmp_path: Path
) -> None:
    def write(held: LocalSparkLease) -> dict[str, bytes]:
        rows = held.session.range(5000).selectExpr(
            "id % 7 AS k", "array(id) AS a", "cast(id % 3 AS string) AS s", "id / 3 AS d"
        )
        workspace = held.workspace(tmp_path / "in", tmp_path / "out")
        workspace.write(rows, "t", sort_by=["k"])
        names = workspace.ls("t", staged=True)
        return {name: (tmp_path / "out" / name).read_bytes() for name in names}

    others = LocalSparkSessions(QUICK, tmp_path / "scratch", tmp_path / "log")
    with lease() as held:
        application = held.session.sparkContext.applicationId
        written = write(held)
    with others.lease(an_attempt(), ExecutionId("1")) as held:
        assert held.session.sparkContext.applicationId != application
        assert write(held) == written
    with lease() as held:
        others.stop()
        assert held.session.range(3).select(F.max("id")).collect()[0][0] == 2
        assert held.session.sparkContext.applicationId == application


@pytest.mark.slow
def test_a_start_that_fails_says_why(tmp_path: Path) -> None:
    settings = SparkSettings(master="local[nonsense]", quick_start=True)
    broken = LocalSparkSessions(settings, tmp_path, tmp_path / "executor.log")
    with (
        pytest.raises(EnvironmentUnfitError, match=r"nonsense(?s:.*)executor\.log"),
        broken.lease(an_attempt(), ExecutionId("1")),
    ):
        pass


EXECUTOR = """
import os, signal, sys
from pathlib import Path
from perago.adapters.spark import LocalSparkSessions
from perago.domain.ids import ExecutionId
from tests.integration.spark.conftest import QUICK, an_attempt

root = Path(sys.argv[1])
answer = os.dup(1)
attempt_log = os.open(root / "attempt.log", os.O_CREAT | os.O_WRONLY)
os.dup2(attempt_log, 1)
os.dup2(attempt_log, 2)
sessions = LocalSparkSessions(QUICK, root / "scratch", root / "logs" / "executor.log")
with sessions.lease(an_attempt(), ExecutionId("1")) as lease:
    print("from the body", flush=True)
    logger = lease.session.sparkContext._jvm.org.apache.log4j.LogManager.getLogger("test")
    logger.warn("from the JVM")
    os.write(answer, b"%d\\n" % lease.session.sparkContext._gateway.proc.pid)
    signal.pause()
"""


@pytest.mark.slow
def test_the_jvm_has_its_own_log_and_ends_with_a_killed_parent(
    tmp_path: Path, project_root: Path
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", EXECUTOR, str(tmp_path)],
        cwd=project_root,
        # Java says which options it got from the environment, and the tests give it some.
        env={name: value for name, value in os.environ.items() if name != JAVA_VARIABLE},
        stdout=subprocess.PIPE,
    ) as executor:
        assert executor.stdout is not None
        jvm = int(executor.stdout.readline())
        executor.kill()
    assert wait_until(lambda: not is_running(jvm))
    assert (tmp_path / "attempt.log").read_text() == "from the body\n"
    log = (tmp_path / "logs" / "executor.log").read_text().splitlines()
    # What the JVM itself says cannot be configured; Spark's own start gives no warning.
    assert [line for line in log if "incubator modules" not in line] == [
        line for line in log if line.endswith("WARN test: from the JVM")
    ]
    assert any("from the JVM" in line for line in log)


def is_running(pid: int) -> bool:
    shown = subprocess.run(
        ["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return shown.stdout.strip() not in ("", "Z", "Zl")
