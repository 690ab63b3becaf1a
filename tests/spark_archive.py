"""An archive of Spark's classes, so that each JVM of the tests need not load and check them anew.

`make test` makes it first (`python -m tests.spark_archive`): Java's class-data sharing, which takes
a session's start and a small job from 12 s of processor time to 7 s. It holds for one Java, one
set of jars and one installation of pyspark, so it is kept beside the latter, in the virtual
environment.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from perago.adapters.localfs.java import JavaInstallation
from perago.adapters.spark import DELTA, S3A, JarCache, JarSet
from perago.adapters.spark.delta import add_delta_conf
from perago.adapters.spark.java import find_java
from perago.adapters.spark.s3a import S3A_CONF
from perago.domain.errors import EnvironmentUnfitError
from perago.settings import resolve_settings
from perago.system.file_lock import hold_file_lock

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAVA_VARIABLE = "JDK_JAVA_OPTIONS"
"""Read by every `java`, also by those that Spark starts on its own machines."""

_QUICK = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""Compile less, and collect garbage with one thread: jobs are small, and cores are shared."""


def java_options() -> str | None:
    """Options for the JVMs of the tests; None where there is no Java for Spark."""
    try:
        archive = _place(find_java(os.environ))
    except EnvironmentUnfitError:
        return None
    # A quoted path may have a space.
    shared = [f'"-XX:SharedArchiveFile={archive}"'] if archive.is_file() else []
    return " ".join([*_QUICK, *shared])


def _place(java: JavaInstallation) -> Path:
    release = java.home / "release"
    told = release.read_text() if release.is_file() else str(java.version)
    held = [told, java.home.resolve(), *_jars_in_cache(S3A), *_jars_in_cache(DELTA)]
    key = hashlib.sha256("\n".join(map(str, held)).encode()).hexdigest()[:12]
    return Path(sys.prefix) / f"spark-{version('pyspark')}-{key}.jsa"


def _jars_in_cache(jars: JarSet) -> list[Path]:
    """The jars of a set; none where they could not be fetched."""
    return JarCache(resolve_settings().settings.cache_directory / "spark").find(jars) or []


def make_archive() -> None:
    """Make the archive if it is missing. Tests run without one, too, only more slowly."""
    try:
        java = find_java(os.environ)
    except EnvironmentUnfitError as error:
        print(f"no archive of Spark's classes: {error.message}", flush=True)
        return
    place = _place(java)
    with hold_file_lock(place.with_suffix(".lock")):
        if place.is_file():
            return
        print("archiving Spark's classes (once; about half a minute) …", flush=True)
        with tempfile.TemporaryDirectory(dir=place.parent) as scratch:
            made = Path(scratch) / "made.jsa"
            options = [*_QUICK, f'"-XX:ArchiveClassesAtExit={made}"']
            done = subprocess.run(
                [sys.executable, "-m", __spec__.name, scratch],
                env=os.environ
                | {
                    "JAVA_HOME": str(java.home),
                    "SPARK_LOCAL_IP": "127.0.0.1",
                    JAVA_VARIABLE: " ".join(options),
                },
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
            )
            if done.returncode == 0 and made.is_file():
                made.replace(place)
            else:
                print(f"no archive of Spark's classes:\n{done.stdout}", flush=True)


def _use_spark(files: Path) -> None:
    """Do a little of what the tests do, then wait until the JVM has written its file and ended."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]")
    conf = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.local.dir": str(files),
        "spark.sql.warehouse.dir": str(files / "warehouse"),
    }
    s3a, delta = _jars_in_cache(S3A), _jars_in_cache(DELTA)
    conf["spark.jars"] = ",".join(map(str, s3a + delta))
    if s3a:
        conf |= S3A_CONF | {
            # No server listens there: the failed read is enough to load S3A's classes.
            "spark.hadoop.fs.s3a.endpoint": "http://127.0.0.1:9",
            "spark.hadoop.fs.s3a.access.key": "nobody",
            "spark.hadoop.fs.s3a.secret.key": "nothing",
            "spark.hadoop.fs.s3a.attempts.maximum": "1",
            "spark.hadoop.fs.s3a.retry.limit": "0",
        }
    if delta:
        conf = add_delta_conf(conf, small_tasks=2)
    for name, value in conf.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    _use_files(spark, files)
    if delta:
        _use_delta(spark, str(files / "table"))
    if s3a:
        with suppress(Exception):
            spark.read.parquet("s3a://nowhere/main/t")
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    process = gateway.proc
    spark.stop()
    # Closing its standard input ends the JVM.
    process.stdin.close()
    process.wait()


def _use_files(spark: SparkSession, files: Path) -> None:
    from pyspark.sql import Window
    from pyspark.sql import functions as F  # noqa: N812 - the name that everybody gives it

    rows = spark.range(2_000).withColumn("key", F.col("id") % 7).withColumn("text", F.lit("a,b"))
    rows.write.partitionBy("key").parquet(str(files / "parquet"))
    rows.write.option("header", "true").csv(str(files / "csv"))
    read = spark.read.option("header", "true").csv(str(files / "csv"), inferSchema=True)
    keys = spark.createDataFrame([(0, "zero"), (1, "one")], "key long, name string")
    ranked = F.rank().over(Window.partitionBy("name").orderBy("id"))
    joined = read.join(keys, "key").withColumn("rank", ranked)
    high = F.percentile("id", F.lit(0.9))
    assert joined.groupBy("name").agg(F.avg("rank"), F.count("*"), high).count() == 2
    assert spark.read.parquet(str(files / "parquet")).where("key = 3").count() > 0
    double = F.udf(lambda number: 2 * number, "long")
    assert rows.select(double("id")).limit(3).collect()[-1][0] == 4
    rows.createOrReplaceTempView("rows")
    assert spark.sql("select max(id) from rows").collect()[0][0] == 1_999


def _use_delta(spark: SparkSession, table: str) -> None:
    for mode in ("overwrite", "append", "overwrite"):
        spark.range(9).selectExpr("id", "id % 3 AS m").write.format("delta").mode(mode).save(table)
    spark.sql(
        f"MERGE INTO delta.`{table}` AS t USING (SELECT 1L AS id, 7L AS m) AS s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    spark.sql(f"DELETE FROM delta.`{table}` WHERE id < 1")
    assert spark.read.format("delta").option("versionAsOf", 1).load(table).count() == 18
    assert spark.read.format("delta").load(table).count() == 8


if __name__ == "__main__":
    if len(sys.argv) > 1:
        _use_spark(Path(sys.argv[1]) / "files")
    else:
        make_archive()
