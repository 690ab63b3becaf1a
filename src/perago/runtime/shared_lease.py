"""What a supervisor and an executor both see of an attempt, in shared memory.

A message in a pipe could wait behind others; a number in shared memory cannot be late.
"""

from __future__ import annotations

from ctypes import Structure, c_double, c_longlong
from typing import Any, ClassVar

from perago.domain.outcome import Phase
from perago.runtime.leases import LEASE_LOST

PHASES = tuple(Phase)
"""In their order; shared memory holds the number of one."""

_NOT_COUNTED = -1


class AttemptCell(Structure):
    """The shared memory itself. The supervisor writes the lease, the executor its phase."""

    _fields_: ClassVar[Any] = (
        ("deadline", c_double),
        ("poll_count", c_longlong),
        ("phase_number", c_longlong),
    )

    deadline: float
    poll_count: int
    phase_number: int

    def share(self, deadline: float, poll_count: int | None) -> None:
        """Say until when the lease lasts, and which delivery of the task is the current one."""
        self.poll_count = _NOT_COUNTED if poll_count is None else poll_count
        self.deadline = deadline

    def enter(self, phase: Phase) -> None:
        """Say which phase is under way."""
        self.phase_number = PHASES.index(phase)

    @property
    def phase(self) -> Phase | None:
        """The phase that is under way; None where a body wrote nonsense here."""
        number = self.phase_number
        return PHASES[number] if 0 <= number < len(PHASES) else None


class SharedLease:
    """The `Lease` of an executor's attempt."""

    def __init__(self, cell: AttemptCell) -> None:
        self._cell = cell

    @property
    def deadline(self) -> float:
        """When the lease runs out, on `Clock.elapsed`."""
        return self._cell.deadline

    @property
    def is_lost(self) -> bool:
        """Whether the supervisor gave the attempt up."""
        return self._cell.deadline == LEASE_LOST

    @property
    def poll_count(self) -> int | None:
        """Which delivery of the task is the current one, where that is counted."""
        count = self._cell.poll_count
        return None if count == _NOT_COUNTED else count
