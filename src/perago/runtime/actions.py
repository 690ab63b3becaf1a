"""What a turn of a worker wants done: see `turn.py`."""

from __future__ import annotations

from dataclasses import dataclass

from perago.domain.attempt import Attempt
from perago.domain.events import Event
from perago.domain.ids import ExecutionId
from perago.runtime.polling import Poll
from perago.runtime.reports import Report
from perago.runtime.slot import Assignment


@dataclass(frozen=True, slots=True, kw_only=True)
class Spawn:
    """Start a process in a slot."""

    slot: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """End a slot's process with everything that it started."""

    slot: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Retire:
    """Ask an idle executor to end by itself."""

    slot: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Hand an attempt to a slot's executor."""

    slot: int
    assignment: Assignment


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareLease:
    """Let an executor see until when its lease lasts, and which delivery is the current one."""

    slot: int
    deadline: float
    poll_count: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TellReported:
    """Let an executor that waits before its clean-up know that the report is settled."""

    slot: int
    execution_id: ExecutionId
    is_accepted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Collect:
    """Remove the directory of an execution whose process is dead."""

    assignment: Assignment


@dataclass(frozen=True, slots=True, kw_only=True)
class SendPoll:
    """Ask the orchestrator for attempts."""

    poll: Poll


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat:
    """Renew a lease, and read back: a stale heartbeat is answered like a good one."""

    slot: int
    assignment: Assignment
    began: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CountDeaths:
    """Look up how many executors the step of a report killed before."""

    report: Report


@dataclass(frozen=True, slots=True, kw_only=True)
class SendReport:
    """Report, unless the delivery is stale."""

    report: Report


@dataclass(frozen=True, slots=True, kw_only=True)
class HandBack:
    """Give a delivery that was not begun to whoever polls next."""

    attempt: Attempt


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendLog:
    """Add a line to a task's log at the orchestrator."""

    attempt: Attempt
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Tell:
    """Tell the subscribers."""

    event: Event


Action = (
    Spawn
    | Kill
    | Retire
    | Run
    | ShareLease
    | TellReported
    | Collect
    | SendPoll
    | Beat
    | CountDeaths
    | SendReport
    | HandBack
    | AppendLog
    | Tell
)
