"""The jars that Spark's wheel leaves out: got once, by Spark's own resolver, and kept.

Invariants: a directory of jars in the cache is whole: it is made beside it and moved in. A set that
is there is used without a look at the network. No jar is used whose content is not the one that is
written down in `jar_hashes`.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from perago.adapters.environment import without_own_variables
from perago.adapters.localfs.java import JavaInstallation
from perago.adapters.progress import Progress
from perago.adapters.spark.jar_hashes import DELTA_HASHES, S3A_HASHES
from perago.domain.errors import EnvironmentUnfitError
from perago.system.directories import (
    make_private_directories,
    scratch_directory,
    sweep_scratch_directories,
)
from perago.system.file_lock import hold_file_lock
from perago.system.state_files import read_state
from perago.system.tags import Tag

_MANIFEST = "jars.json"
_RESOLVER = "org.apache.spark.deploy.SparkSubmit"
_DOES_NOTHING = "scala.util.Properties"
"""A class of Spark's own with a `main` that prints a line: resolving is all that is wanted."""
_SHOWN_LINES = 3
_PATIENCE_SECONDS = 600
_OTHER_WAYS = (
    "Spark gets them from Maven Central: see to the network and try again, or name jars of your "
    "own with PERAGO_SPARK_JARS"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class JarSet:
    """What is needed for one purpose, as Maven coordinates."""

    name: str
    packages: tuple[str, ...]
    excludes: tuple[str, ...] = ()
    hashes: Mapping[str, str] = field(hash=False)
    """The SHA-256 of each jar, by its name in the cache."""


S3A = JarSet(
    name="s3a",
    packages=(
        "org.apache.hadoop:hadoop-aws:3.4.2",
        "software.amazon.awssdk:s3:2.29.52",
        "software.amazon.awssdk:s3-transfer-manager:2.29.52",
        "org.apache.spark:spark-hadoop-cloud_2.13:4.1.1",
    ),
    # Half a gigabyte of the SDK's other services, the connectors of other clouds, and what Spark
    # has in another version already.
    excludes=(
        "software.amazon.awssdk:bundle",
        "com.fasterxml.jackson.core:*",
        "com.fasterxml.jackson.dataformat:*",
        "com.google.cloud.bigdataoss:gcs-connector",
        "com.squareup.okhttp3:*",
        "com.squareup.okio:*",
        "commons-codec:commons-codec",
        "io.netty:*",
        "joda-time:joda-time",
        "org.apache.hadoop:hadoop-aliyun",
        "org.apache.hadoop:hadoop-annotations",
        "org.apache.hadoop:hadoop-azure",
        "org.apache.hadoop:hadoop-azure-datalake",
        "org.apache.hadoop:hadoop-client-api",
        "org.apache.hadoop:hadoop-client-runtime",
        "org.apache.hadoop:hadoop-cloud-storage",
        "org.apache.hadoop:hadoop-huaweicloud",
        "org.apache.httpcomponents:*",
        "org.eclipse.jetty:*",
        "org.slf4j:slf4j-api",
    ),
    hashes=S3A_HASHES,
)
"""Hadoop's S3A and the committers for it, in the versions that Spark 4.1 goes with."""

DELTA = JarSet(
    name="delta",
    packages=("io.delta:delta-spark_4.1_2.13:4.1.0",),
    # What Spark has already, some of it in another version.
    excludes=(
        "com.fasterxml.jackson.core:*",
        "com.google.code.findbugs:jsr305",
        "org.antlr:antlr4-runtime",
        "org.apache.logging.log4j:*",
        "org.slf4j:slf4j-api",
    ),
    hashes=DELTA_HASHES,
)
"""Delta Lake, in the version that Spark 4.1 goes with."""


SCRATCH_TAG = Tag(
    purpose="scratch space for jars",
    advice="choose another cache directory (PERAGO_CACHE_DIRECTORY)",
)


class JarCache:
    """Sets of jars below a directory that many processes may share."""

    def __init__(self, directory: Path, progress: Progress | None = None) -> None:
        self._directory = directory
        self._progress = progress

    def find(self, jars: JarSet) -> list[Path] | None:
        """The jars of a set, if they were got before; raises for jars of another content."""
        place = self._place(jars)
        try:
            sizes = read_state(place / _MANIFEST, may_be_another_user_s=True)
            if not isinstance(sizes, dict):
                return None
            found = {name: (place / name).stat().st_size for name in sizes}
        except (OSError, ValueError):
            return None
        if found != sizes or sizes.keys() != jars.hashes.keys():
            return None  # damaged: it is got again
        if strange := _find_strange(place, jars):
            raise EnvironmentUnfitError(
                f"{place / strange} is not the jar that Perago was tested with: it has another "
                "SHA-256",
                hint=f"find out who changed it; once {place} is removed, the jars are got again",
            )
        return [place / name for name in sorted(found)]

    def get(self, jars: JarSet, java: JavaInstallation) -> list[Path]:
        """The jars of a set, got now if need be; `EnvironmentUnfitError` where that fails."""
        found = self.find(jars)
        if found is not None:
            return found
        make_private_directories(self._directory)
        waiting = f"waiting for another process that gets the jars for {jars.name}"
        lock = self._directory / f"{jars.name}.lock"
        on_wait = None if self._progress is None else self._progress.while_waiting(waiting)
        with hold_file_lock(lock, on_wait=on_wait):
            return self.find(jars) or self._resolve(jars, java)

    def _place(self, jars: JarSet) -> Path:
        key = hashlib.sha256(json.dumps([jars.packages, jars.excludes]).encode()).hexdigest()
        return self._directory / f"{jars.name}-{key[:12]}"

    def _resolve(self, jars: JarSet, java: JavaInstallation) -> list[Path]:
        if self._progress is not None:
            self._progress.say(f"getting the jars for {jars.name} from Maven Central (once) …")
        place = self._place(jars)
        prefix = f".{jars.name}-"
        sweep_scratch_directories(self._directory, SCRATCH_TAG, prefix)
        with scratch_directory(self._directory, SCRATCH_TAG, prefix) as scratch:
            _run_resolver(jars, java, scratch)
            made = scratch / "jars"
            if strange := _find_strange(made, jars):
                raise EnvironmentUnfitError(
                    f"the repository gave another {strange} than the one that Perago was tested "
                    "with: it has another SHA-256",
                    hint="see where Maven Central's jars come from here (a mirror may have changed "
                    "them), or name jars of your own with PERAGO_SPARK_JARS",
                )
            sizes = {path.name: path.stat().st_size for path in made.glob("*.jar")}
            (made / _MANIFEST).write_text(json.dumps(sizes, indent=1), encoding="utf-8")
            # What is there lacks a jar. It goes with the scratch directory.
            with suppress(FileNotFoundError):
                place.rename(scratch / "replaced")
            made.rename(place)
        return [place / name for name in sorted(sizes)]


def _find_strange(directory: Path, jars: JarSet) -> str | None:
    """The first jar, by name, that is missing, not expected, or has another content."""
    there = {path.name for path in directory.glob("*.jar")}
    for name in sorted(there | jars.hashes.keys()):
        if name not in there or _sha256(directory / name) != jars.hashes.get(name):
            return name
    return None


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _run_resolver(jars: JarSet, java: JavaInstallation, scratch: Path) -> None:
    import pyspark

    try:
        answer = _resolve_into(scratch, jars, java, Path(pyspark.__file__).parent)
    except subprocess.TimeoutExpired:
        raise EnvironmentUnfitError(
            f"cannot get the jars for {jars.name}: nothing came for {_PATIENCE_SECONDS} s",
            hint=_OTHER_WAYS,
        ) from None
    if answer.returncode != 0 or not any((scratch / "jars").glob("*.jar")):
        raise EnvironmentUnfitError(
            f"cannot get the jars for {jars.name}: {_reason(answer.stderr)}", hint=_OTHER_WAYS
        )


def _resolve_into(
    scratch: Path, jars: JarSet, java: JavaInstallation, spark: Path
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            str(java.program),
            *("-cp", str(spark / "jars" / "*"), _RESOLVER),
            *("--packages", ",".join(jars.packages)),
            *("--exclude-packages", ",".join(jars.excludes)),
            *("--conf", f"spark.jars.ivy={scratch}"),
            *("--class", _DOES_NOTHING, "spark-internal"),
        ],
        cwd=scratch,
        # Not the reader's own Spark settings.
        env={
            **without_own_variables(os.environ),
            "JAVA_HOME": str(java.home),
            "SPARK_CONF_DIR": str(scratch),
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=_PATIENCE_SECONDS,
        check=False,
    )


def _reason(said: str) -> str:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    telling = [line for line in lines if "Exception" in line or "unresolved" in line.lower()]
    return "; ".join((telling or lines)[:_SHOWN_LINES]) or "the resolver said nothing"
