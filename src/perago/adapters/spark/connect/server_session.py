"""One session of a Spark Connect server, from its opening until nothing of it goes on there."""

from __future__ import annotations

import atexit
import logging
import time
import uuid
from typing import TYPE_CHECKING

from perago.adapters.spark.connect.guard import SessionGuard
from perago.adapters.spark.connect.server import ConnectSettings, require_server
from perago.adapters.spark.open_writes import unanswered, unfinished
from perago.domain.errors import EnvironmentUnfitError

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession

_LOG = logging.getLogger(__name__)
_RETRIES = 6
"""About a minute; pyspark's own fifteen are ten. What outlives that is retried as an attempt."""
_SETTLE_SECONDS = 30.0
_ABANDONED_SECONDS = 2.0
"""A query whose rows nobody fetches never says that it is over, interrupted or not."""
_LOOK_SECONDS = 0.02
_QUIET_LOOKS = 2


class ServerSession:
    """A session that is open, the current one of this process, and known to the guard."""

    def __init__(self, settings: ConnectSettings, guard: SessionGuard) -> None:
        require_server(settings)
        from pyspark.errors import PySparkException
        from pyspark.sql.connect.client.core import DefaultChannelBuilder
        from pyspark.sql.connect.client.retries import DefaultPolicy
        from pyspark.sql.connect.session import SparkSession

        from perago.adapters.spark.connect.operations import OpenOperations

        self.id = str(uuid.uuid4())
        self._settings = settings
        self._guard = guard
        self._operations = OpenOperations()
        guard.opened(self.id)
        try:
            builder = DefaultChannelBuilder(settings.remote)
            builder.set("session_id", self.id)
            builder.add_interceptor(self._operations)
            self.spark = SparkSession(connection=builder)
        except PySparkException as error:
            guard.closed(self.id)
            raise settings.unfit(error) from None
        self.spark.client.set_retry_policies([DefaultPolicy(max_retries=_RETRIES)])
        _make_current(self.spark)

    def settle(self) -> None:
        """See that no write is under way, interrupt what else runs, and let nothing new begin.

        A write that is interrupted while its committer is at work has made a part of its files
        visible; so it is not ended but refused.
        """
        from pyspark.errors import PySparkException

        if self.spark.is_stopped:
            raise EnvironmentUnfitError(
                "the body stopped its Spark session: what it wrote cannot be relied on",
                hint="a body leaves the session to the runtime: it never calls spark.stop()",
            )
        if not self._settings.answers():
            raise EnvironmentUnfitError(
                f"the Spark Connect server {self._settings.shown} does not answer any more: what "
                "the session wrote cannot be relied on",
                hint="the attempt is to be tried again once it is back",
            )
        try:
            if self._let_nothing_begin():
                raise unfinished(["a stream"])
            writes = self._operations.commands
            if writes:
                raise unfinished([f"{writes} at the Spark Connect server"])
            self._end_work()
        except PySparkException as error:
            raise unanswered(error) from error

    def close(self) -> None:
        """End it; raises where what it does at the server could not be ended."""
        try:
            if not self.spark.is_stopped and self._settings.answers():
                self._let_nothing_begin()
                self._end_work()
        finally:
            self._release()

    def close_after_failure(self) -> None:
        """End it as well as that goes; how the body failed is not changed by this."""
        from pyspark.errors import PySparkException

        try:
            self.close()
        except (PySparkException, EnvironmentUnfitError):
            _LOG.warning("the Spark session could not be ended cleanly", exc_info=True)

    def _let_nothing_begin(self) -> int:
        """Neither by a thread of the body's, nor by a stream, whose own operation is long over.

        How many streams it stopped: what they were at then may be there in part.
        """
        self._operations.close_for_others()
        streams = self.spark.streams.active
        for query in streams:
            query.stop()
        return len(streams)

    def _end_work(self) -> None:
        operations = self._operations
        began, quiet_looks = time.monotonic(), 0
        while True:
            self.spark.interruptAll()
            passed = time.monotonic() - began
            is_quiet = not operations.commands and (
                not operations.queries or passed > _ABANDONED_SECONDS
            )
            quiet_looks = quiet_looks + 1 if is_quiet else 0
            if quiet_looks == _QUIET_LOOKS:
                return
            if not is_quiet and passed > _SETTLE_SECONDS:
                raise EnvironmentUnfitError(
                    f"of {operations.commands} Spark operations nobody knows whether they are over "
                    f"{_SETTLE_SECONDS:.0f} s after they were told to end: what they write cannot "
                    "be relied on",
                    hint="look for native code or sleeps in them that ignore interrupts, and for a "
                    "body that gives up waiting for its own writes",
                )
            time.sleep(_LOOK_SECONDS)

    def _release(self) -> None:
        """Let the server forget it, and this process too; else the guard will see to it."""
        from pyspark.errors import PySparkException

        released = self.spark.is_stopped
        if not released and self._settings.answers():
            try:
                self.spark.client.release_session()
                released = True
            except PySparkException:
                _LOG.warning("the Spark session could not be released", exc_info=True)
        if released:
            self._guard.closed(self.id)
        # Else every client that there ever was is kept until this process ends.
        atexit.unregister(self.spark.client._cleanup_ml_cache)  # noqa: SLF001
        _end_here(self.spark)
        _forget_current()


def _make_current(session: SparkSession) -> None:
    """Make it the session that `SparkSession.builder.getOrCreate()` gives."""
    kind = type(session)
    kind._default_session = session  # noqa: SLF001
    kind._active_session.session = session  # noqa: SLF001


def _forget_current() -> None:
    """Forget what a body may have opened by itself, too: the next attempt would be given it."""
    from pyspark.sql.connect.session import SparkSession

    for session in (
        SparkSession._default_session,  # noqa: SLF001
        getattr(SparkSession._active_session, "session", None),  # noqa: SLF001
    ):
        if session is not None:
            _end_here(session)
    SparkSession._default_session = None  # noqa: SLF001
    SparkSession._active_session.session = None  # noqa: SLF001


def _end_here(session: SparkSession) -> None:
    """Close the connection; the server was told already, or does not answer."""
    session.release_session_on_close = False
    session.stop()
