"""Spark's own reader, with its paths below one root.

Invariant: no path given to it reaches Spark unrooted; chaining keeps the root, for the reader's
methods return the reader itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from pyspark.sql import DataFrame, DataFrameReader, SparkSession

from perago.adapters.spark.rooting import Rooting
from perago.adapters.spark.roots import Root

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
        self._rooting = Rooting(root, spark)

    def format(self, source: str) -> DataFrameReader:
        self._rooting.hear_format(source)
        return super().format(source)

    def option(self, key: str, value: OptionalPrimitiveType) -> DataFrameReader:
        return super().option(key, self._rooting.option(key, value))

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
        return super().load(self._rooting.path(path), None, *args, **options)

    def parquet(self, *paths: str, **options: OptionalPrimitiveType) -> DataFrame:
        return super().parquet(*(self._rooting.path(path) for path in paths), **options)

    def orc(self, path: Any, *args: Any, **options: Any) -> DataFrame:
        return super().orc(self._rooting.path(path), *args, **options)

    def csv(self, path: Any, *args: Any, **options: Any) -> DataFrame:
        return super().csv(self._rooting.path(path), *args, **options)

    def json(self, path: Any, *args: Any, **options: Any) -> DataFrame:
        return super().json(self._rooting.path(path), *args, **options)

    def text(self, paths: Any, *args: Any, **options: Any) -> DataFrame:
        return super().text(self._rooting.path(paths), *args, **options)

    def xml(self, path: Any, *args: Any, **options: Any) -> DataFrame:
        return super().xml(self._rooting.path(path), *args, **options)
