"""What a machine has for tasks: Spark, Java and files."""

from __future__ import annotations

import importlib.metadata
import os
from pathlib import Path

from perago.adapters.localfs.disks import LocalDisk
from perago.adapters.localfs.scan import scan_directory
from perago.adapters.localfs.tree_index import TreeIndex
from perago.adapters.spark import SparkSettings
from perago.adapters.spark.gateway import require_pyspark
from perago.adapters.spark.java import find_java
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
