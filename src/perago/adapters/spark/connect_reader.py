"""Spark Connect's own reader, with its paths below one root.

Invariant: no path given to it reaches Spark unrooted; every method that takes one ends in `load`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql.connect.dataframe import DataFrame
from pyspark.sql.connect.readwriter import DataFrameReader
from pyspark.sql.connect.session import SparkSession

from perago.adapters.spark.roots import PATH_OPTIONS, Root, rooted

if TYPE_CHECKING:
    from pyspark.sql.connect._typing import OptionalPrimitiveType


class RootedConnectReader(DataFrameReader):
    """Reads below a root, as `RootedReader` does in a JVM of one's own."""

    def __init__(self, spark: SparkSession, root: Root) -> None:
        super().__init__(spark)
        self._root = root

    def option(self, key: str, value: OptionalPrimitiveType) -> DataFrameReader:
        if key.lower() in PATH_OPTIONS and isinstance(value, str):
            value = rooted(self._root, value)
        return super().option(key, value)

    def load(self, path: Any = None, *args: Any, **options: Any) -> DataFrame:
        return super().load(rooted(self._root, path), *args, **options)
