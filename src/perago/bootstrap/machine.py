"""What a machine has for tasks: Spark, Java and files."""

from __future__ import annotations

import importlib.metadata
import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from perago.adapters.localfs.disks import LocalDisk
from perago.adapters.localfs.java import JavaInstallation
from perago.adapters.localfs.scan import scan_directory
from perago.adapters.localfs.tree_index import TreeIndex
from perago.adapters.progress import Progress
from perago.adapters.spark import (
    DELTA,
    S3A,
    DirectAccess,
    FindJars,
    JarCache,
    JarSet,
    S3Gateway,
    SparkSettings,
)
from perago.adapters.spark.gateway import require_pyspark
from perago.adapters.spark.java import find_java
from perago.bootstrap.stores import lakefs_connection
from perago.domain.errors import SettingsError
from perago.ports import LocalTree
from perago.settings import Settings


def spark_settings(settings: Settings) -> SparkSettings:
    """The Spark part of the settings, as its adapter takes it."""
    return SparkSettings(
        master=settings.spark_master,
        cores=settings.spark_cores,
        memory_mb=settings.spark_memory_mb,
        conf=dict(settings.spark_conf),
    )


def direct_access(settings: Settings) -> DirectAccess | None:
    """What Spark needs to reach the store by itself; None where no other program can."""
    if settings.store != "lakefs":
        return None
    connection = lakefs_connection(settings)
    return DirectAccess(
        gateway=S3Gateway(
            endpoint=connection.endpoint,
            access_key_id=connection.access_key_id,
            secret_access_key=connection.secret_access_key,
        ),
        jars=partial(_find_jars, settings, S3A),
    )


def delta_jars(settings: Settings) -> FindJars | None:
    """What finds the jars of Delta Lake; None where there are no such tables."""
    return partial(_find_jars, settings, DELTA) if settings.spark_tables == "delta" else None


def get_jars(
    settings: Settings, environment: Mapping[str, str], progress: Progress, *, direct: bool = True
) -> list[Path]:
    """The jars that Spark needs besides its own, got now if need be.

    Those for direct workspaces, unless told otherwise, and those of the table format.
    """
    wanted = [*([S3A] if direct else []), *([DELTA] if settings.spark_tables == "delta" else [])]
    if not wanted:
        return []
    require_pyspark()
    java = find_java(environment)
    found = [jar for jars in wanted for jar in _find_jars(settings, jars, java, progress)]
    return list(dict.fromkeys(found))


def _find_jars(
    settings: Settings, wanted: JarSet, java: JavaInstallation, progress: Progress | None = None
) -> list[Path]:
    if settings.spark_jars is None:
        return JarCache(settings.cache_directory / "spark", progress).get(wanted, java)
    if settings.spark_jars == "none":
        return []
    jars = [Path(jar.strip()).expanduser() for jar in settings.spark_jars.split(",")]
    missing = [str(jar) for jar in jars if not jar.is_file()]
    if missing:
        raise SettingsError(
            f"spark_jars names {', '.join(missing)}, which is no file",
            hint="correct PERAGO_SPARK_JARS; unset, the jars are got from Maven Central once",
        )
    return jars


def describe_spark() -> str:
    """The Spark and the Java that tasks get; `EnvironmentUnfitError` where either is missing."""
    require_pyspark()
    java = find_java(os.environ)
    return f"pyspark {importlib.metadata.version('pyspark')}, Java {java.version} in {java.home}"


def scan_tree(directory: Path) -> LocalTree:
    """The files of any directory, hashed; for imports."""
    return scan_directory(directory, TreeIndex())


def disk_of(directory: Path) -> LocalDisk:
    """The disk of any directory, which need not exist yet; for exports."""
    return LocalDisk(directory)
