"""A worker that is handed poison by a real server goes on, and does the healthy work beside it."""

from __future__ import annotations

import random
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
import urllib3

from perago.bootstrap import open_application
from perago.domain.ids import WorkflowId
from perago.domain.workflow import WorkflowStatus
from perago.settings import Settings
from tests.conductor_server import SharedConductor
from tests.integration.worker_bench import Bench, Recorder
from tests.poison import PoisonKind, draw_poison
from tests.session_report import FIGURE

pytestmark = pytest.mark.conductor
SEED = 14
EXECUTORS = 2

PIPELINE = '''
from pydantic import BaseModel, JsonValue

from perago import Pipeline, RetryPolicy, TaskControls, task


class Params(BaseModel):
    x: JsonValue = None


class Result(BaseModel):
    x: JsonValue


@task("{name}", owner_email="data@example.com", controls=TaskControls(retry=RetryPolicy(count=0)))
def give_back(params: Params) -> Result:
    """Return the value."""
    return Result(x=params.x)


giving_back = Pipeline("{name}", 1, [give_back], params=Params)
'''


@dataclass(frozen=True, slots=True)
class Started:
    """A workflow instance whose input is poisoned, or healthy."""

    id: WorkflowId
    kind: PoisonKind | None


@pytest.mark.parametrize(
    "tasks",
    [
        pytest.param(90, id="90"),
        pytest.param(10_000, id="10000", marks=[pytest.mark.torture, pytest.mark.timeout(3600)]),
    ],
)
def test_poisoned_tasks_of_a_real_server_kill_no_worker(
    conductor_server: SharedConductor,
    tmp_path: Path,
    tasks: int,
    record_property: Callable[[str, object], None],
) -> None:
    name = f"give-back-{uuid.uuid4().hex[:12]}"
    pipelines = tmp_path / "giving.py"
    pipelines.write_text(PIPELINE.format(name=name))
    settings = Settings(
        home=tmp_path / "home",
        executors=EXECUTORS,
        orchestrator="conductor",
        conductor_url=conductor_server.endpoint,
    )
    recorder = Recorder()
    with open_application(settings, create=True) as application:
        bench = Bench(application=application, pipelines=pipelines)
        healthy = [bench.start("giving_back", {"x": "first"})]
        poisoned, refused = start_poisoned(conductor_server, name, tasks)
        healthy.append(bench.start("giving_back", {"x": "last"}))
        everything = [*(one.id for one in poisoned), *healthy]
        bench.work_on_all(["giving_back"], everything, recorder)

        ends = count_ends(bench, poisoned)
        for workflow in healthy:
            state = bench.state(workflow)
            assert state.status is WorkflowStatus.COMPLETED, state.reason
    assert recorder.died == []
    assert ends[f"{PoisonKind.DEPTH} failed"], "the task gets what the server was given"
    record_property(
        FIGURE,
        f"{tasks:,} poisoned tasks for one worker on Conductor: refused by the server "
        f"{sum(refused.values())}, {', '.join(f'{end} {ends[end]}' for end in sorted(ends))}",
    )


def start_poisoned(
    server: SharedConductor, name: str, tasks: int
) -> tuple[Sequence[Started], Counter[PoisonKind]]:
    """So many instances of each kind in turn that the server takes, and what it did not."""
    chance = random.Random(SEED)
    kinds = list(PoisonKind)
    started, refused = [], Counter[PoisonKind]()
    with urllib3.PoolManager() as pool:
        for number in range(tasks):
            poison = draw_poison(chance, kinds[number % len(kinds)])
            params = chance.choice([b'{"x":%s}', b'{"x":%s}', b"%s"]) % poison.data
            body = b'{"name":"%s","input":{"params":%s}}' % (name.encode(), params)
            answer = pool.request(
                "POST",
                f"{server.api}/workflow",
                body=body,
                headers={"Content-Type": "application/json"},
                retries=False,
            )
            if answer.status == 200:
                started.append(Started(WorkflowId(answer.data.decode()), poison.kind))
            else:
                refused[poison.kind] += 1
    return started, refused


def count_ends(bench: Bench, poisoned: Sequence[Started]) -> Counter[str]:
    """How many ended how; each has an end, and each failure a reason."""
    ends = Counter[str]()
    for one in poisoned:
        state = bench.state(one.id)
        assert state.status.is_terminal, f"{one.kind}: {state.status}"
        if state.status is not WorkflowStatus.COMPLETED:
            assert state.reason or state.tasks[0].reason, f"{one.kind} failed without a reason"
        ends[f"{one.kind} {state.status.value.lower()}"] += 1
    return ends
