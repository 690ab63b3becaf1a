"""How Spark is configured, as a pure function of the settings.

Invariant: whatever the user sets wins over what is decided here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from perago.adapters.spark.delta import add_delta_conf
from perago.adapters.spark.s3a import S3A_CONF
from perago.domain.errors import SettingsError

SMALLEST_HEAP_MB = 512
"""Spark refuses to start with a heap below about 450 MB."""

LARGEST_DEFAULT_HEAP_MB = 8192
"""More than this is given on request only: a big heap on a shared machine helps nobody."""

LOG_CONFIGURATION_NAME = "log4j2.properties"
"""The file below the scratch directory that keeps Spark's log to what matters."""

SESSION_CONF = {
    # Results must not depend on where the worker stands.
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.adaptive.enabled": "true",
    # So that a body which writes to `uri_out` by itself leaves no `_SUCCESS`.
    "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
    # By default, the end of a stream is waited for without a limit.
    "spark.sql.streaming.stopTimeout": "30s",
}
"""What every session has, whoever runs Spark."""

RAW_FILES_CONF = {
    # Else there is a `.crc` beside each local file.
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    # Hadoop's other way to the same files, which Delta takes for its log.
    "spark.hadoop.fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.RawLocalFs",
}
"""What sessions on local files have besides."""

_SECRET_OF_ITS_OWN = re.compile(r"local(\[(\d+|\*)(\s*,\s*\d+)?\])?")
"""Masters for which Spark makes a secret by itself; with any other it wants to be told one."""

_REDACTED = "spark.redaction.regex"
_REDACTED_BY_SPARK = "(?i)secret|password|token|access[.]?key"
"""Spark's own choice, which a setting replaces."""

_JARS = "spark.jars"
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"

_LAUNCH_PREFIXES = (
    "spark.master",
    "spark.driver.",
    "spark.jars",
    "spark.files",
    "spark.archives",
    "spark.submit.",
    # Spark opens the file system to look for its jars, and keeps the one that it got.
    "spark.hadoop.fs.file.impl",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What all executors of one worker share."""

    cores: int
    memory_mb: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkSettings:
    """What a user can say about Spark; `conf` are Spark's own settings and win over all else.

    `cores` and `memory_mb` are for all executors of the worker together. By default: every core,
    and half of the memory. With master `local` each executor gets its share of the cores;
    `local[3]` is taken as it is, for each executor. `quick_start` has the JVM compile less: it
    starts, and does small work, in about half the time, and is slower at long work. Spark shows
    nowhere what the settings named in `secret_names` hold.
    """

    master: str = "local"
    cores: int | None = None
    memory_mb: int | None = None
    quick_start: bool = False
    conf: Mapping[str, str] = field(default_factory=dict, repr=False)
    secret_names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.master:
            raise SettingsError("the Spark master is empty", hint='"local" is the default')
        if self.cores is not None and self.cores < 1:
            raise SettingsError(f"Spark needs at least 1 core, not {self.cores}")
        if self.memory_mb is not None and self.memory_mb < SMALLEST_HEAP_MB:
            raise SettingsError(
                f"Spark needs at least {SMALLEST_HEAP_MB} MB of memory, not {self.memory_mb}"
            )


def build_spark_conf(
    settings: SparkSettings,
    machine: Machine,
    *,
    scratch: Path,
    executors: int = 1,
    s3a_jars: Sequence[Path] | None = None,
    delta_jars: Sequence[Path] | None = None,
) -> dict[str, str]:
    """Spark's settings for one of the executor processes that share a machine.

    Everything that Spark writes by itself goes below `scratch`. `s3a_jars` is for a Spark that
    reaches the store by itself, `delta_jars` for one with Delta tables; they are empty where Spark
    has them already.
    """
    cores = _share_of_cores(settings, machine, executors)
    conf = {
        "spark.app.name": "perago",
        "spark.master": f"local[{cores}]" if _divides_cores(settings.master) else settings.master,
        "spark.driver.memory": f"{_share_of_memory(settings, machine, executors)}m",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        **SESSION_CONF,
    }
    if is_local(settings.master):
        conf |= {
            # One machine: never reachable from another, whatever its host name resolves to.
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.sql.shuffle.partitions": str(max(4, 2 * cores)),
            # A cluster's machines have disks of their own.
            "spark.local.dir": str(scratch / "local"),
        }
    if _SECRET_OF_ITS_OWN.fullmatch(conf["spark.master"]):
        # Nor by other users of this machine: the secret of each start is in its memory alone.
        conf["spark.authenticate"] = "true"
    if s3a_jars is not None:
        conf |= S3A_CONF
        if is_local(settings.master):
            # What is on its way to the store. Hadoop's own choice is one directory for everybody
            # on the machine, where nobody removes what a killed process leaves.
            conf["spark.hadoop.fs.s3a.buffer.dir"] = str(scratch / "tmp")
    else:
        # Not where S3A is: it takes the other class for granted.
        conf |= RAW_FILES_CONF
    conf |= dict(settings.conf)
    if settings.secret_names:
        conf[_REDACTED] = _redacted_names(settings)
    if delta_jars is not None:
        conf = add_delta_conf(conf, small_tasks=cores if is_local(settings.master) else None)
    jars = [*(s3a_jars or ()), *(delta_jars or ())]
    if jars:
        own = [conf[_JARS]] if conf.get(_JARS) else []
        # Each once: jars of the user's own are named for both.
        conf[_JARS] = ",".join(dict.fromkeys([*own, *map(str, jars)]))
    return conf | {_JAVA_OPTIONS: _java_options(settings, scratch)}


def select_launch_conf(conf: Mapping[str, str]) -> dict[str, str]:
    """What the JVM must know before it starts, and so goes on its command line.

    Everybody on the machine can read a command line: all other settings, secrets among them, are
    given to Spark afterwards.
    """
    return {key: value for key, value in conf.items() if key.startswith(_LAUNCH_PREFIXES)}


def is_local(master: str) -> bool:
    """Whether all of Spark runs beside this process, and so sees the same files."""
    return re.fullmatch(r"local(\[.*\])?", master) is not None


def _redacted_names(settings: SparkSettings) -> str:
    """What Spark's pages, its event log and its log hide, by name: the user's word and ours."""
    # Hadoop's settings are shown without the prefix.
    names = (name.removeprefix("spark.hadoop.") for name in settings.secret_names)
    quoted = map(re.escape, sorted(set(names)))
    return "|".join([settings.conf.get(_REDACTED, _REDACTED_BY_SPARK), *quoted])


def _divides_cores(master: str) -> bool:
    return master in ("local", "local[*]")


def _share_of_cores(settings: SparkSettings, machine: Machine, executors: int) -> int:
    return max(1, (settings.cores or machine.cores) // executors)


def _share_of_memory(settings: SparkSettings, machine: Machine, executors: int) -> int:
    if settings.memory_mb is not None:
        return max(SMALLEST_HEAP_MB, settings.memory_mb // executors)
    share = machine.memory_mb // 2 // executors
    return max(SMALLEST_HEAP_MB, min(share, LARGEST_DEFAULT_HEAP_MB))


def _java_options(settings: SparkSettings, scratch: Path) -> str:
    options = [
        # A URI is percent-encoded; a directory must be quoted, or a space in it ends the option.
        f"-Dlog4j2.configurationFile={(scratch / LOG_CONFIGURATION_NAME).as_uri()}",
        f'"-Djava.io.tmpdir={scratch / "tmp"}"',
    ]
    if settings.quick_start:
        options.append("-XX:TieredStopAtLevel=1")
    if _JAVA_OPTIONS in settings.conf:
        # Last, for the last of two options wins.
        options.append(settings.conf[_JAVA_OPTIONS])
    return " ".join(options)
