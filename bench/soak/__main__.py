"""`python -m bench.soak --minutes 20`: exit code 0 is flat, 1 is not."""

import argparse
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from bench.conductor import Conductor, start_conductor
from bench.place import make_place
from bench.process_tree import ProcessTree, run_tree
from bench.soak.feeder import Feeder
from bench.soak.trend import FEWEST, MIB, TOLERANCES, Trend, find_trend
from perago.bootstrap import open_application
from perago.domain.errors import EnvironmentUnfitError
from perago.settings import Settings

_SAMPLES = 400
_DEATHS = 10
_EXECUTOR = "--multiprocessing-fork"


@dataclass(slots=True)
class Life:
    """What one process of the worker held, sample by sample."""

    title: str
    figures: dict[str, list[float]] = field(default_factory=lambda: {one: [] for one in TOLERANCES})

    def add(self, process: psutil.Process) -> None:
        """One more sample."""
        with process.oneshot():
            self.figures["memory"].append(process.memory_info().rss)
            self.figures["descriptors"].append(process.num_fds())
            self.figures["threads"].append(process.num_threads())

    @property
    def length(self) -> int:
        """How many samples there are."""
        return len(self.figures["memory"])


class Watch:
    """Samples the processes of one worker, each by itself: an executor that died is a life."""

    def __init__(self, tree: ProcessTree) -> None:
        self._tree = tree
        self.lives: dict[int, Life] = {}

    def look(self) -> None:
        """Take one sample of all that run."""
        self._tree.require_alive()
        for process in self._tree.members:
            try:
                self._life_of(process).add(process)
            except (psutil.Error, KeyError):  # it ended just now, or is no process of ours to judge
                continue

    def _life_of(self, process: psutil.Process) -> Life:
        if process.pid in self.lives:
            return self.lives[process.pid]
        if process.pid == self._tree.process.pid:
            title = "supervisor"
        elif _EXECUTOR in process.cmdline():
            title = f"executor {sum(one.title != 'supervisor' for one in self.lives.values()) + 1}"
        else:
            raise KeyError(process.pid)
        return self.lives.setdefault(process.pid, Life(title))


def main() -> int:
    """Run for so long, then judge."""
    parser = argparse.ArgumentParser(prog="python -m bench.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=20.0)
    seconds = 60 * parser.parse_args().minutes
    try:
        with make_place() as place, start_conductor(place / "server") as server:
            lives = _soak(place, server.api, seconds)
    except EnvironmentUnfitError as error:
        print(f"cannot soak: {error}")
        return 3
    return 0 if _show(lives) else 1


def _soak(place: Path, api: str, seconds: float) -> list[Life]:
    home = place / "home"
    settings = Settings(home=home, orchestrator="conductor", conductor_url=api)
    worker = [sys.executable, "-m", "perago", "start", "bench.soak.tasks", "-j", "2"]
    environment = {"PERAGO_HOME": str(home), "PERAGO_CONDUCTOR_URL": api}
    with open_application(settings, create=True) as application:
        feeder = Feeder(Conductor(api), application, seconds / 2 / _DEATHS)
        feeder.start()
        with run_tree(worker, log=place / "worker.log", environment=environment) as tree:
            watch = Watch(tree)
            began, pause = time.monotonic(), seconds / _SAMPLES
            while (passed := time.monotonic() - began) < seconds:
                # Deaths in the middle: so there are long lives before and after them.
                feeder.let_die(seconds / 4 < passed < seconds * 3 / 4)
                watch.look()
                if feeder.error is not None:
                    raise feeder.error
                time.sleep(pause)
            feeder.stop()
        begun = ", ".join(f"{count} {name}" for name, count in sorted(feeder.begun.items()))
        print(f"{seconds / 60:g} minutes; all ended as they should: {begun}")
    return list(watch.lives.values())


def _show(lives: list[Life]) -> bool:
    """Print the trends; whether all are flat."""
    judged = [life for life in lives if life.length >= max(FEWEST, _SAMPLES / 8)]
    print(f"{len(lives) - 1} executors lived; the short lives are not judged\n")
    print(f"{'':32}{'median of each quarter':>36}  growth")
    flat = True
    for life in judged:
        for figure, samples in life.figures.items():
            trend = find_trend(figure, samples)
            flat = flat and trend.is_flat
            _show_trend(life, trend)
    print(
        "\ntolerated from the first quarter to the last: "
        f"{TOLERANCES['memory'].absolute / MIB:.0f} MiB or {TOLERANCES['memory'].share:.0%} of "
        f"memory, {TOLERANCES['descriptors'].absolute:.0f} descriptors, "
        f"{TOLERANCES['threads'].absolute:.0f} threads"
    )
    print("flat" if flat else "NOT FLAT")
    return flat


def _show_trend(life: Life, trend: Trend) -> None:
    unit, digits = (MIB, 1) if trend.figure == "memory" else (1, 0)
    name = f"{life.title}, {trend.figure}" + (", MiB" if unit == MIB else "")
    quarters = "".join(f"{quarter / unit:9.{digits}f}" for quarter in trend.quarters)
    growth = f"{trend.growth / unit:+8.{digits}f}"
    print(f"{name:32}{quarters}{growth}  {'' if trend.is_flat else 'GROWS'} {trend.shape}")


if __name__ == "__main__":
    sys.exit(main())
