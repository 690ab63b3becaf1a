"""Which errors of Spark judge a table, and which only say that nobody could look at it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.errors.exceptions.connect import SparkConnectGrpcException

from perago import require_rows
from perago.adapters.spark import SparkGuardrailEvaluator
from perago.domain.errors import EnvironmentUnfitError
from perago.ports import SparkWorkspace


def failing_with(error: Exception) -> SparkWorkspace:
    """A workspace whose table has one file, which cannot be read."""

    def fail(*_files: str) -> None:
        raise error

    reader = SimpleNamespace(parquet=fail)
    reader.option = lambda *_option: reader
    return cast("SparkWorkspace", SimpleNamespace(read=reader, ls=lambda: ["t/part-0.parquet"]))


@pytest.mark.parametrize(
    "error",
    [
        AnalysisException("[PATH_NOT_FOUND] there is no such path"),
        PySparkException("[FAILED_READ_FILE.NO_HINT] Encountered error while reading file"),
        PySparkException("[CANNOT_MERGE_SCHEMAS] Failed merging schemas"),
        SparkConnectGrpcException(
            "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file",
            server_stacktrace="java.lang.RuntimeException: s3a://lake/x is not a Parquet file\n"
            "    at software.amazon.awssdk.core.internal.ApiCallTimeoutTrackingStage.execute",
        ),
    ],
)
def test_a_bad_file_is_a_violation(error: Exception) -> None:
    (found,) = SparkGuardrailEvaluator().violations([require_rows("t")], failing_with(error))
    assert found.startswith("t: the table cannot be read")


@pytest.mark.parametrize(
    "error",
    [
        Py4JNetworkError("Answer from Java side is empty"),
        PySparkException("<_InactiveRpcError> UNAVAILABLE: connection refused"),
        PySparkException("Job aborted due to stage failure: ExecutorLostFailure"),
        PySparkException(
            "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file\n"
            "Caused by: org.apache.hadoop.fs.s3a.AWSStatus500Exception: 503"
        ),
        *(
            PySparkException(f"[FAILED_READ_FILE.NO_HINT] Encountered error\nCaused by: {cause}")
            for cause in (
                "java.nio.file.AccessDeniedException: s3a://lake/x: S3Exception: 403",
                "org.apache.hadoop.fs.s3a.auth.NoAuthWithAWSException: No AWS Credentials",
                "org.apache.http.conn.ConnectTimeoutException: timed out",
                "java.net.UnknownHostException: lake",
                "java.lang.OutOfMemoryError: Java heap space",
            )
        ),
        SparkConnectGrpcException(
            "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file",
            server_stacktrace="Caused by: org.apache.hadoop.fs.s3a.AWSStatus500Exception: 503",
        ),
    ],
)
def test_trouble_on_the_way_is_none(error: Exception) -> None:
    with pytest.raises(EnvironmentUnfitError, match="could not read t to check it"):
        SparkGuardrailEvaluator().violations([require_rows("t")], failing_with(error))
