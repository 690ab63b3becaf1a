"""Has the sessions of a Spark Connect server ended when this process dies, however it dies."""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path

from perago.system.parent_watch import ParentWatch

_END_SECONDS = 30.0
_LOG = logging.getLogger(__name__)


class SessionGuard:
    """The guard, as the process that it watches sees it. Make one per server."""

    def __init__(self, remote: str) -> None:
        self._remote = remote
        self._watch: ParentWatch | None = None

    def opened(self, session_id: str) -> None:
        """Have a session ended if this process ends before it is closed."""
        if self._watch is None or not self._watch.is_running:
            # -P: else the file's neighbours would hide modules of the same name.
            program = Path(__file__).with_name("end_sessions.py")
            self._watch = ParentWatch(
                [sys.executable, "-P", str(program)], leads="session", shows_errors=True
            )
            # Not on the command line, which everybody can read: it may hold a token.
            self._tell({"remote": self._remote})
        self._tell({"opened": session_id})

    def closed(self, session_id: str) -> None:
        """Forget a session."""
        if self._watch is not None and self._watch.is_running:
            self._tell({"closed": session_id})

    def stop(self) -> None:
        """End the guard; what is still open it ends at the server first."""
        if self._watch is not None:
            self._watch.act(_END_SECONDS)
            self._watch = None

    def _tell(self, message: dict[str, str]) -> None:
        assert self._watch is not None
        try:
            self._watch.tell(json.dumps(message))
        except OSError:
            # Somebody ended it. The attempt goes on; only what would outlive it is unwatched.
            _LOG.warning("the guard of Spark Connect sessions is gone", exc_info=True)
