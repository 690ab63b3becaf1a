"""Spark on a Spark Connect server: this process has no JVM, and the server serves others too."""

from perago.adapters.spark.connect.sessions import (
    ConnectSettings,
    ConnectSparkSessions,
    require_server,
)

__all__ = ["ConnectSettings", "ConnectSparkSessions", "require_server"]
