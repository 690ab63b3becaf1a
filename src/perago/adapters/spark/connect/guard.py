"""Ends at the server what a process that was killed had begun there.

A Spark Connect server goes on for minutes with what a client asked that no longer exists. This file
is run as a program beside the executor, in a process group of its own so that it outlives it: its
standard input names the server and then the sessions that open and close; when it ends, the
sessions still open are interrupted and released.

It imports nothing of this package, and Spark only when it is needed: it costs one small process.
"""

from __future__ import annotations

import json
import logging
import signal
import subprocess
import sys
from collections.abc import Iterable

_END_SECONDS = 30.0
_PATIENCE_SECONDS = 300
_RETRIES = 5
"""About seventeen seconds; pyspark's own fifteen are ten minutes."""
_LOG = logging.getLogger(__name__)


class SessionGuard:
    """The guard, as the process that it watches sees it. Make one per server."""

    def __init__(self, remote: str) -> None:
        self._remote = remote
        self._process: subprocess.Popen[str] | None = None

    def opened(self, session_id: str) -> None:
        """Have a session ended if this process ends before it is closed."""
        if self._process is None or self._process.poll() is not None:
            # -P: else this file's neighbours would hide modules of the same name.
            self._process = subprocess.Popen(
                [sys.executable, "-P", __file__],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                text=True,
                start_new_session=True,
            )
            # Not on the command line, which everybody can read: it may hold a token.
            self._tell({"remote": self._remote})
        self._tell({"opened": session_id})

    def closed(self, session_id: str) -> None:
        """Forget a session."""
        if self._process is not None and self._process.poll() is None:
            self._tell({"closed": session_id})

    def stop(self) -> None:
        """End the guard; what is still open it ends at the server first."""
        if self._process is None:
            return
        try:
            self._process.communicate(timeout=_END_SECONDS)
        except subprocess.TimeoutExpired:  # the server does not answer it
            self._process.kill()
            self._process.communicate()
        self._process = None

    def _tell(self, message: dict[str, str]) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(message) + "\n")
            self._process.stdin.flush()
        except OSError:
            # Somebody ended it. The attempt goes on; only what would outlive it is unwatched.
            _LOG.warning("the guard of Spark Connect sessions is gone", exc_info=True)


def watch(lines: Iterable[str]) -> tuple[str, set[str]]:
    """Listen until nobody speaks any more; the server, and the sessions left open there."""
    remote, left = "", set[str]()
    for line in lines:
        match json.loads(line):
            case {"remote": str(remote)}:
                pass
            case {"opened": str(session)}:
                left.add(session)
            case {"closed": str(session)}:
                left.discard(session)
            case message:
                raise ValueError(f"the guard does not know what {message} means")
    return remote, left


def end_sessions(remote: str, sessions: Iterable[str]) -> None:
    """Interrupt what sessions run at a server, and release them."""
    from pyspark.errors import PySparkException
    from pyspark.sql.connect.client.core import DefaultChannelBuilder, SparkConnectClient

    for session in sessions:
        builder = DefaultChannelBuilder(remote)
        builder.set("session_id", session)
        client = SparkConnectClient(builder, retry_policy={"max_retries": _RETRIES})
        try:
            client.interrupt_all()
            client.release_session()
        except PySparkException as error:  # the others are to be ended all the same
            sys.stderr.write(f"cannot end Spark Connect session {session}: {error}\n")
        finally:
            client.close()


if __name__ == "__main__":
    left_open = watch(sys.stdin)
    # Nobody waits for it any more, and a server may take connections and answer nothing.
    signal.alarm(_PATIENCE_SECONDS)
    end_sessions(*left_open)
