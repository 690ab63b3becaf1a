"""Tables of what was measured, with the aims and what was measured elsewhere beside them."""

import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from bench.dispatch.contest import Idleness, Throughput, median_of
from bench.dispatch.options import BARE, PEER, PERAGO
from bench.machine import describe_machine

RATE_AIM = 0.9
"""Of the bare loop's best."""

CPU_AIM = 0.5
"""Of the peer's processor time for each task."""

LATENCY_AIM_MS, IDLE_AIM_PERCENT = 70.0, 2.0

ELSEWHERE = "measured elsewhere: peer 71 tasks/s, 134 ms idle; bare loop 84 to 100 tasks/s"


def show_throughput(queues: Sequence[Throughput]) -> None:
    """The contestants beside each other, then what Perago is to be measured by."""
    names = list(dict.fromkeys(queue.contestant for queue in queues))
    rounds = 1 + max(queue.round for queue in queues)
    print(f"\na full queue, median of {rounds} (least to most)")
    print(f"{'':10}{'tasks/s':>10}{'':18}{'ms cpu/task':>13}{'of the server':>15}")
    rates, costs = {}, {}
    for name in names:
        own = [queue for queue in queues if queue.contestant == name]
        speeds = [queue.tasks_per_second for queue in own]
        rates[name] = median_of(speeds)
        costs[name] = median_of([queue.cpu_ms_per_task for queue in own])
        server = median_of([queue.server_cpu_ms_per_task for queue in own])
        spread = f"({min(speeds):.1f} to {max(speeds):.1f})"
        print(f"{name:10}{rates[name]:10.1f}  {spread:16}{costs[name]:13.2f}{server:15.2f}")
    print(ELSEWHERE)
    _show_rate(rates)
    _show_cost(costs)


def _show_rate(rates: dict[str, float]) -> None:
    limits = {name: rate for name, rate in rates.items() if name in BARE}
    if PERAGO not in rates or not limits:
        return
    best = max(limits, key=limits.__getitem__)
    share = rates[PERAGO] / limits[best]
    print(
        f"perago reaches {share:.0%} of the server's limit ({best}) "
        f"(aim: {RATE_AIM:.0%}, {verdict(share >= RATE_AIM)})"
    )
    if PEER in rates:
        print(f"the peer reaches {rates[PEER] / limits[best]:.0%}")


def _show_cost(costs: dict[str, float]) -> None:
    if not {PERAGO, PEER} <= costs.keys():
        return
    share = costs[PERAGO] / costs[PEER]
    print(
        f"perago needs {share:.0%} of the peer's processor time a task "
        f"(aim: {CPU_AIM:.0%}, {verdict(share <= CPU_AIM)})"
    )


def show_idleness(idle: Sequence[Idleness]) -> None:
    """How soon an idle worker has done a task, and what it costs to wait for one."""
    if not idle:
        return
    print("\none task on an idle worker, median (9th decile)")
    print(
        f"{'':10}{'seen done, ms':>18}{'waited, ms':>16}{'done, ms':>16}{'idle, % of a core':>20}"
    )
    for name in dict.fromkeys(one.contestant for one in idle):
        own = [one for one in idle if one.contestant == name]
        seen = [ms for one in own for ms in one.seen_ms]
        wait = [ms for one in own for ms in one.wait_ms]
        done = [ms for one in own for ms in one.done_ms]
        share = median_of([one.idle_cpu_percent for one in own])
        print(f"{name:10}{_spread(seen):>18}{_spread(wait):>16}{_spread(done):>16}{share:18.2f}")
        if name == PERAGO:
            is_met = median_of(seen) < LATENCY_AIM_MS and share < IDLE_AIM_PERCENT
            aim = f"(aim: under {LATENCY_AIM_MS:.0f} ms at under {IDLE_AIM_PERCENT:.0f} %"
            print(f"{'':10}{aim}, {verdict(is_met)})")


def _spread(values: Sequence[float]) -> str:
    tenth = sorted(values)[int(0.9 * (len(values) - 1))]
    return f"{median_of(values):.0f} ({tenth:.0f})"


def verdict(is_met: bool) -> str:
    """In one word."""
    return "met" if is_met else "MISSED"


def write_json(path: Path, queues: Sequence[Throughput], idle: Sequence[Idleness]) -> None:
    """Every figure, with the machine that it is of."""
    found = {
        "machine": describe_machine() | {"load": os.getloadavg()},
        "queues": [asdict(queue) for queue in queues],
        "idle": [asdict(one) for one in idle],
    }
    path.write_text(json.dumps(found, indent=1) + "\n")
