"""An archive of Spark's classes, so that each JVM of the tests need not load and check them anew.

`make test` makes it first (`python -m tests.spark_archive`): Java's class-data sharing, which takes
a session's start and a small job from 12 s of processor time to 7 s. It holds for one Java and one
installation of pyspark, so it is kept beside the latter, in the virtual environment.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

from perago.adapters.file_lock import hold_file_lock
from perago.adapters.localfs.java import JavaInstallation
from perago.adapters.spark.java import find_java
from perago.domain.errors import EnvironmentUnfitError

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
    told = release.read_bytes() if release.is_file() else str(java.version).encode()
    key = hashlib.sha256(told + str(java.home.resolve()).encode()).hexdigest()[:12]
    return Path(sys.prefix) / f"spark-{version('pyspark')}-{key}.jsa"


def make_archive() -> None:
    """Make the archive where it is not there yet."""
    java = find_java(os.environ)
    place = _place(java)
    with hold_file_lock(place.with_suffix(".lock")):
        if place.is_file():
            return
        print("archiving Spark's classes (once; about half a minute) …", flush=True)  # noqa: T201
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
            if done.returncode != 0 or not made.is_file():
                sys.exit(f"cannot archive Spark's classes:\n{done.stdout}")
            made.replace(place)


def _use_spark(files: Path) -> None:
    """Do a little of all that tests do, and wait until the JVM has ended and written its file."""
    from pyspark.sql import SparkSession, Window
    from pyspark.sql import functions as f

    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.catalogImplementation", "in-memory")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    rows = spark.range(2_000).withColumn("key", f.col("id") % 7).withColumn("text", f.lit("a,b"))
    rows.write.partitionBy("key").parquet(str(files / "parquet"))
    rows.write.option("header", "true").csv(str(files / "csv"))
    read = spark.read.option("header", "true").csv(str(files / "csv"), inferSchema=True)
    keys = spark.createDataFrame([(0, "zero"), (1, "one")], "key long, name string")
    window = Window.partitionBy("name").orderBy("id")
    joined = read.join(keys, "key").withColumn("rank", f.rank().over(window))
    grouped = joined.groupBy("name").agg(
        f.avg("rank"), f.count("*"), f.percentile("id", f.lit(0.9))
    )
    assert grouped.count() == 2
    assert spark.read.parquet(str(files / "parquet")).where("key = 3").count() > 0
    double = f.udf(lambda number: 2 * number, "long")
    assert rows.select(double("id")).limit(3).collect()[-1][0] == 4
    rows.createOrReplaceTempView("rows")
    assert spark.sql("select max(id) from rows").collect()[0][0] == 1_999
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    process = gateway.proc
    spark.stop()
    # The JVM ends when nobody writes to it any more.
    process.stdin.close()
    process.wait()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        _use_spark(Path(sys.argv[1]) / "files")
    else:
        make_archive()
