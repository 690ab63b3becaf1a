"""How far Spark is with the body of an attempt, as values, and in words for people."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkStage:
    """A stage that runs. `name` says which line of the body asked for it, where that is known."""

    name: str
    tasks: int
    tasks_done: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkProgress:
    """What Spark has done since it was first looked at, and what it is doing now.

    `stages` are those that were needed so far: Spark learns of more with each job.
    """

    jobs: int = 0
    stages: int = 0
    stages_done: int = 0
    tasks_done: int = 0
    tasks_failed: int = 0
    active: tuple[SparkStage, ...] = ()

    def describe(self) -> str:
        """What it is doing now; between jobs, what it has done."""
        if not self.active:
            return self.describe_total()
        stage = self.active[0]
        number = min(self.stages_done + 1, max(self.stages, 1))
        name = f" ({stage.name})" if stage.name else ""
        others = f", {len(self.active) - 1} more beside it" if len(self.active) > 1 else ""
        failed = f", {_count(self.tasks_failed, 'failed task')}" if self.tasks_failed else ""
        return (
            f"Spark stage {number} of {max(self.stages, number)}{name}, "
            f"{stage.tasks_done}/{stage.tasks} tasks{others}{failed}"
        )

    def describe_total(self) -> str:
        """What it has done so far."""
        parts = [
            _count(self.jobs, "job"),
            _count(self.stages_done, "stage"),
            _count(self.tasks_done, "task"),
        ]
        if self.tasks_failed:
            parts.append(_count(self.tasks_failed, "failed task"))
        return f"Spark: {', '.join(parts)}"


NO_SPARK_PROGRESS = SparkProgress()


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
