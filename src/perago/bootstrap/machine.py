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
    ConnectSettings,
    ConnectSparkSessions,
    DirectAccess,
    FindJars,
    JarCache,
    JarSet,
    LocalSparkSessions,
    S3Gateway,
    SparkSettings,
    TaskCode,
    is_local,
)
from perago.adapters.spark.connect import require_server
from perago.adapters.spark.gateway import require_pyspark
from perago.adapters.spark.java import find_java
from perago.adapters.spark.scratch import require_own_scratch
from perago.bootstrap.stores import lakefs_connection
from perago.domain.errors import SettingsError
from perago.ports import LocalTree, SparkSessions
from perago.settings import Settings
from perago.settings.spark_names import is_harmless


def open_spark(settings: Settings, *, executor: int) -> SparkSessions:
    """Spark for the executor with this number: a server's, or one of its own.

    `EnvironmentUnfitError` where its scratch space is not Perago's: at the start, and not in the
    first attempt.
    """
    scratch = settings.attempts_root / "spark" / f"executor-{executor}"
    require_own_scratch(scratch)
    if settings.spark_remote is not None:
        return ConnectSparkSessions(
            _connect_settings(settings),
            scratch,
            gateway=_s3_gateway(settings),
            code=_task_code(settings),
        )
    direct = None
    if settings.store == "lakefs":
        direct = DirectAccess(
            gateway=_s3_gateway(settings), jars=partial(_find_jars, settings, S3A)
        )
    return LocalSparkSessions(
        SparkSettings(
            master=settings.spark_master,
            cores=settings.spark_cores,
            memory_mb=settings.spark_memory_mb,
            conf=dict(settings.spark_conf),
            secret_names=tuple(name for name in settings.spark_conf if not is_harmless(name)),
        ),
        scratch,
        executor_log=settings.logs_directory / f"executor-{executor}.log",
        executors=settings.executors,
        direct=direct,
        delta_jars=delta_jars(settings),
        code=_task_code(settings),
    )


def _connect_settings(settings: Settings) -> ConnectSettings:
    assert settings.spark_remote is not None
    return ConnectSettings(
        remote=settings.spark_remote.get_secret_value(), conf=dict(settings.spark_conf)
    )


def spark_is_elsewhere(settings: Settings) -> bool:
    """Whether the machines that Spark runs on are not this one."""
    return settings.spark_remote is not None or not is_local(settings.spark_master)


def _task_code(settings: Settings) -> TaskCode | None:
    """What Spark's machines must be sent of the tasks' code; None where they have it."""
    names = (settings.spark_py_files or "").split(",")
    libraries = tuple(Path(name.strip()).expanduser() for name in names if name.strip())
    if not spark_is_elsewhere(settings) or not (settings.spark_ship_code or libraries):
        return None
    return TaskCode(with_modules=settings.spark_ship_code, libraries=libraries)


def _s3_gateway(settings: Settings) -> S3Gateway | None:
    """Where and as whom Spark reaches the store; None where no other program can, or it knows."""
    if settings.store != "lakefs" or settings.spark_credentials == "cluster":
        return None
    connection = lakefs_connection(settings)
    return S3Gateway(
        endpoint=connection.endpoint,
        access_key_id=connection.access_key_id,
        secret_access_key=connection.secret_access_key,
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


def describe_spark(settings: Settings) -> str:
    """The Spark that tasks get; `EnvironmentUnfitError` where it, or its Java, is missing."""
    require_pyspark()
    client = f"pyspark {importlib.metadata.version('pyspark')}"
    if settings.spark_remote is not None:
        require_server(_connect_settings(settings))
        return f"{client}, Spark Connect server {settings.spark_address}"
    java = find_java(os.environ)
    return f"{client}, Java {java.version} in {java.home}"


def scan_tree(directory: Path) -> LocalTree:
    """The files of any directory, hashed; for imports."""
    return scan_directory(directory, TreeIndex())


def disk_of(directory: Path) -> LocalDisk:
    """The disk of any directory, which need not exist yet; for exports."""
    return LocalDisk(directory)
