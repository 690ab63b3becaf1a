"""Bodies that write to their executor's connection end their own attempt, and no other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from perago.bootstrap import open_application
from perago.domain.events import Event, LeaseLost
from perago.domain.ids import WorkflowId
from perago.domain.workflow import WorkflowStatus
from perago.settings import Settings
from tests.acceptance.pipelines.hostile import KINDS
from tests.integration.worker_bench import MAIN, REPOSITORY, Bench

HOSTILE = Path(__file__).parents[1] / "acceptance" / "pipelines" / "hostile.py"


class LostLeases:
    """Remembers the attempts that were given up."""

    def __init__(self) -> None:
        self.reasons: list[str] = []

    def handle(self, event: Event) -> None:
        if isinstance(event, LeaseLost):
            self.reasons.append(event.reason)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    settings = Settings(home=tmp_path / "home", executors=3, shutdown_grace_seconds=0.5)
    with open_application(settings, create=True) as application:
        application.store.create_repository(REPOSITORY, branch=MAIN)
        yield Bench(application=application, pipelines=HOSTILE)


@pytest.mark.parametrize(
    "attempts",
    [
        pytest.param(2 * len(KINDS), id="each kind twice"),
        pytest.param(1000, id="1000", marks=[pytest.mark.torture, pytest.mark.timeout(3600)]),
    ],
)
def test_a_body_that_writes_to_its_connection_harms_only_its_own_attempt(
    bench: Bench, tmp_path: Path, attempts: int
) -> None:
    unpickled, own = tmp_path / "unpickled", tmp_path / "own"
    kinds: dict[WorkflowId, str] = {}
    innocent: list[WorkflowId] = []
    for number in range(attempts):
        kind = KINDS[number % len(KINDS)]
        file = str(unpickled if kind == "pickle" else own)
        kinds[bench.start("scribbling", {"seed": number, "kind": kind, "file": file})] = kind
        innocent += [bench.start("minding", {"seed": 2 * number + one}) for one in (0, 1)]
    lost = LostLeases()

    bench.work_on_all(["scribbling", "minding"], [*kinds, *innocent], lost)

    for number, workflow in enumerate(innocent):
        state = bench.state(workflow)
        assert state.status is WorkflowStatus.COMPLETED, state.reason
        assert state.tasks[0].output["result"] == {"seed": number}
    for workflow, kind in kinds.items():
        state = bench.state(workflow)
        assert state.status is WorkflowStatus.FAILED, f"{kind}: {state.output}"
        assert "connection" in (state.tasks[0].reason or ""), f"{kind}: {state.tasks[0].reason}"
        assert state.tasks[0].output == {}
    assert not unpickled.exists(), "nothing that a body writes is unpickled"
    assert lost.reasons == []
    assert own.read_bytes() == b"", "nothing of Perago's went into a body's file"
