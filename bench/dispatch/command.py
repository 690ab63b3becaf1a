"""What `python -m bench dispatch` does, from its flags to its tables."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

from bench.conductor import Conductor, start_conductor
from bench.dispatch.contest import Contest, Idleness, Throughput
from bench.dispatch.contestants import Contestant, make_contestant
from bench.dispatch.options import Options, parse_options
from bench.dispatch.perago_task import answer
from bench.dispatch.report import show_idleness, show_throughput, write_json
from bench.place import make_place
from perago.authoring import build_task_definition
from perago.domain.errors import EnvironmentUnfitError

_WARM_UP_TASKS = 300


def run(arguments: Sequence[str]) -> None:
    """Start the server, have all take turns, and show it."""
    options = parse_options(arguments)
    with make_place(options.place) as place:
        try:
            with start_conductor(place / "server") as server:
                assert server.pid is not None
                contest = Contest(Conductor(server.api), server.pid, place)
                _measure(options, contest, make_contestants(options, server.api, place))
        except EnvironmentUnfitError as error:
            print(f"skipped: {error}")


def make_contestants(options: Options, api: str, place: Path) -> list[Contestant]:
    """Those that were asked for, their tasks registered; a peer that cannot be had is left out."""
    found = []
    for name in options.contestants:
        try:
            found.append(make_contestant(name, api, place))
        except subprocess.CalledProcessError as error:
            print(f"{name} is left out, it could not be installed: {error}")
    for task_name in {contestant.task_name for contestant in found}:
        # The same definition for all: what differs is who polls.
        definition = build_task_definition(answer) | {"name": task_name}
        Conductor(api).register(definition, {"params": {"number": "${workflow.input.number}"}})
    return found


def _measure(options: Options, contest: Contest, contestants: Sequence[Contestant]) -> None:
    queues: list[Throughput] = []
    idle: list[Idleness] = []
    print("warming the server up", flush=True)
    contest.empty_queue(contestants[-1], min(options.tasks, _WARM_UP_TASKS), -1)
    for number in range(options.rounds):
        turn = number % len(contestants)
        for contestant in [*contestants[turn:], *contestants[:turn]]:
            queues.append(queue := contest.empty_queue(contestant, options.tasks, number))
            print(
                f"  round {number + 1} {contestant.name:8}{queue.tasks_per_second:7.1f} tasks/s"
                f"{queue.cpu_ms_per_task:8.2f} ms of processor time a task",
                flush=True,
            )
            if contestant.is_worker and options.latencies:
                idle.append(
                    contest.watch_idle(contestant, options.latencies, options.idle_seconds, number)
                )
    show_throughput(queues)
    show_idleness(idle)
    if options.json is not None:
        write_json(options.json, queues, idle)
