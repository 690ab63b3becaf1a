"""What a supervisor and its executors tell each other over a pipe. All of it pickles.

Plain pickle, not `Connection.send`: what is told holds no handles, and a worker tells a lot. For
the same reason each class is pickled as a tuple of its fields, which is several times as fast as
what `dataclass` provides for frozen ones with slots.
"""

from __future__ import annotations

import copyreg
import pickle
from collections.abc import Callable
from dataclasses import dataclass, fields
from multiprocessing.connection import Connection
from operator import attrgetter
from pathlib import Path

from perago.domain.attempt import Attempt
from perago.domain.changes import ChangeCount
from perago.domain.ids import ExecutionId
from perago.domain.outcome import Completed, Failed, Outcome, Phase, TerminalFailure
from perago.domain.spark_progress import SparkProgress, SparkStage
from perago.domain.workflow import PolledTask


@dataclass(frozen=True, slots=True, kw_only=True)
class RunAttempt:
    """To an executor: run this. The lease is in shared memory, not here: it changes."""

    polled: PolledTask
    execution_id: ExecutionId
    log_path: Path
    is_brief: bool
    """Whether it will be over in no time, if it is like those before it."""


@dataclass(frozen=True, slots=True)
class Stop:
    """To an executor: end when idle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """From an executor: it is built and waits for work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfit:
    """From an executor: it could not be built, and another one could not either."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseStarted:
    """From an executor: its attempt entered a phase."""

    phase: Phase


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseEnded:
    """From an executor: its attempt left a phase."""

    phase: Phase
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Transferred:
    """From an executor: objects and bytes moved since the last such message."""

    objects: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Progressed:
    """From an executor: the body said how far it is."""

    message: str
    fraction: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkProgressed:
    """From an executor: how far Spark is, now and then with a line for the task's log."""

    progress: SparkProgress
    line: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptEnded:
    """From an executor: the attempt is cleaned up and the slot is free.

    Where the orchestrator could not be told, the supervisor goes on trying.
    """

    outcome: Outcome
    is_reported: bool
    changes: ChangeCount | None = None


ToExecutor = RunAttempt | Stop
FromAttempt = PhaseStarted | PhaseEnded | Transferred | Progressed | SparkProgressed | AttemptEnded
FromExecutor = Ready | Unfit | FromAttempt


def _build(kind: Callable[..., object], names: tuple[str, ...], *values: object) -> object:
    return kind(**dict(zip(names, values, strict=True)))


def _pickle_by_fields(kind: type) -> None:
    names = tuple(field.name for field in fields(kind))
    values_of = attrgetter(*names)
    is_single = len(names) == 1

    def reduce(told: object) -> tuple[Callable[..., object], tuple[object, ...]]:
        values = values_of(told)
        return _build, (kind, names, *((values,) if is_single else values))

    copyreg.pickle(kind, reduce)


for _kind in (
    *(Attempt, PolledTask, ChangeCount, Completed, Failed, TerminalFailure),
    *(SparkStage, SparkProgress, SparkProgressed),
    *(RunAttempt, Unfit, PhaseStarted, PhaseEnded, Transferred, Progressed, AttemptEnded),
):
    _pickle_by_fields(_kind)


def tell_executor(connection: Connection, message: ToExecutor) -> None:
    """Send one message to an executor."""
    connection.send_bytes(pickle.dumps(message))


def hear_supervisor(connection: Connection) -> ToExecutor:
    """Wait for the next message of the supervisor; `EOFError` when it is gone."""
    message: ToExecutor = pickle.loads(connection.recv_bytes())  # noqa: S301 - from our own parent
    return message


def tell_supervisor(connection: Connection, *messages: FromExecutor) -> None:
    """Send messages in their order, in one piece."""
    connection.send_bytes(pickle.dumps(messages))


def hear_executor(connection: Connection) -> tuple[FromExecutor, ...]:
    """The messages of the next piece that an executor sent."""
    messages: tuple[FromExecutor, ...]
    messages = pickle.loads(connection.recv_bytes())  # noqa: S301 - from our own child
    return messages
