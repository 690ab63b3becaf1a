"""Spark Connect's own reader, with its paths below one root.

Invariant: no path given to it reaches Spark unrooted; every method that takes one ends in `load`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql.connect.dataframe import DataFrame
from pyspark.sql.connect.readwriter import DataFrameReader
from pyspark.sql.connect.session import SparkSession

from perago.adapters.spark.rooting import Rooting
from perago.adapters.spark.roots import Root

if TYPE_CHECKING:
    from pyspark.sql.connect._typing import OptionalPrimitiveType


class RootedConnectReader(DataFrameReader):
    """Reads below a root, as `RootedReader` does in a JVM of one's own."""

    def __init__(self, spark: SparkSession, root: Root) -> None:
        super().__init__(spark)
        self._rooting = Rooting(root, spark)

    def format(self, source: str) -> DataFrameReader:
        self._rooting.hear_format(source)
        return super().format(source)

    def option(self, key: str, value: OptionalPrimitiveType) -> DataFrameReader:
        return super().option(key, self._rooting.option(key, value))

    def load(
        self,
        path: Any = None,
        format: str | None = None,  # noqa: A002 - Spark's own word for it
        *args: Any,
        **options: Any,
    ) -> DataFrame:
        if format is not None:
            self.format(format)
        return super().load(self._rooting.path(path), None, *args, **options)
