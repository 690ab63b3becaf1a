"""Sessions of a Spark Connect server, one for each attempt.

Invariant: a session is the attempt's own, with the settings, views and keys of nobody else; when
its lease ends, or the process does, nothing that it began goes on at the server. What sessions of
one server share (the cached tables, the machine's memory) is the server's business.
"""

from __future__ import annotations

import atexit
import importlib.util
import logging
import os
import shutil
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, cast

from perago.adapters.spark.claim import CLAIM
from perago.adapters.spark.code import TaskCode
from perago.adapters.spark.connect.guard import SessionGuard
from perago.adapters.spark.connect.progress import ConnectSparkWatch
from perago.adapters.spark.direct_workspace import DirectSparkWorkspace
from perago.adapters.spark.environment import environment_of
from perago.adapters.spark.gateway import require_pyspark
from perago.adapters.spark.s3a import NEEDED_CLASSES, S3A_CONF, S3Gateway
from perago.adapters.spark.settings import SESSION_CONF
from perago.adapters.spark.workspace import LocalSparkWorkspace
from perago.domain.attempt import Attempt
from perago.domain.errors import EnvironmentUnfitError
from perago.domain.ids import ExecutionId
from perago.ports import DirectPlace, DirectStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession as AnySession
    from pyspark.sql.connect.session import SparkSession

    from perago.adapters.spark.connect.operations import OpenOperations

_LOG = logging.getLogger(__name__)
_CLIENT_PACKAGES = ("grpc", "grpc_status", "google.rpc", "zstandard", "pandas")
_ANSWER_SECONDS = 10.0
_SOON_SECONDS = 2.0
_SETTLE_SECONDS = 30.0
_ABANDONED_SECONDS = 2.0
"""A query whose rows nobody fetches never says that it is over, interrupted or not."""
_LOOK_SECONDS = 0.02
_QUIET_LOOKS = 2
_HADOOP_PREFIX = "spark.hadoop."
_DIRECT_CONF = {
    **S3A_CONF,
    # Else Hadoop gives a session the connection that another opened, with that one's keys.
    "fs.s3a.impl.disable.cache": "true",
}
_LOCAL_CONF = {
    # No `.crc` files beside those of a table.
    "fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "fs.file.impl.disable.cache": "true",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectSettings:
    """Which server, and Spark's own settings for every session there."""

    remote: str = field(repr=False)
    conf: Mapping[str, str] = field(default_factory=dict)

    @property
    def shown(self) -> str:
        """The server's address, without what may hold a token."""
        return self.remote.partition(";")[0].rstrip("/")


class ConnectSparkLease:
    """A session of a Spark Connect server for one attempt."""

    def __init__(
        self,
        session: SparkSession,
        operations: OpenOperations,
        settings: ConnectSettings,
        scratch: Path,
        gateway: S3Gateway | None,
    ) -> None:
        self._session = session
        self._operations = operations
        self._settings = settings
        self._scratch = scratch
        self._gateway = gateway

    @property
    def session(self) -> AnySession:
        # Spark's two kinds of sessions are alike without being related.
        return cast("AnySession", self._session)

    @property
    def is_usable(self) -> bool:
        return not self._session.is_stopped and _answers(self._settings.remote, _SOON_SECONDS)

    def workspace(self, input_directory: Path, output_directory: Path) -> LocalSparkWorkspace:
        return LocalSparkWorkspace(
            spark=self.session,
            input_directory=input_directory,
            output_directory=output_directory,
            scratch=self._scratch,
        )

    def direct_workspace(self, place: DirectPlace, store: DirectStore) -> DirectSparkWorkspace:
        if self._gateway is not None:
            # Without the prefix `spark.hadoop.`, with which a session's setting does nothing.
            for name, value in self._gateway.hadoop_conf(place.repository).items():
                self._session.conf.set(name, value)
        return DirectSparkWorkspace(spark=self.session, place=place, store=store)

    def watch(self) -> ConnectSparkWatch:
        return ConnectSparkWatch(self._session)

    def settle(self) -> None:
        if self._session.is_stopped:
            raise EnvironmentUnfitError(
                "the body stopped its Spark session: what it wrote cannot be relied on",
                hint="a body leaves the session to the runtime: it never calls spark.stop()",
            )
        end_operations(self._session, self._operations)


class ConnectSparkSessions:
    """Spark of a Spark Connect server.

    `scratch` holds tables on their way into a local workspace, on a disk that the server sees.
    With a `gateway`, sessions get the keys of the store for themselves; without, the server has
    them already. `code` is sent along where the server's machines do not have it.
    """

    def __init__(
        self,
        settings: ConnectSettings,
        scratch: Path,
        *,
        gateway: S3Gateway | None = None,
        code: TaskCode | None = None,
    ) -> None:
        self._settings = settings
        self._scratch = scratch.resolve() / f"connect-{os.getpid()}"
        self._gateway = gateway
        self._code = code
        self._guard = SessionGuard(settings.remote)
        self._is_known_fit = False

    @contextmanager
    def lease(
        self, attempt: Attempt, execution_id: ExecutionId, *, direct: bool = False
    ) -> Iterator[ConnectSparkLease]:
        with CLAIM.held_by(attempt), environment_of(self._environment):
            scratch = self._scratch / execution_id
            session_id = str(uuid.uuid4())
            session, operations = self._open(session_id, attempt, direct=direct)
            try:
                yield ConnectSparkLease(session, operations, self._settings, scratch, self._gateway)
            finally:
                self._close(session, operations)
                self._guard.closed(session_id)
                shutil.rmtree(scratch, ignore_errors=True)

    def stop(self) -> None:
        self._guard.stop()
        shutil.rmtree(self._scratch, ignore_errors=True)

    def _open(
        self, session_id: str, attempt: Attempt, *, direct: bool
    ) -> tuple[SparkSession, OpenOperations]:
        require_connect()
        from pyspark.errors import PySparkException
        from pyspark.sql.connect.client.core import DefaultChannelBuilder
        from pyspark.sql.connect.session import SparkSession

        from perago.adapters.spark.connect.operations import OpenOperations

        operations = OpenOperations()
        try:
            builder = DefaultChannelBuilder(self._settings.remote)
            builder.set("session_id", session_id)
            builder.add_interceptor(operations)
            require_server(self._settings)
            self._guard.opened(session_id)
            session = SparkSession.builder.channelBuilder(builder).create()
        except PySparkException as error:
            raise self._unfit(error) from None
        try:
            self._set_up(session, attempt, direct=direct)
        except BaseException as error:
            session.stop()
            self._guard.closed(session_id)
            if isinstance(error, PySparkException):
                raise self._unfit(error) from None
            raise
        return session, operations

    def _set_up(self, session: SparkSession, attempt: Attempt, *, direct: bool) -> None:
        if direct and not self._is_known_fit:
            _require_classes(session, self._settings.shown)
            self._is_known_fit = True
        conf = {**SESSION_CONF, **(_DIRECT_CONF if direct else _LOCAL_CONF), **self._settings.conf}
        for name, value in conf.items():
            session.conf.set(name.removeprefix(_HADOOP_PREFIX), value)
        for tag in (attempt.workflow_id, attempt.task_name, attempt.reference_name):
            # The only names of its own that the pages of a server show with a session's work.
            session.addTag(tag.replace(",", "_"))
        if self._code is not None:
            self._code.send_by_value()
            archives = self._code.archives(self._scratch / "code")
            if archives:
                session.addArtifacts(*map(str, archives), pyfile=True)

    def _close(self, session: SparkSession, operations: OpenOperations) -> None:
        """End what still runs; how the body ended is not changed by this."""
        from pyspark.errors import PySparkException

        try:
            if not session.is_stopped:
                end_operations(session, operations)
        except (PySparkException, EnvironmentUnfitError):
            _LOG.warning("the Spark session could not be ended cleanly", exc_info=True)
        finally:
            # Else every client that there ever was is kept until this process ends.
            atexit.unregister(session.client._cleanup_ml_cache)  # noqa: SLF001
            session.stop()

    def _unfit(self, error: Exception) -> EnvironmentUnfitError:
        first = next(iter(str(error).strip().splitlines()), type(error).__name__)
        return EnvironmentUnfitError(
            f"the Spark Connect server {self._settings.shown} gave no session: {first}",
            hint="check PERAGO_SPARK_REMOTE (its token and use_ssl, too) and PERAGO_SPARK_CONF: "
            "settings of the server itself are its own to make",
        )

    @property
    def _environment(self) -> dict[str, str]:
        """Has `SparkSession.builder.getOrCreate()` and `functions` mean the server as well."""
        return {"SPARK_REMOTE": self._settings.remote, "SPARK_CONNECT_MODE_ENABLED": "1"}


def require_connect() -> None:
    """Raise unless pyspark and what its client of Spark Connect needs are installed."""
    require_pyspark()
    missing = [name for name in _CLIENT_PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise EnvironmentUnfitError(
            f"the client of Spark Connect lacks {', '.join(missing)}",
            hint="pip install 'perago-runtime[connect]'",
        )


def require_server(settings: ConnectSettings) -> None:
    """Raise unless this machine has the client of Spark Connect, and the server answers."""
    require_connect()
    # A session would try again for ten minutes.
    if not _answers(settings.remote, _ANSWER_SECONDS):
        raise EnvironmentUnfitError(
            f"no Spark Connect server answers at {settings.shown}",
            hint="start it, or correct PERAGO_SPARK_REMOTE; it may want /;use_ssl=true",
        )


def end_operations(session: SparkSession, operations: OpenOperations) -> None:
    """Interrupt all that a session does, and return when nothing of it can write any more."""
    for query in session.streams.active:
        # Not an operation any more: it was started by one that is over.
        query.stop()
    began, quiet_looks = time.monotonic(), 0
    while quiet_looks < _QUIET_LOOKS:
        # A thread of the body's may begin another meanwhile.
        if operations.commands or operations.queries:
            session.interruptAll()
        passed = time.monotonic() - began
        is_quiet = not operations.commands and (
            not operations.queries or passed > _ABANDONED_SECONDS
        )
        quiet_looks = quiet_looks + 1 if is_quiet else 0
        if not is_quiet and passed > _SETTLE_SECONDS:
            raise EnvironmentUnfitError(
                f"{operations.commands} Spark operations still run {_SETTLE_SECONDS:.0f} s after "
                "they were told to end: what they write cannot be relied on",
                hint="look for native code or sleeps in them that ignore interrupts",
            )
        time.sleep(_LOOK_SECONDS)


def _answers(remote: str, seconds: float) -> bool:
    """Whether somebody takes a connection to the server."""
    import grpc
    from pyspark.sql.connect.client.core import DefaultChannelBuilder

    channel = DefaultChannelBuilder(remote).toChannel()
    try:
        grpc.channel_ready_future(channel).result(timeout=seconds)
    except grpc.FutureTimeoutError:
        return False
    finally:
        channel.close()
    return True


def _require_classes(session: SparkSession, shown: str) -> None:
    """Raise where the server lacks the jars of direct workspaces: its own errors are misleading."""
    from pyspark.errors import PySparkException

    for name in NEEDED_CLASSES:
        try:
            session.sql(f"SELECT reflect('java.lang.Class', 'forName', '{name}')").collect()
        except PySparkException as error:
            raise EnvironmentUnfitError(
                f"the Spark Connect server {shown} lacks a jar that direct workspaces need: "
                f"there is no {name}",
                hint="start it with the jars that `perago jars --json` lists, on its class path",
            ) from error
