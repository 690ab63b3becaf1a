"""Attempt directories: made, marked, collected, swept."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from perago.adapters.localfs.directories import (
    ATTEMPTS,
    LocalAttemptDirectories,
    Marker,
    remove_tree,
)
from perago.adapters.localfs.processes import identify
from perago.domain.attempt import Attempt
from perago.domain.ids import ExecutionId, RelativePath, TaskId, WorkerId, WorkflowId

ATTEMPT = Attempt(
    workflow_id=WorkflowId("wf-1"),
    task_id=TaskId("task-1"),
    task_name="clean",
    reference_name="clean_ref",
    retry_count=2,
    seq=3,
    worker_id=WorkerId("worker"),
    poll_count=1,
)
EXECUTION = ExecutionId("0" * 32)


def test_a_directory_is_named_after_task_and_execution_and_marked(tmp_path: Path) -> None:
    directory = LocalAttemptDirectories(tmp_path).create(ATTEMPT, EXECUTION)

    assert directory.root.name == f"task-1-{EXECUTION}"
    assert list(directory.files.iterdir()) == []
    marker = Marker.from_json((directory.root / ".perago-attempt.json").read_text())
    assert marker.attempt == ATTEMPT
    assert marker.process.pid == os.getpid()
    assert marker.process.is_alive


def test_two_executions_of_one_attempt_share_nothing(tmp_path: Path) -> None:
    directories = LocalAttemptDirectories(tmp_path)

    first = directories.create(ATTEMPT, EXECUTION)
    second = directories.create(ATTEMPT, ExecutionId("1" * 32))

    assert first.root != second.root
    with pytest.raises(FileExistsError):
        directories.create(ATTEMPT, EXECUTION)


def test_a_hostile_task_id_stays_inside_the_root(tmp_path: Path) -> None:
    hostile = Attempt(
        workflow_id=WorkflowId("w"),
        task_id=TaskId("../../x/\x00y"),
        task_name="t",
        reference_name="r",
    )

    directory = LocalAttemptDirectories(tmp_path).create(hostile, EXECUTION)

    assert directory.root.resolve().parent == (tmp_path / ATTEMPTS).resolve()


def test_the_input_copy_is_private(tmp_path: Path) -> None:
    directory = LocalAttemptDirectories(tmp_path).create(ATTEMPT, EXECUTION)
    directory.make_directories([RelativePath("empty/dir")])
    (directory.files / "f").write_text("before")

    copy = directory.copy_input()
    with (directory.files / "f").open("r+") as stream:
        stream.write("BEHIND")

    assert (copy / "f").read_text() == "before"
    assert (copy / "empty" / "dir").is_dir()


def test_collect_removes_one_execution(tmp_path: Path) -> None:
    directories = LocalAttemptDirectories(tmp_path)
    dead = directories.create(ATTEMPT, EXECUTION)
    living = directories.create(ATTEMPT, ExecutionId("1" * 32))

    directories.collect(EXECUTION)
    directories.collect(ExecutionId("2" * 32))  # never there: nothing to do

    assert not dead.root.exists()
    assert living.root.exists()


def test_sweep_ends_orphans_and_removes_every_directory(tmp_path: Path) -> None:
    directories = LocalAttemptDirectories(tmp_path)
    directory = directories.create(ATTEMPT, EXECUTION)
    orphan = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True
    )
    try:
        marker = Marker(attempt=ATTEMPT, execution_id=EXECUTION, process=identify(orphan.pid))
        (directory.root / ".perago-attempt.json").write_text(marker.to_json())
        half_made = tmp_path / ATTEMPTS / "no-marker-yet"
        half_made.mkdir()

        swept = directories.sweep()

        assert swept == [ATTEMPT]
        assert list((tmp_path / ATTEMPTS).iterdir()) == []
        assert orphan.poll() is not None
    finally:
        orphan.kill()
        orphan.wait()


def test_sweep_leaves_a_process_alone_that_got_the_pid_later(tmp_path: Path) -> None:
    directories = LocalAttemptDirectories(tmp_path)
    directory = directories.create(ATTEMPT, EXECUTION)
    stranger = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True
    )
    try:
        path = directory.root / ".perago-attempt.json"
        raw = json.loads(path.read_text())
        raw["process"] |= {"pid": stranger.pid, "born": identify(stranger.pid).born - 10}
        path.write_text(json.dumps(raw))

        directories.sweep()

        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


@pytest.mark.parametrize("text", ["", "{}", '{"attempt": 3}', "[]"])
def test_a_damaged_marker_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        Marker.from_json(text)


def test_remove_tree_follows_no_link_and_restores_permissions(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "keep").write_text("x")
    root = tmp_path / "root"
    (root / "locked").mkdir(parents=True)
    (root / "locked" / "f").write_text("x")
    (root / "link").symlink_to(outside)
    (root / "locked").chmod(0o500)

    remove_tree(root)
    remove_tree(root)  # gone already: nothing to do

    assert not root.exists()
    assert (outside / "keep").exists()
