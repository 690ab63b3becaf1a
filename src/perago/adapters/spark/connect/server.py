"""A Spark Connect server, and whether it can be used from here."""

from __future__ import annotations

import importlib.util
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from perago.adapters.spark.gateway import require_pyspark
from perago.adapters.spark.s3a import NEEDED_CLASSES
from perago.domain.errors import EnvironmentUnfitError

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession

_CLIENT_PACKAGES = ("grpc", "grpc_status", "google.rpc", "zstandard", "pandas")
_ANSWER_SECONDS = 10.0
_SOON_SECONDS = 2.0
_LOOK_SECONDS = 0.1
_NO_CLASS = "InvocationTargetException"
"""What a call that is made by its name answers, here that there is no such class."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectSettings:
    """Which server, and Spark's own settings for every session there."""

    remote: str = field(repr=False)
    conf: Mapping[str, str] = field(default_factory=dict)

    @property
    def shown(self) -> str:
        """The server's address, without what may hold a token."""
        return self.remote.partition(";")[0].rstrip("/")

    def remote_of(self, session_id: str) -> str:
        """The address of one session there."""
        address, _, parameters = self.remote.partition(";")
        ours = f"session_id={session_id}"
        return f"{address.rstrip('/')}/;" + (f"{parameters};{ours}" if parameters else ours)

    def answers(self, seconds: float = _SOON_SECONDS) -> bool:
        """Whether somebody takes a connection within so many seconds; a refusal is tried again."""
        from pyspark.sql.connect.client.core import DefaultChannelBuilder

        host, _, port = DefaultChannelBuilder(self.remote).endpoint.rpartition(":")
        host = host.strip("[]")  # of an IPv6 address
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            try:
                socket.create_connection((host, int(port)), timeout=left).close()
            except OSError:
                time.sleep(_LOOK_SECONDS)
            else:
                return True
        return False

    def unfit(self, error: Exception) -> EnvironmentUnfitError:
        """For a server that refuses a session."""
        first = next(iter(str(error).strip().splitlines()), type(error).__name__)
        return EnvironmentUnfitError(
            f"the Spark Connect server {self.shown} gave no session: {first}",
            hint="check PERAGO_SPARK_REMOTE (its token and use_ssl, too) and PERAGO_SPARK_CONF: "
            "settings of the server itself are its own to make",
        )


def require_server(settings: ConnectSettings) -> None:
    """Raise unless this machine has the client of Spark Connect, and the server answers."""
    require_pyspark()
    missing = [name for name in _CLIENT_PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise EnvironmentUnfitError(
            f"the client of Spark Connect lacks {', '.join(missing)}",
            hint="pip install 'perago-runtime[connect]'",
        )
    if not settings.answers(_ANSWER_SECONDS):
        raise EnvironmentUnfitError(
            f"no Spark Connect server answers at {settings.shown}",
            hint="start it, or correct PERAGO_SPARK_REMOTE; it may want /;use_ssl=true",
        )


def require_classes(session: SparkSession, shown: str) -> None:
    """Raise where the server lacks the jars of direct workspaces: its own errors are misleading."""
    from pyspark.errors import PySparkException

    for name in NEEDED_CLASSES:
        try:
            session.sql(f"SELECT reflect('java.lang.Class', 'forName', '{name}')").collect()
        except PySparkException as error:
            if _NO_CLASS not in str(error):
                raise
            raise EnvironmentUnfitError(
                f"the Spark Connect server {shown} lacks a jar that direct workspaces need: "
                f"there is no {name}",
                hint="start it with the jars that `perago jars --json` lists, on its class path",
            ) from error
