"""Ends at a Spark Connect server what a process that was killed had begun there.

A server goes on for minutes with what a client asked that no longer exists. This file is run as a
program beside the executor, by `guard.py`: its standard input names the server and then the
sessions that open and close; when it ends, the sessions still open are interrupted and released.

It imports nothing of this package, and Spark only when it is needed: it costs one small process.
"""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterable

_PATIENCE_SECONDS = 300
_RETRIES = 5
"""About seventeen seconds; pyspark's own fifteen are ten minutes."""


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
