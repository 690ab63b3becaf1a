"""What becomes of an instance when the machine's clock is set while it runs."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from perago.adapters.embedded.orchestrator.engine.instance import Instance, TaskRecord


def move_open_moments(instance: Instance, step: timedelta) -> Instance:
    """The instance with every moment that a time-out runs from as far from now as it was before.

    `scheduled_at` stays: it is a part of a delivery's identity. So does a WAIT's `until`, which is
    a time of the wall clock.
    """
    return replace(
        instance,
        started_at=instance.started_at + step,
        tasks=tuple(_move(record, step) if record.is_open else record for record in instance.tasks),
    )


def _move(record: TaskRecord, step: timedelta) -> TaskRecord:
    by_wall_clock = bool(record.input.get("until"))
    return replace(
        record,
        available_at=record.available_at + step,
        started_at=_later(record.started_at, step),
        updated_at=_later(record.updated_at, step),
        wait_until=record.wait_until if by_wall_clock else _later(record.wait_until, step),
    )


def _later(moment: datetime | None, step: timedelta) -> datetime | None:
    return None if moment is None else moment + step
