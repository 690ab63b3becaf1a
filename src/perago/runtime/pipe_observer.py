"""Tells the supervisor what an attempt does, without ever flooding it or failing the body.

The end of a phase, and all of the first one, are told together with what comes next, which is at
once. So is a body that will be over at once: a brief attempt is one message by that. If it takes
its time after all, the supervisor sees in shared memory where it is.
"""

from __future__ import annotations

import logging
import math
import threading
import time

from perago.domain.outcome import Phase
from perago.domain.spark_progress import SparkProgress
from perago.runtime.messages import (
    BodyProgress,
    FromExecutor,
    Moved,
    PhaseBegan,
    PhaseOver,
    SparkIsAt,
)
from perago.runtime.shared_lease import AttemptCell
from perago.runtime.supervisor_link import SupervisorLink

_log = logging.getLogger(__name__)

_REPORT_SECONDS = 0.1
"""Bytes and progress are told at most this often; 100,000 files are not as many messages."""

_MAX_TEXT = 500
"""So much of a progress message is shown; a body that reports a document is not a reason to."""


class PipeObserver:
    """The `AttemptObserver` of an executor. Called from the body's and from transfer threads."""

    def __init__(self, link: SupervisorLink, cell: AttemptCell) -> None:
        self._link = link
        self._cell = cell
        self._lock = threading.Lock()
        self._objects = 0
        self._bytes = 0
        self._transfer_sent_at = 0.0
        self._progress: BodyProgress | None = None
        self._progress_sent_at = 0.0
        self._held: list[FromExecutor] = []
        self.tells_body_later = False
        """Whether the next body that begins is not worth a message of its own."""

    def phase_started(self, phase: Phase) -> None:
        """A phase begins."""
        self._cell.enter(phase)
        if phase is Phase.VALIDATE or (phase is Phase.BODY and self.tells_body_later):
            self._hold(PhaseBegan(phase=phase))
        else:
            self.send(PhaseBegan(phase=phase))

    def phase_ended(self, phase: Phase, seconds: float) -> None:
        """A phase is over; what was held back is told first."""
        with self._lock:
            held = (self._take_transfer(), self._take_progress())
        for message in held:
            if message is not None:
                self.send(message)
        self._hold(PhaseOver(phase=phase, seconds=seconds))

    def transferred(self, objects: int, size: int) -> None:
        """Objects and bytes moved since the last call."""
        with self._lock:
            self._objects += objects
            self._bytes += size
            due = time.monotonic() - self._transfer_sent_at > _REPORT_SECONDS
            message = self._take_transfer() if due else None
        if message is not None:
            self.send(message)

    def progressed(self, message: str, fraction: float | None) -> None:
        """The body said how far it is; of many messages in a row the last one counts."""
        # A body's text may be a path that is not UTF-8, or no text at all, and its number none.
        text = str(message)[:_MAX_TEXT].encode("utf-8", "backslashreplace").decode()
        latest_progress = BodyProgress(message=text, fraction=_as_fraction(fraction))
        with self._lock:
            self._progress = latest_progress
            due = time.monotonic() - self._progress_sent_at > _REPORT_SECONDS
            latest = self._take_progress() if due else None
        if latest is not None:
            self.send(latest)

    def spark_progressed(self, progress: SparkProgress, line: str | None) -> None:
        """Spark is so far; who looks does so about once a second."""
        self.send(SparkIsAt(progress=progress, line=line))

    def send(self, *messages: FromExecutor, is_last: bool = False) -> None:
        """Send messages after those that were held back; never raises."""
        with self._lock:
            held, self._held = self._held, []
            try:
                self._link.tell([*held, *messages], is_last=is_last)
            except OSError:
                _log.debug("the supervisor is gone; %d messages not sent", len(messages))

    def _hold(self, message: FromExecutor) -> None:
        with self._lock:
            self._held.append(message)

    def _take_transfer(self) -> Moved | None:
        if not self._objects and not self._bytes:
            return None
        message = Moved(objects=self._objects, size=self._bytes)
        self._objects = self._bytes = 0
        self._transfer_sent_at = time.monotonic()
        return message

    def _take_progress(self) -> BodyProgress | None:
        message, self._progress = self._progress, None
        if message is not None:
            self._progress_sent_at = time.monotonic()
        return message


def _as_fraction(given: object) -> float | None:
    """A number that every display can take."""
    try:
        number = float(given) if isinstance(given, int | float) else math.nan
    except OverflowError:
        return None
    return number if math.isfinite(number) else None
