"""What a worker's process is told, and what it and the benchmark find out about its attempts."""

from dataclasses import dataclass
from pathlib import Path

from bench.spark.relay import Traffic
from bench.spark.usage import Peaks


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """The steps, one after another, on a branch of their own; `place` is the worker's disk.

    Of `warm_ups` small attempts before them the first starts Spark and the others find it warm.
    """

    access: str
    repository: str
    branch: str
    steps: list[str]
    warm_ups: int
    memory_mb: int
    place: Path

    @property
    def disk(self) -> dict[str, Path]:
        """Where the worker keeps what."""
        return {name: self.place / name for name in ("workspaces", "cache", "spark")}

    @property
    def answer(self) -> Path:
        """Where it says how it went."""
        return self.place / "answer.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One whole attempt, its phases, and what lending Spark to it cost.

    Processor time is that of the worker's own process and of Spark's, user and system.
    """

    name: str
    seconds: float
    worker_cpu_seconds: float
    spark_cpu_seconds: float
    phases: dict[str, float]
    spark: dict[str, float]
    result: dict[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """All attempts of one worker, and what they took together."""

    scale: int
    rows: int
    access: str
    round: int
    warm_ups: list[Step]
    steps: list[Step]
    worker_traffic: Traffic
    spark_traffic: Traffic
    peaks: Peaks
    server_cpu_seconds: float
    relay_cpu_seconds: float

    @property
    def seconds(self) -> float:
        """The wall time of the steps."""
        return sum(step.seconds for step in self.steps)

    @property
    def cpu_seconds(self) -> float:
        """The processor time of the steps: the worker's and Spark's, without the server's."""
        return sum(step.worker_cpu_seconds + step.spark_cpu_seconds for step in self.steps)
