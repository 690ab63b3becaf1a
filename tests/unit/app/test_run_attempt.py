"""One attempt, row by row of the protocol's tables: paths, mapping, fences, failures.

The ports are the in-memory ones; directories, guardrails and files are real.
"""

from __future__ import annotations

import errno
import mmap
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pydantic import BaseModel

from perago import (
    RetryPolicy,
    TaskContext,
    TaskControls,
    TaskFailed,
    TaskTerminalError,
    WorkspaceSpec,
    forbid_glob,
    require_file,
    task,
)
from perago.authoring import AnyTask
from perago.domain.attempt import AttemptStatus
from perago.domain.outcome import Completed, Failed, Phase, TerminalFailure
from perago.ports import Failpoint
from perago.testing import TaskEnvironment, TaskRun

OWNER = "data@example.com"
RETRIED = TaskControls(retry=RetryPolicy(count=5, delay_seconds=0))
REPOSITORY_HOOKS = "_lakefs_actions/hook.yaml"


class Params(BaseModel):
    what: str = ""


class Result(BaseModel):
    files: int


@pytest.fixture
def env() -> Iterator[TaskEnvironment]:
    with TaskEnvironment() as environment:
        environment.put({"data/a": "1", "data/sub/b": "2", "elsewhere/c": "3"})
        yield environment


def replace_directory_by_file(workspace: Path) -> None:
    shutil.rmtree(workspace / "sub")
    (workspace / "sub").write_text("now a file")


def replace_workspace_by_link(workspace: Path) -> None:
    outside = workspace.parent / "outside"
    outside.mkdir()
    (outside / "secret").write_text("not of this workspace")
    workspace.rename(workspace.parent / "moved")
    workspace.symlink_to(outside)


def change_mapped(workspace: Path) -> None:
    """As `numpy.memmap` does: the page is read, then written."""
    with (workspace / "a").open("r+b") as stream, mmap.mmap(stream.fileno(), 0) as mapped:
        mapped[0] += 1


# The bodies of this module: what a task may do to its files.
ACTS: dict[str, Callable[[Path], object]] = {
    "": lambda _: None,
    "write": lambda ws: (ws / "new").write_text("new"),
    "rewrite": lambda ws: (ws / "a").write_text("changed"),
    "touch": lambda ws: os.utime(ws / "a", (1, 1)),
    "delete": lambda ws: (ws / "sub" / "b").unlink(),
    "rename": lambda ws: (ws / "a").rename(ws / "renamed"),
    "empty directory": lambda ws: (ws / "empty" / "deeper").mkdir(parents=True),
    "remove directory": lambda ws: shutil.rmtree(ws / "sub"),
    "file for directory": replace_directory_by_file,
    "link for workspace": replace_workspace_by_link,
    "no workspace": shutil.rmtree,
    "mapped write": change_mapped,
    "symlink": lambda ws: (ws / "link").symlink_to("/etc/passwd"),
    "fifo": lambda ws: os.mkfifo(ws / "pipe"),
    "control": lambda ws: (ws / "bad\x07name").write_text("x"),
    "marker": lambda ws: (ws / ".perago-attempt.json").write_text("mine"),
}


@task("edit", owner_email=OWNER, workspace=WorkspaceSpec(prefix="data"), controls=RETRIED)
def edit(workspace: Path, params: Params) -> Result:
    ACTS[params.what](workspace)
    return Result(files=sum(path.is_file() for path in workspace.rglob("*")))


@task("look", owner_email=OWNER, workspace=WorkspaceSpec(prefix="data", read_only=True))
def look(workspace: Path, params: Params) -> Result:
    ACTS[params.what](workspace)
    return Result(files=len(list(workspace.rglob("*"))))


@task("whole", owner_email=OWNER, workspace=WorkspaceSpec(prefix="/"), controls=RETRIED)
def whole(workspace: Path, params: Params) -> Result:
    (workspace / params.what).parent.mkdir(parents=True, exist_ok=True)
    (workspace / params.what).write_text("x")
    return Result(files=0)


@task("free", owner_email=OWNER)
def free(params: Params, context: TaskContext) -> Result:
    context.progress("half way", 0.5)
    return Result(files=len(params.what))


def failing(error: BaseException) -> AnyTask:
    @task("failing", owner_email=OWNER, workspace=WorkspaceSpec(prefix="data"))
    def body(workspace: Path, params: Params) -> Result:
        (workspace / "half").write_text("half done")
        raise error

    return body


def guarded(*, pre: str | None = None, post: str | None = None) -> AnyTask:
    @task(
        "guarded",
        owner_email=OWNER,
        workspace=WorkspaceSpec(
            prefix="data",
            pre=[require_file(pre)] if pre else [],
            post=[forbid_glob(post)] if post else [],
        ),
    )
    def body(workspace: Path, params: Params) -> Result:
        (workspace / "ran").write_text("yes")
        return Result(files=1)

    return body


def assert_nothing_happened(env: TaskEnvironment, run: TaskRun) -> None:
    """Nothing published, nothing left behind, no output."""
    assert not isinstance(run.outcome, Completed)
    assert run.head.id == run.input_ref
    assert env.leftovers == []
    assert [b.name for b in env.store.branches(env.repository, hidden=True)] == [env.branch]


class TestPaths:
    """Read-only, no-op and publication."""

    def test_a_publication_is_one_commit_on_the_input_ref(self, env: TaskEnvironment) -> None:
        run = env.run(edit, Params(what="write"))

        assert run.published
        assert run.head.parents == (run.input_ref,)
        assert run.files == {
            "data/a": b"1",
            "data/sub/b": b"2",
            "data/new": b"new",
            "elsewhere/c": b"3",
        }
        assert env.leftovers == []
        assert [b.name for b in env.store.branches(env.repository, hidden=True)] == [env.branch]

    def test_the_output_is_exactly_the_contract(self, env: TaskEnvironment) -> None:
        run = env.run(edit, Params(what="write"))

        assert isinstance(run.outcome, Completed)
        assert run.outcome.output == {
            "workspace": {
                "repository": "test",
                "branch": "main",
                "ref_type": "commit",
                "ref": run.head.id,
            },
            "result": {"files": 3},
        }

    def test_the_commit_says_who_made_it(self, env: TaskEnvironment) -> None:
        metadata = env.run(edit, Params(what="write")).head.metadata

        assert metadata["perago.phase"] == "confirm"
        assert metadata["perago.task"] == "edit"
        assert metadata["perago.staging_branch"].startswith("perago-staging-")
        assert metadata["perago.expected_head"]

    @pytest.mark.parametrize(
        ("what", "expected"),
        [
            ("rewrite", {"data/a": b"changed", "data/sub/b": b"2"}),
            ("delete", {"data/a": b"1"}),
            ("rename", {"data/renamed": b"1", "data/sub/b": b"2"}),
            ("remove directory", {"data/a": b"1"}),
            ("file for directory", {"data/a": b"1", "data/sub": b"now a file"}),
        ],
    )
    def test_the_prefix_becomes_what_the_body_left(
        self, env: TaskEnvironment, what: str, expected: dict[str, bytes]
    ) -> None:
        run = env.run(edit, Params(what=what))

        assert run.published
        assert run.files == {**expected, "elsewhere/c": b"3"}

    @pytest.mark.parametrize("what", ["", "touch", "empty directory", "marker"])
    def test_no_change_of_content_is_no_commit(self, env: TaskEnvironment, what: str) -> None:
        run = env.run(edit, Params(what=what))

        assert run.status is AttemptStatus.COMPLETED
        assert run.head.id == run.input_ref
        assert Phase.STAGE in run.phases

    @pytest.mark.parametrize("what", ["write", "delete", "symlink"])
    def test_a_read_only_task_publishes_nothing_whatever_it_does(
        self, env: TaskEnvironment, what: str
    ) -> None:
        run = env.run(look, Params(what=what), at={Failpoint.BODY_DONE: env.move_head})

        assert run.status is AttemptStatus.COMPLETED
        assert isinstance(run.outcome, Completed)
        workspace = run.outcome.output["workspace"]
        assert isinstance(workspace, dict)
        assert workspace["ref"] == run.input_ref
        assert Phase.DIFF not in run.phases
        assert Phase.STAGE not in run.phases

    def test_a_workspace_free_task_has_a_result_only(self, env: TaskEnvironment) -> None:
        run = env.run(free, Params(what="abc"))

        assert isinstance(run.outcome, Completed)
        assert run.outcome.output == {"result": {"files": 3}}
        assert run.progress == ("half way",)
        assert Phase.DOWNLOAD not in run.phases

    def test_an_empty_prefix_is_an_empty_directory(self) -> None:
        with TaskEnvironment() as env:
            run = env.run(edit, Params(what="write"))

            assert run.files == {"data/new": b"new"}


class TestMapping:
    """Objects and files."""

    @pytest.mark.parametrize(
        "name", ["with space", "ünï 数据", "100%", "a#b", "a+b", "q?x=1", "back\\slash", "-rf"]
    )
    def test_odd_names_survive_a_round_trip(self, env: TaskEnvironment, name: str) -> None:
        env.put({f"data/{name}": "odd"})

        run = env.run(edit, Params(what="write"))

        assert run.files[f"data/{name}"] == b"odd"
        assert run.result == {"files": 4}

    def test_an_empty_file_is_a_file(self, env: TaskEnvironment) -> None:
        env.put({"data/empty": ""})

        run = env.run(edit, Params(what="write"))

        assert run.files["data/empty"] == b""
        assert run.result == {"files": 4}

    @pytest.mark.parametrize(
        "name",
        [
            "../x",
            "/abs",
            "a//b",
            "sub/../../x",
            "./x",
            "nul\x00",
            "bell\x07",
            "n" * 256,
            "a/below-a-file",
            "slash-with-content/",
        ],
    )
    def test_an_object_that_cannot_be_a_file_fails_the_attempt_by_name(
        self, env: TaskEnvironment, name: str
    ) -> None:
        env.put({f"data/{name}": "hostile"})

        run = env.run(edit, Params(what="write"))

        assert run.status is AttemptStatus.FAILED
        assert "cannot be a local file" in run.reason
        assert run.outcome.phase is Phase.DOWNLOAD  # type: ignore[union-attr] # it failed
        assert_nothing_happened(env, run)

    def test_a_directory_marker_is_kept_while_its_directory_exists(
        self, env: TaskEnvironment
    ) -> None:
        env.put({"data/sub/": "", "data/lonely/": ""})

        kept = env.run(edit, Params(what="write"))
        gone = env.run(edit, Params(what="remove directory"))

        assert {"data/sub/", "data/lonely/"} <= kept.files.keys()
        assert "data/sub/" not in gone.files
        assert "data/lonely/" in gone.files

    def test_what_a_body_writes_through_memory_is_published(self, env: TaskEnvironment) -> None:
        run = env.run(edit, Params(what="mapped write"))

        assert run.files["data/a"] == b"2"

    def test_the_marker_object_is_ignored_in_both_directions(self, env: TaskEnvironment) -> None:
        env.put({"data/.perago-attempt.json": "an object"})

        run = env.run(edit, Params(what="marker"))

        assert run.result == {"files": 3}
        assert run.files["data/.perago-attempt.json"] == b"an object"

    @pytest.mark.parametrize(
        ("what", "message"),
        [
            ("symlink", "workspace publication does not support symlinks: link"),
            ("link for workspace", "workspace publication does not support symlinks"),
            ("no workspace", "it is gone"),
            ("fifo", "it is a fifo"),
            ("control", "control character"),
        ],
    )
    def test_a_file_that_cannot_be_an_object_fails_the_attempt(
        self, env: TaskEnvironment, what: str, message: str
    ) -> None:
        run = env.run(edit, Params(what=what))

        assert run.status is AttemptStatus.FAILED
        assert message in run.reason
        assert_nothing_happened(env, run)

    def test_a_task_does_not_edit_the_repository_hooks(self, env: TaskEnvironment) -> None:
        env.put({"_lakefs_actions/other.yaml": "x"})

        run = env.run(whole, Params(what=REPOSITORY_HOOKS))

        assert run.status is AttemptStatus.FAILED
        assert REPOSITORY_HOOKS in run.reason
        assert_nothing_happened(env, run)


class TestFailures:
    """The failure table."""

    @pytest.mark.parametrize(
        "raw",
        [
            {},
            {"params": {}},
            {"params": {}, "workspace": {}, "credentials": {"secret": "hunter2"}},
            {"params": {"what": 3}, "workspace": None},
            {"params": [], "workspace": {"repository": "test"}},
        ],
    )
    def test_a_wrong_input_fails_before_anything_is_made(
        self, env: TaskEnvironment, raw: dict[str, object]
    ) -> None:
        polled = env.schedule(edit, Params(what="write"))
        wrong = type(polled)(
            attempt=polled.attempt,
            input=raw,  # type: ignore[arg-type] # wrong on purpose
            lease_seconds=polled.lease_seconds,
        )

        run = env.run_attempt(edit, wrong)

        assert isinstance(run.outcome, Failed)
        assert run.outcome.phase is Phase.VALIDATE
        assert "hunter2" not in run.reason
        assert_nothing_happened(env, run)

    @pytest.mark.parametrize(("field", "value"), [("ref", "0" * 64), ("repository", "missing")])
    def test_a_missing_ref_or_repository_fails_by_name(
        self, env: TaskEnvironment, field: str, value: str
    ) -> None:
        polled = env.schedule(edit, Params(what="write"))
        workspace = polled.input["workspace"]
        assert isinstance(workspace, dict)
        workspace[field] = value

        head = env.store.head(env.repository, env.branch)
        run = env.run_attempt(edit, polled)

        assert isinstance(run.outcome, Failed)
        assert value in run.reason
        assert run.head == head
        assert env.leftovers == []

    def test_a_broken_pre_guardrail_is_terminal_and_the_body_never_runs(
        self, env: TaskEnvironment
    ) -> None:
        run = env.run(guarded(pre="missing.csv"), Params())

        assert isinstance(run.outcome, TerminalFailure)
        assert "missing.csv" in run.reason
        assert Phase.BODY not in run.phases
        assert_nothing_happened(env, run)

    def test_a_broken_post_guardrail_is_an_ordinary_failure(self, env: TaskEnvironment) -> None:
        run = env.run(guarded(post="r*"), Params())

        assert isinstance(run.outcome, Failed)
        assert run.outcome.phase is Phase.POST_CHECK
        assert_nothing_happened(env, run)

    @pytest.mark.parametrize(
        ("error", "status"),
        [
            (TaskFailed("try later"), AttemptStatus.FAILED),
            (TaskTerminalError("never"), AttemptStatus.FAILED_WITH_TERMINAL_ERROR),
            (ValueError("oops"), AttemptStatus.FAILED),
            (SystemExit(3), AttemptStatus.FAILED),
            (KeyboardInterrupt(), AttemptStatus.FAILED),
        ],
    )
    def test_what_a_body_raises_decides_the_status(
        self, env: TaskEnvironment, error: BaseException, status: AttemptStatus
    ) -> None:
        run = env.run(failing(error), Params())

        assert run.status is status
        assert str(error) in run.reason
        assert_nothing_happened(env, run)

    def test_a_result_of_the_wrong_model_is_not_published(self, env: TaskEnvironment) -> None:
        @task("wrong", owner_email=OWNER, workspace=WorkspaceSpec(prefix="data"))
        def wrong(workspace: Path, params: Params) -> Result:
            (workspace / "new").write_text("x")
            return "not a result"  # type: ignore[return-value]

        run = env.run(wrong, Params())

        assert isinstance(run.outcome, Failed)
        assert_nothing_happened(env, run)

    def test_a_result_too_large_to_report_is_not_published(self, env: TaskEnvironment) -> None:
        class Huge(BaseModel):
            text: str

        @task("huge", owner_email=OWNER, workspace=WorkspaceSpec(prefix="data"))
        def huge(workspace: Path, params: Params) -> Huge:
            (workspace / "new").write_text("x")
            return Huge(text="x" * env.orchestrator.max_output_bytes)

        run = env.run(huge, Params())

        assert isinstance(run.outcome, Failed)
        assert_nothing_happened(env, run)

    @pytest.mark.parametrize(
        "point",
        [
            p
            for p in Failpoint
            if p
            not in (
                Failpoint.PUBLISHED,
                Failpoint.VERIFIED,
                Failpoint.REPORTED,
                Failpoint.STAGING_REMOVED,
                Failpoint.CLEANED,
            )
        ],
    )
    def test_a_full_disk_before_publication_fails_and_loses_nothing(
        self, env: TaskEnvironment, point: Failpoint
    ) -> None:
        run = env.run(edit, Params(what="write"), at={point: fill_the_disk})

        assert isinstance(run.outcome, Failed)
        assert "the disk is full" in run.reason
        assert "PERAGO_WORKSPACE_ROOT" in run.reason
        assert_nothing_happened(env, run)

    @pytest.mark.parametrize("point", [Failpoint.PUBLISHED, Failpoint.VERIFIED])
    def test_a_full_disk_after_publication_fails_and_the_retry_replaces_it(
        self, env: TaskEnvironment, point: Failpoint
    ) -> None:
        failed = env.run(edit, Params(what="write"), at={point: fill_the_disk})
        retried = env.run_attempt(edit, env.poll(edit))

        assert isinstance(failed.outcome, Failed)
        assert isinstance(retried.outcome, Completed)
        assert retried.head.parents == (failed.input_ref,)

    @pytest.mark.parametrize(
        "point", [Failpoint.REPORTED, Failpoint.STAGING_REMOVED, Failpoint.CLEANED]
    )
    def test_a_full_disk_in_cleanup_changes_nothing(
        self, env: TaskEnvironment, point: Failpoint, caplog: pytest.LogCaptureFixture
    ) -> None:
        run = env.run(edit, Params(what="write"), at={point: fill_the_disk})

        assert run.published
        assert "failed to clean" in caplog.text


class TestFences:
    """An attempt that may no longer publish does not."""

    @pytest.mark.parametrize("point", [Failpoint.BODY_DONE, Failpoint.STAGED, Failpoint.HEAD_READ])
    @pytest.mark.parametrize("fault", ["time_out", "lose_lease"])
    def test_a_stale_attempt_publishes_nothing_wherever_it_became_stale(
        self, env: TaskEnvironment, point: Failpoint, fault: str
    ) -> None:
        run = env.run(edit, Params(what="write"), at={point: getattr(env, fault)})

        assert isinstance(run.outcome, Failed)
        assert_nothing_happened(env, run)

    def test_a_lease_too_short_to_finish_begins_no_publication(self, env: TaskEnvironment) -> None:
        run = env.run(
            edit, Params(what="write"), at={Failpoint.HEAD_READ: lambda: env.shorten_lease(59)}
        )

        assert isinstance(run.outcome, Failed)
        assert "does not begin to publish" in run.reason
        assert_nothing_happened(env, run)

    def test_a_body_sees_that_it_is_cancelled(self, env: TaskEnvironment) -> None:
        seen: list[bool] = []

        @task("watching", owner_email=OWNER)
        def watching(params: Params, context: TaskContext) -> Result:
            seen.append(context.cancelled)
            env.lose_lease()
            seen.append(context.cancelled)
            return Result(files=0)

        env.run(watching, Params())

        assert seen == [False, True]

    @pytest.mark.parametrize("what", ["write", ""])
    @pytest.mark.parametrize("point", [Failpoint.BODY_DONE, Failpoint.FENCED_BEFORE_STAGE])
    def test_a_head_that_moved_on_is_left_alone(
        self, env: TaskEnvironment, what: str, point: Failpoint
    ) -> None:
        def move_twice() -> None:
            env.move_head()
            env.move_head()

        run = env.run(edit, Params(what=what), at={point: move_twice})

        assert isinstance(run.outcome, Failed)
        assert "cannot publish to test/main" in run.reason
        assert "data/new" not in run.files

    def test_a_race_lost_at_the_last_moment_moves_nothing(self, env: TaskEnvironment) -> None:
        run = env.run(edit, Params(what="write"), at={Failpoint.FENCED_BEFORE_ACT: env.move_head})

        assert isinstance(run.outcome, Failed)
        assert "moved while publishing" in run.reason
        assert "data/new" not in run.files

    def test_another_workflows_publication_is_never_replaced(self, env: TaskEnvironment) -> None:
        polled = env.schedule(edit, Params(what="write"))
        env.run(whole, Params(what="other"))  # publishes on top of the same input ref

        run = env.run_attempt(edit, polled)

        assert isinstance(run.outcome, Failed)
        assert "another task" in run.reason
        assert "other" in run.files


class TestAbandonedPublications:
    """The crash window: published, but not reported."""

    def abandon(self, env: TaskEnvironment) -> TaskRun:
        return env.run(edit, Params(what="write"), at={Failpoint.VERIFIED: lambda: fail("crashed")})

    def test_the_retry_replaces_it_and_keeps_no_trace_in_the_history(
        self, env: TaskEnvironment
    ) -> None:
        abandoned = self.abandon(env)

        retried = env.run_attempt(edit, env.poll(edit))

        assert retried.published
        assert retried.head.id != abandoned.head.id
        history = [c.id for c in env.store.log(env.repository, retried.head.id)]
        assert abandoned.head.id not in history
        assert retried.head.parents == (abandoned.input_ref,)
        # It stays readable by id, for whoever wants to look.
        assert env.store.read_commit(env.repository, abandoned.head.id) == abandoned.head

    def test_a_retry_that_changes_nothing_takes_it_back(self, env: TaskEnvironment) -> None:
        abandoned = self.abandon(env)
        polled = env.poll(edit)
        params = polled.input["params"]
        assert isinstance(params, dict)
        params["what"] = ""

        retried = env.run_attempt(edit, polled)

        assert isinstance(retried.outcome, Completed)
        assert retried.head.id == abandoned.input_ref


def fill_the_disk() -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def fail(message: str) -> None:
    raise RuntimeError(message)
