"""What the demo says of a crash, checked against a history it did not make."""

from pathlib import Path

import pytest
from blake3 import blake3

from perago.app.run_report import PublishedStep, RunReport
from perago.cli.demo_show import CrashWitness, show_crash
from perago.cli.output import Output
from perago.cli.session import RunEnd
from perago.domain.ids import BranchName, Digest, ObjectPath, RepositoryName
from perago.domain.publication import Commit
from perago.domain.workflow import WorkflowStatus
from perago.ports import LocalFile
from perago.testing import FakeClock, MemoryWorkspaceStore
from tests.unit.cli.runs import run_of

LAB, MAIN = RepositoryName("lab"), BranchName("main")


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
        return RunEnd(report=RunReport(workflow=run, published=steps), interrupted=False)


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
