"""Sessions of a Spark Connect server, one for each attempt.

Invariant: a session is the attempt's own, with the settings, views and keys of nobody else; when
its lease ends, or the process does, nothing that it began goes on at the server. What sessions of
one server share (the cached tables, the machine's memory) is the server's business.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, cast

from perago.adapters.spark.claim import CLAIM
from perago.adapters.spark.code import TaskCode, own_files_first
from perago.adapters.spark.connect.guard import SessionGuard
from perago.adapters.spark.connect.progress import ConnectSparkWatch
from perago.adapters.spark.connect.server import ConnectSettings, require_classes
from perago.adapters.spark.connect.server_session import ServerSession
from perago.adapters.spark.direct_workspace import DirectSparkWorkspace
from perago.adapters.spark.environment import environment_of
from perago.adapters.spark.open_writes import OpenWrites
from perago.adapters.spark.s3a import S3A_CONF, S3Gateway
from perago.adapters.spark.scratch import (
    CONNECT_PREFIX,
    make_scratch,
    remove_scratch,
    sweep_scratch,
)
from perago.adapters.spark.settings import RAW_FILES_CONF, SESSION_CONF
from perago.adapters.spark.workspace import LocalSparkWorkspace
from perago.domain.attempt import Attempt
from perago.domain.ids import ExecutionId
from perago.ports import DirectPlace, DirectStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession as AnySession

_HADOOP_PREFIX = "spark.hadoop."
_DIRECT_CONF = {
    **S3A_CONF,
    # Else Hadoop gives a session the connection that another opened, with that one's keys.
    "fs.s3a.impl.disable.cache": "true",
}
_LOCAL_CONF = {**RAW_FILES_CONF, "fs.file.impl.disable.cache": "true"}


class ConnectSparkLease:
    """A session of a Spark Connect server for one attempt."""

    def __init__(
        self,
        opened: ServerSession,
        settings: ConnectSettings,
        scratch: Path,
        gateway: S3Gateway | None,
    ) -> None:
        self._opened = opened
        self._settings = settings
        self._scratch = scratch
        self._gateway = gateway
        self._open_writes = OpenWrites()

    @property
    def session(self) -> AnySession:
        # Spark's two kinds of sessions are alike without being related.
        return cast("AnySession", self._opened.spark)

    @property
    def is_usable(self) -> bool:
        return not self._opened.spark.is_stopped and self._settings.answers()

    def workspace(self, input_directory: Path, output_directory: Path) -> LocalSparkWorkspace:
        return LocalSparkWorkspace(
            spark=self.session,
            input_directory=input_directory,
            output_directory=output_directory,
            scratch=self._scratch,
            open_writes=self._open_writes,
        )

    def direct_workspace(self, place: DirectPlace, store: DirectStore) -> DirectSparkWorkspace:
        if self._gateway is not None:
            # Without the prefix `spark.hadoop.`, with which a session's setting does nothing.
            for name, value in self._gateway.hadoop_conf(place.repository).items():
                self._opened.spark.conf.set(name, value)
        return DirectSparkWorkspace(
            spark=self.session, place=place, store=store, open_writes=self._open_writes
        )

    def watch(self) -> ConnectSparkWatch:
        return ConnectSparkWatch(self._opened.spark)

    def settle(self) -> None:
        self._open_writes.close()
        self._opened.settle()


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
        self._scratch = scratch.resolve() / f"{CONNECT_PREFIX}{os.getpid()}"
        self._gateway = gateway
        self._code = code
        self._guard = SessionGuard(settings.remote)
        self._is_known_fit = False

    @contextmanager
    def lease(
        self, attempt: Attempt, execution_id: ExecutionId, *, direct: bool = False
    ) -> Iterator[ConnectSparkLease]:
        scratch = self._scratch / execution_id
        sweep_scratch(self._scratch.parent)
        make_scratch(self._scratch)
        with CLAIM.held_by(attempt):
            opened = ServerSession(self._settings, self._guard)
            # So that `builder.getOrCreate()` and `functions` mean the server as well, and whatever
            # a body opens there by itself is this session, and ends with it.
            remote = self._settings.remote_of(opened.id)
            variables = {"SPARK_REMOTE": remote, "SPARK_CONNECT_MODE_ENABLED": "1"}
            try:
                with environment_of(variables):
                    self._set_up(opened, attempt, direct=direct)
                    yield ConnectSparkLease(opened, self._settings, scratch, self._gateway)
            except BaseException:
                opened.close_after_failure()
                raise
            finally:
                remove_scratch(self._scratch, execution_id)
            opened.close()

    def stop(self) -> None:
        self._guard.stop()
        remove_scratch(self._scratch)

    def _set_up(self, opened: ServerSession, attempt: Attempt, *, direct: bool) -> None:
        from pyspark.errors import PySparkException

        session = opened.spark
        conf = {**SESSION_CONF, **(_DIRECT_CONF if direct else _LOCAL_CONF), **self._settings.conf}
        try:
            if direct and not self._is_known_fit:
                require_classes(session, self._settings.shown)
                self._is_known_fit = True
            for name, value in conf.items():
                session.conf.set(name.removeprefix(_HADOOP_PREFIX), value)
            for tag in (attempt.workflow_id, attempt.task_name, attempt.reference_name):
                # The only names of its own that the pages of a server show with a session's work.
                session.addTag(tag.replace(",", "_"))
            if self._code is not None:
                self._code.send_by_value()
                archives = self._code.archives(self._scratch / "code")
                if archives:
                    with own_files_first():
                        session.addArtifacts(*map(str, archives), pyfile=True)
        except PySparkException as error:
            raise self._settings.unfit(error) from None
