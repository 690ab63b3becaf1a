"""How Spark reads and writes a lakeFS server: through its S3 gateway, with Hadoop's S3A.

Invariant: a key is set for one repository at a time, and never with the prefix `spark.hadoop.`:
what is set so at run time is in Spark's event log. A JVM of one's own has it in Hadoop's
configuration alone; a session of a Spark Connect server has no other place than its settings.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from perago.domain.errors import EnvironmentUnfitError
from perago.domain.ids import RepositoryName

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject
    from pyspark import SparkContext

_PROTOCOL = "spark.sql.sources.commitProtocolClass"
S3A_CONF = {
    # The committer that is right for S3: files become visible when the job commits, without a
    # rename, and a job that fails or is killed leaves nothing to be seen.
    "spark.hadoop.fs.s3a.committer.name": "magic",
    "spark.hadoop.mapreduce.outputcommitter.factory.scheme.s3a": (
        "org.apache.hadoop.fs.s3a.commit.S3ACommitterFactory"
    ),
    _PROTOCOL: "org.apache.spark.internal.io.cloud.PathOutputCommitProtocol",
    "spark.sql.parquet.output.committer.class": (
        "org.apache.spark.internal.io.cloud.BindingParquetOutputCommitter"
    ),
    # A staging branch is nobody else's: no need to look whether a path is free before each write.
    "spark.hadoop.fs.s3a.create.performance": "true",
}
"""What Spark has to know before it starts."""

_PY4J_LOGGERS = ("py4j", "py4j.clientserver", "py4j.java_gateway")
_REGION = "us-east-1"
"""lakeFS has none; the SDK would look for one on the network if it were not named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Gateway:
    """Where a lakeFS server's S3 gateway is, and who asks."""

    endpoint: str
    access_key_id: str
    secret_access_key: str = field(repr=False)

    def hadoop_conf(self, repository: RepositoryName) -> dict[str, str]:
        """What Hadoop has to know to reach one repository, which S3A calls a bucket."""
        options = {
            "access.key": self.access_key_id,
            "secret.key": self.secret_access_key,
            "aws.credentials.provider": "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
            "endpoint": self.endpoint,
            "endpoint.region": _REGION,
            "path.style.access": "true",
            "connection.ssl.enabled": str(urlsplit(self.endpoint).scheme == "https").lower(),
        }
        return {f"fs.s3a.bucket.{repository}.{name}": value for name, value in options.items()}


NEEDED_CLASSES = (
    "org.apache.hadoop.fs.s3a.S3AFileSystem",
    "software.amazon.awssdk.services.s3.S3Client",
    "org.apache.spark.internal.io.cloud.PathOutputCommitProtocol",
)
"""One of each kind of jar: Hadoop's S3A, the SDK below it, and the committers above it."""


def open_repository(context: SparkContext, gateway: S3Gateway, repository: RepositoryName) -> None:
    """Let Spark reach a repository; what else was set in Hadoop's configuration stays."""
    hadoop = context._jsc.hadoopConfiguration()  # noqa: SLF001
    with _silent_py4j():
        for name, value in gateway.hadoop_conf(repository).items():
            hadoop.set(name, value)


def require_s3a(context: SparkContext, conf: Mapping[str, str]) -> None:
    """Raise for jars that are not there, where settings name what is in them.

    Before a session does anything: one whose settings name a class that is not there cannot tell
    its own errors, and pyspark tries for minutes.
    """
    if conf.get(_PROTOCOL) != S3A_CONF[_PROTOCOL]:
        return  # local workspaces, or a user who knows better
    hadoop = context._jsc.hadoopConfiguration()  # noqa: SLF001
    missing = [name for name in NEEDED_CLASSES if hadoop.getClassByNameOrNull(name) is None]
    if missing:
        raise EnvironmentUnfitError(
            f"Spark lacks jars that direct workspaces need: there is no class {missing[0]}",
            hint="unset PERAGO_SPARK_JARS to have them got from Maven Central once, or name all of "
            "them; `none` is for a Spark that has them",
        )


@contextmanager
def _silent_py4j() -> Iterator[None]:
    """Whatever a body set: at level DEBUG it logs every call, and these hold the key."""
    loggers = [logging.getLogger(name) for name in _PY4J_LOGGERS]
    before = [logger.disabled for logger in loggers]
    for logger in loggers:
        logger.disabled = True
    try:
        yield
    finally:
        for logger, disabled in zip(loggers, before, strict=True):
            logger.disabled = disabled


def connection_to(context: SparkContext, repository: RepositoryName) -> JavaObject:
    """The connection that Hadoop keeps to a repository, with the key that opened it."""
    jvm = context._jvm  # noqa: SLF001
    assert jvm is not None
    address = jvm.java.net.URI(f"s3a://{repository}/")
    hadoop = context._jsc.hadoopConfiguration()  # noqa: SLF001
    return jvm.org.apache.hadoop.fs.FileSystem.get(address, hadoop)
