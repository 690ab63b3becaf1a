"""Tables of what was measured, with the aim beside each figure."""

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from bench.machine import describe_machine
from bench.transfer.contest import Attempt, median_of
from bench.transfer.workload import MIB, Scenario, Workspace

AIMS = {
    ("S", Scenario.NO_OP): 1.2,
    ("S", Scenario.CHANGE_ONE): 1.3,
    ("S", Scenario.REWRITE_ALL): 2.0,
    ("L", Scenario.NO_OP): 2.0,
    ("L", Scenario.CHANGE_ONE): 2.5,
    ("L", Scenario.REWRITE_ALL): 6.0,
}
"""Seconds of a whole attempt with an empty cache."""

WARM_AIM = 2.0
"""A warm download, as a multiple of `cp -r`."""

MEMORY_AIM_MIB = 64
"""How much more the largest file may need than the middle one: noise, but no share of the file."""

PHASES = ("prepare", "download", "body", "diff", "stage", "publish", "report", "cleanup")


def show_workspace(workspace: Workspace, attempts: Sequence[Attempt]) -> None:
    """The contestants beside each other, then where their time went."""
    rounds = 1 + max(attempt.round for attempt in attempts)
    scenarios = list(dict.fromkeys(attempt.scenario for attempt in attempts))
    names = list(dict.fromkeys(attempt.contestant for attempt in attempts))
    print(f"\n{workspace.name}: {workspace}, seconds of a whole attempt, median of {rounds}")
    print(f"{'':14}" + "".join(f"{name:>13}" for name in names) + f"{'aim':>13}{'peer/perago':>13}")
    for scenario in scenarios:
        medians = {name: median_of(_select(attempts, scenario, name)) for name in names}
        cells = "".join(f"{medians[name]:13.2f}" for name in names)
        print(f"{scenario:14}{cells}{_aim(workspace, scenario, medians)}{_ratio(medians)}")
    _show_warm(attempts, names)
    _show_phases(attempts, scenarios, names)


def _select(attempts: Sequence[Attempt], scenario: Scenario, name: str) -> list[Attempt]:
    return [a for a in attempts if a.scenario is scenario and a.contestant == name]


def _aim(workspace: Workspace, scenario: Scenario, medians: dict[str, float]) -> str:
    aim = AIMS.get((workspace.name, scenario))
    if aim is None or "perago" not in medians:
        return f"{'-':>13}"
    text = f"{aim:.1f} {_verdict(medians['perago'] <= aim)}"
    return f"{text:>13}"


def _ratio(medians: dict[str, float]) -> str:
    if not {"peer", "perago"} <= medians.keys():
        return f"{'-':>13}"
    return f"{medians['peer'] / medians['perago']:11.1f} x"


def _verdict(is_met: bool) -> str:
    return "met" if is_met else "MISSED"


def _show_warm(attempts: Sequence[Attempt], names: Sequence[str]) -> None:
    if not {"perago-warm", "cp"} <= set(names):
        return
    warm = median_of([a for a in attempts if a.contestant == "perago-warm"], "download")
    copy = median_of([a for a in attempts if a.contestant == "cp"])
    ratio = warm / copy
    print(
        f"download with a warm cache: {warm:.2f} s, {ratio:.2f} x cp -r "
        f"(aim: {WARM_AIM:.0f} x, {_verdict(ratio <= WARM_AIM)})"
    )


def _show_phases(
    attempts: Sequence[Attempt], scenarios: Sequence[Scenario], names: Sequence[str]
) -> None:
    print("\nwhere the time goes, and what it takes")
    print(
        f"{'':26}"
        + "".join(f"{phase:>10}" for phase in (*PHASES, "other"))
        + f"{'own cpu':>10}{'lakeFS cpu':>12}{'peak MiB':>10}{'objects':>9}"
    )
    for scenario in scenarios:
        for name in names:
            chosen = _select(attempts, scenario, name)
            phases = [median_of(chosen, phase) for phase in PHASES]
            other = max(0.0, median_of(chosen) - sum(phases))
            cpu = [a.run.cpu_seconds for a in chosen if a.run.cpu_seconds is not None]
            peaks = [a.run.peak_bytes for a in chosen if a.run.peak_bytes is not None]
            own = f"{statistics.median(cpu):10.3f}" if cpu else f"{'-':>10}"
            theirs = f"{statistics.median(a.server_cpu_seconds for a in chosen):12.3f}"
            peak = f"{max(peaks) / MIB:10.0f}" if peaks else f"{'-':>10}"
            cells = "".join(f"{seconds:10.3f}" for seconds in (*phases, other))
            print(f"{scenario:13}{name:13}{cells}{own}{theirs}{peak}{chosen[-1].stored:9}")


def show_memory(attempts: Sequence[Attempt]) -> None:
    """Peak memory beside the size of the one file that was downloaded, rewritten and uploaded."""
    print("\npeak memory of an attempt that downloads and rewrites one file")
    rows = []
    for attempt in attempts:
        assert attempt.run.peak_bytes is not None
        size, peak = int(attempt.workspace.removeprefix("M")) // MIB, attempt.run.peak_bytes / MIB
        rows.append((size, peak))
        print(f"{size:8} MiB file{peak:8.0f} MiB{attempt.run.seconds:8.2f} s")
    (middle, before), (largest, after) = rows[-2:]
    print(
        f"growth from {middle} to {largest} MiB: {after - before:.0f} MiB "
        f"(aim: none; under {MEMORY_AIM_MIB} MiB, {_verdict(after - before < MEMORY_AIM_MIB)})"
    )


def write_json(path: Path, conditions: Mapping[str, str], attempts: Sequence[Attempt]) -> None:
    """Every attempt's figures, with the machine and the conditions that they are of."""
    found = {
        "machine": describe_machine(),
        "conditions": dict(conditions),
        "attempts": [asdict(attempt) for attempt in attempts],
    }
    path.write_text(json.dumps(found, indent=1) + "\n")
