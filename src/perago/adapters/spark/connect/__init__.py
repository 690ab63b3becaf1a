"""Spark on a Spark Connect server: this process has no JVM, and the server serves others too."""

from perago.adapters.spark.connect.server import ConnectSettings, require_server
from perago.adapters.spark.connect.sessions import ConnectSparkSessions

__all__ = ["ConnectSettings", "ConnectSparkSessions", "require_server"]
