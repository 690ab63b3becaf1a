"""Tables in Markdown of what was measured, and the figures as JSON."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench.machine import describe_machine
from bench.spark.figures import (
    cpu_medians,
    fit_line,
    judge,
    median_of,
    overhead,
    scales_of,
    select,
    step_named,
    wall_medians,
)
from bench.spark.relay import Traffic
from bench.spark.run import Run, Step
from bench.spark.usage import Peaks

MIB = 1024**2
PHASES = (
    *("prepare", "download", "pre-check", "body", "post-check"),
    *("diff", "stage", "publish", "cleanup"),
)


def show(runs: Sequence[Run]) -> None:
    """Everything, to be read or to be put into a document."""
    for text in (cost_table(runs), step_table(runs), spark_table(runs), aim_table(runs)):
        print(f"\n{text}")


def cost_table(runs: Sequence[Run]) -> str:
    """What the steps took together, at each scale, one kind beside the other."""
    rows = []
    for scale in scales_of(runs):
        medians = {}
        for access in ("local", "direct"):
            if not (chosen := select(runs, access, scale)):
                continue
            medians[access] = median_of(chosen, lambda run: run.seconds)
            rows.append(
                [
                    f"x{scale}",
                    access,
                    f"{medians[access]:.1f} s" + _ratio(access, medians),
                    f"{median_of(chosen, lambda run: run.cpu_seconds):.1f} s",
                    _mib(chosen, lambda run: run.worker_traffic.total),
                    _mib(chosen, lambda run: run.spark_traffic.total),
                    _mib(chosen, lambda run: run.peaks.disk["workspaces"]),
                    _mib(chosen, lambda run: run.peaks.disk["cache"]),
                    _mib(chosen, lambda run: run.peaks.disk["spark"]),
                    _mib(chosen, lambda run: run.peaks.python),
                    _mib(chosen, lambda run: run.peaks.jvm),
                ]
            )
    header = [
        "data",
        "workspace",
        "wall time",
        "processor time",
        "worker's traffic",
        "Spark's traffic",
    ]
    header += ["disk: workspaces", "disk: cache", "disk: Spark", "memory: worker", "memory: Spark"]
    return _table(header, rows)


def _ratio(access: str, medians: Mapping[str, float]) -> str:
    if access != "direct" or "local" not in medians:
        return ""
    return f" ({medians['direct'] / medians['local']:.2f} x local)"


def _mib(runs: Sequence[Run], figure: Callable[[Run], float]) -> str:
    return f"{median_of(runs, figure) / MIB:,.1f} MiB"


def step_table(runs: Sequence[Run]) -> str:
    """Where the time went, step by step."""
    rows = []
    names = list(dict.fromkeys(step.name for run in runs for step in run.steps))
    for scale in scales_of(runs):
        for name in names:
            for access in ("local", "direct"):
                steps = [s for run in select(runs, access, scale) if (s := step_named(run, name))]
                if steps:
                    rows.append([f"x{scale}", name, access, *_phase_cells(steps)])
    return _table(["data", "step", "workspace", "seconds", *PHASES], rows)


def _phase_cells(steps: Sequence[Step]) -> list[str]:
    # Of the step in the middle, so that the parts are those of the sum.
    middle = sorted(steps, key=lambda step: step.seconds)[(len(steps) - 1) // 2]
    return [f"{middle.seconds:.2f}", *(f"{middle.phases.get(name, 0.0):.2f}" for name in PHASES)]


def spark_table(runs: Sequence[Run]) -> str:
    """What lending Spark costs: to the first attempt, to the second, and to the steps."""
    rows = []
    for access in ("local", "direct"):
        if not (chosen := select(runs, access)):
            continue
        attempts = {
            "first, which starts Spark": [run.warm_ups[0] for run in chosen],
            "second": [run.warm_ups[1] for run in chosen],
            "third and on": [step for run in chosen for step in run.warm_ups[2:]],
        }
        for name in dict.fromkeys(step.name for run in chosen for step in run.steps):
            found = [step_named(run, name) for run in chosen]
            attempts[f"`{name}`"] = [step for step in found if step is not None]
        for name, steps in attempts.items():
            if steps:
                rows.append([access, name, *_overhead_cells(steps)])
    header = ["workspace", "attempt", "whole", "added to Spark", "lease", "open", "settle", "close"]
    return _table(header, rows)


def _overhead_cells(steps: Sequence[Step]) -> list[str]:
    middle = sorted(steps, key=overhead)[(len(steps) - 1) // 2]
    parts = [f"{middle.spark.get(part, 0.0):.3f}" for part in ("lease", "open", "settle", "close")]
    return [f"{middle.seconds:.2f} s", f"{overhead(middle):.3f} s", *parts]


def aim_table(runs: Sequence[Run]) -> str:
    """Each aim, what was found, and the lines of the plot."""
    rows = [[aim.what, aim.found, aim.verdict] for aim in judge(runs)]
    for access in ("local", "direct"):
        for what, medians in (("wall", wall_medians), ("processor", cpu_medians)):
            points = medians(runs, access)
            if len(points) > 1:
                line = fit_line(points)
                found = f"{line.fixed:.1f} s and {line.per_million:.2f} s for a million rows"
                rows.append([f"{access}: {what} time, fitted line", found, ""])
    return _table(["aim", "found", ""], rows)


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def write_json(path: Path, conditions: Mapping[str, object], runs: Sequence[Run]) -> None:
    """Every run's figures, with the machine and the conditions that they are of."""
    found = {
        "machine": describe_machine(),
        "conditions": dict(conditions),
        "runs": [asdict(run) for run in runs],
    }
    path.write_text(json.dumps(found, indent=1) + "\n")


def read_json(path: Path) -> list[Run]:
    """The runs of an earlier benchmark."""
    return [_read_run(run) for run in json.loads(path.read_text())["runs"]]


def _read_run(found: dict[str, Any]) -> Run:
    return Run(
        **found
        | {
            "warm_ups": [Step(**step) for step in found["warm_ups"]],
            "steps": [Step(**step) for step in found["steps"]],
            "worker_traffic": Traffic(**found["worker_traffic"]),
            "spark_traffic": Traffic(**found["spark_traffic"]),
            "peaks": Peaks(**found["peaks"]),
        }
    )
