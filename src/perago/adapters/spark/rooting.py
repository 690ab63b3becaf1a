"""How the paths that a body gives to a reader become places below one root."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perago.adapters.spark.delta import check_table_format, is_delta
from perago.adapters.spark.paths import check_path
from perago.adapters.spark.roots import Root

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.connect.session import SparkSession as ConnectSession


class Rooting:
    """The rooting of one reader's paths, which depends on the format that it reads."""

    def __init__(self, root: Root, spark: SparkSession | ConnectSession) -> None:
        self._root = root
        self._spark = spark
        self._takes_patterns = True

    def hear_format(self, source: str) -> None:
        """Raise for a format that cannot be read."""
        check_table_format(source, self._spark)
        # Delta takes a path for one table, and a backslash in it for a backslash.
        self._takes_patterns = not is_delta(source)

    def option(self, key: str, value: Any) -> Any:
        """An option's value; of some, it is a path."""
        match key.lower():
            case "path" if isinstance(value, str):
                return self.path(value)
            case "basepath" if isinstance(value, str):
                # One directory, by its own name.
                return self._root.uri(check_path(value, root_allowed=True))
            case _:
                return value

    def path(self, path: Any) -> Any:
        """Root one path or many; an RDD or DataFrame of text is no path and stays."""
        if isinstance(path, str):
            checked = check_path(path, root_allowed=True)
            return self._root.pattern(checked) if self._takes_patterns else self._root.uri(checked)
        if isinstance(path, list | tuple):
            return [self.path(item) for item in path]
        return path
