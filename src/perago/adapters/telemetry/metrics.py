"""The instruments of a worker: what is counted, in which unit, by which few attributes.

No attribute may have more values than there are tasks, phases or statuses: an id in a metric would
grow for as long as the worker lives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from opentelemetry.metrics import CallbackOptions, Meter, Observation

from perago.adapters.telemetry.options import ExecutorCount
from perago.domain.events import (
    AttemptEnded,
    Event,
    ExecutorDied,
    HeartbeatFailed,
    LeaseLost,
    PhaseEnded,
    Polled,
    PollFailed,
    Transferred,
)

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 900, 3600)


class Instruments:
    """Every metric of a worker. Names and units are the reference in the documentation."""

    def __init__(self, meter: Meter, executors: Callable[[], ExecutorCount | None]) -> None:
        self._attempts = meter.create_counter(
            "perago.attempts", description="Attempts that ended, by task and status."
        )
        self._attempt_seconds = meter.create_histogram(
            "perago.attempt.duration",
            unit="s",
            description="From being handed to an executor to its end.",
            explicit_bucket_boundaries_advisory=_SECONDS,
        )
        self._phase_seconds = meter.create_histogram(
            "perago.phase.duration",
            unit="s",
            description="Time that attempts spent in each phase.",
            explicit_bucket_boundaries_advisory=_SECONDS,
        )
        self._bytes = meter.create_counter(
            "perago.transfer.size", unit="By", description="Bytes moved, by direction."
        )
        self._objects = meter.create_counter(
            "perago.transfer.objects", description="Objects moved, by direction."
        )
        self._deaths = meter.create_counter(
            "perago.executor.deaths", description="Executors that died."
        )
        self._polls = meter.create_counter("perago.polls", description="Polls that were answered.")
        self._poll_errors = meter.create_counter(
            "perago.poll.errors", description="Polls that failed."
        )
        self._polled = meter.create_counter("perago.polled.tasks", description="Tasks polled.")
        self._heartbeats = meter.create_counter(
            "perago.heartbeat.errors", description="Heartbeats that failed."
        )
        self._leases = meter.create_counter("perago.leases.lost", description="Attempts given up.")
        # What never happened is 0 and not absent: an alert on its increase sees the first time.
        for counter in (
            self._deaths,
            self._polls,
            self._poll_errors,
            self._polled,
            self._heartbeats,
            self._leases,
        ):
            counter.add(0)
        self._executors = executors
        meter.create_observable_gauge(
            "perago.executors", [self._observe_executors], description="Executors, by state."
        )

    def handle(self, event: Event) -> None:
        """Count the event."""
        match event:
            case PhaseEnded(phase=phase, seconds=seconds):
                attributes = {"task": event.attempt.task_name, "phase": phase.value}
                self._phase_seconds.record(seconds, attributes)
            case Transferred(direction=direction):
                attributes = {"task": event.attempt.task_name, "direction": direction.value}
                self._objects.add(event.objects, attributes)
                self._bytes.add(event.size, attributes)
            case AttemptEnded(seconds=seconds):
                attributes = {"task": event.attempt.task_name, "status": event.status}
                self._attempts.add(1, attributes)
                self._attempt_seconds.record(seconds, attributes)
            case Polled(tasks=tasks):
                self._polls.add(1)
                self._polled.add(tasks)
            case PollFailed():
                self._poll_errors.add(1)
            case HeartbeatFailed():
                self._heartbeats.add(1)
            case LeaseLost():
                self._leases.add(1)
            case ExecutorDied():
                self._deaths.add(1)
            case _:
                pass

    def _observe_executors(self, _: CallbackOptions) -> Iterable[Observation]:
        count = self._executors()
        if count is None:
            return []
        return [
            Observation(count.wanted, {"state": "wanted"}),
            Observation(count.alive, {"state": "alive"}),
            Observation(count.busy, {"state": "busy"}),
        ]
