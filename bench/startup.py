"""How long commands take before they do anything, beside Python itself: `python -c pass`.

Whole processes, in turns, with their byte code compiled; the store is an embedded one with a
repository of one commit. Wall time and processor time, medians.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROUNDS = 21
PYTHON = "python -c pass"
AIMS_MS = {"perago --version": 150, "perago --help": 150, "perago store log": 300}


@dataclass(slots=True)
class Times:
    """Of one command, in milliseconds."""

    wall: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)


def main() -> None:
    """Start every command in turns and print the medians."""
    perago = [sys.executable, "-m", "perago"]
    commands = {
        PYTHON: [sys.executable, "-c", "pass"],
        "perago --version": [*perago, "--version"],
        "perago --help": [*perago, "--help"],
        "perago store log": [*perago, "store", "log", "bench"],
    }
    with tempfile.TemporaryDirectory(prefix="perago-bench-") as name:
        environment = os.environ | {"PERAGO_HOME": str(Path(name) / "home")}
        start([*perago, "store", "init", "bench"], environment)
        times = {label: Times() for label in commands}
        for command in commands.values():
            start(command, environment)  # compiles what was not compiled yet
        for _ in range(ROUNDS):
            for label, command in commands.items():
                before, began = os.times(), time.perf_counter()
                start(command, environment)
                times[label].wall.append((time.perf_counter() - began) * 1000)
                after = os.times()
                spent = after.children_user + after.children_system
                spent -= before.children_user + before.children_system
                times[label].processor.append(spent * 1000)
    show(times)


def start(command: Sequence[str], environment: Mapping[str, str]) -> None:
    """Run a command to its end."""
    subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True)


def show(times: Mapping[str, Times]) -> None:
    """Print one line for each command."""
    bare = statistics.median(times[PYTHON].wall)
    for label, found in times.items():
        wall = statistics.median(found.wall)
        line = f"{label:18}{wall:7.0f} ms, {wall / bare:5.1f} x python"
        line += f", {statistics.median(found.processor):4.0f} ms of processor time"
        if label in AIMS_MS:
            aim = AIMS_MS[label]
            line += f" (aim: under {aim} ms, {'met' if wall < aim else 'MISSED'})"
        print(line)


if __name__ == "__main__":
    main()
