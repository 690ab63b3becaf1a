"""Spark's own reader, with its paths below one root.

Invariant: no path given to it reaches Spark unrooted; chaining keeps the root, for the reader's
methods return the reader itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from pyspark.sql import DataFrame, DataFrameReader, SparkSession

from perago.adapters.spark.delta import check_table_format, is_delta
from perago.adapters.spark.roots import PATH_OPTIONS, Root, rooted

if TYPE_CHECKING:
    from pyspark.sql._typing import OptionalPrimitiveType
    from pyspark.sql.connect.session import SparkSession as ConnectSession


def rooted_reader(spark: SparkSession | ConnectSession, root: Root) -> DataFrameReader:
    """A reader below a root, for either kind of session."""
    if isinstance(spark, SparkSession):
        return RootedReader(spark, root)
    from perago.adapters.spark.connect_reader import RootedConnectReader

    # Spark's two kinds of sessions and readers are alike without being related.
    return cast("DataFrameReader", RootedConnectReader(spark, root))


class RootedReader(DataFrameReader):
    """Reads below a root; `table` and `jdbc` have no path and are Spark's own.

    A path that exists is taken literally, any other as a pattern (`raw/*.csv`).
    """

    def __init__(self, spark: SparkSession, root: Root) -> None:
        super().__init__(spark)
        self._root = root
        self._takes_patterns = True

    def format(self, source: str) -> DataFrameReader:
        check_table_format(source, self._spark)
        # Delta takes a path for one table, and a backslash in it for a backslash.
        self._takes_patterns = not is_delta(source)
        return super().format(source)

    def option(self, key: str, value: OptionalPrimitiveType) -> DataFrameReader:
        if key.lower() in PATH_OPTIONS and isinstance(value, str):
            value = self._rooted(value)
        return super().option(key, value)

    def options(self, **options: OptionalPrimitiveType) -> DataFrameReader:
        for key, value in options.items():
            self.option(key, value)
        return self

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

    def parquet(self, *paths: str, **options: OptionalPrimitiveType) -> DataFrame:
        return super().parquet(*(self._rooted(path) for path in paths), **options)

    def orc(self, path: Any, *args: Any, **options: Any) -> DataFrame:
        return super().orc(self._rooted(path), *args, **options)

    def csv(self, path: Any, *args: Any, **options: Any) -> DataFrame:
        return super().csv(self._rooted(path), *args, **options)

    def json(self, path: Any, *args: Any, **options: Any) -> DataFrame:
        return super().json(self._rooted(path), *args, **options)

    def text(self, paths: Any, *args: Any, **options: Any) -> DataFrame:
        return super().text(self._rooted(paths), *args, **options)

    def xml(self, path: Any, *args: Any, **options: Any) -> DataFrame:
        return super().xml(self._rooted(path), *args, **options)

    def _rooted(self, path: Any) -> Any:
        return rooted(self._root, path, is_pattern=self._takes_patterns)
