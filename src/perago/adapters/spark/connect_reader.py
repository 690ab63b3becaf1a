"""Spark Connect's own reader, with its paths below one root.

Invariant: no path given to it reaches Spark unrooted; every method that takes one ends in `load`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql.connect.dataframe import DataFrame
from pyspark.sql.connect.readwriter import DataFrameReader
from pyspark.sql.connect.session import SparkSession

from perago.adapters.spark.delta import check_table_format, is_delta
from perago.adapters.spark.roots import PATH_OPTIONS, Root, rooted

if TYPE_CHECKING:
    from pyspark.sql.connect._typing import OptionalPrimitiveType


class RootedConnectReader(DataFrameReader):
    """Reads below a root, as `RootedReader` does in a JVM of one's own."""

    def __init__(self, spark: SparkSession, root: Root) -> None:
        super().__init__(spark)
        self._root = root
        self._takes_patterns = True

    def format(self, source: str) -> DataFrameReader:
        check_table_format(source, self._client)
        # Delta takes a path for one table, and a backslash in it for a backslash.
        self._takes_patterns = not is_delta(source)
        return super().format(source)

    def option(self, key: str, value: OptionalPrimitiveType) -> DataFrameReader:
        if key.lower() in PATH_OPTIONS and isinstance(value, str):
            value = self._rooted(value)
        return super().option(key, value)

    def load(
        self,
        path: Any = None,
        format: str | None = None,  # noqa: A002 - Spark's own word for it
        *args: Any,
        **options: Any,
    ) -> DataFrame:
        if format is not None:
            self.format(format)
        return super().load(self._rooted(path), None, *args, **options)

    def _rooted(self, path: Any) -> Any:
        return rooted(self._root, path, is_pattern=self._takes_patterns)
