"""`perago store` and `perago run` on a real lakeFS server, as a user sees them."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import psutil
import pytest

from perago.adapters.lakefs import LakeFSWorkspaceStore
from perago.adapters.servers import ThrowawayLakeFS
from perago.cli.errors import ExitCode
from perago.domain.ids import BranchName, RepositoryName
from perago.domain.publication import Commit
from tests.acceptance.command_line import NOTES, CommandLine, steps_of
from tests.integration.lakefs.stranger import Stranger
from tests.lakefs_server import connection_to

pytestmark = [pytest.mark.lakefs]

FILES = {"a.txt": "1\n", "sub/b c.txt": "2\n"}
HASTY = {"PERAGO_LAKEFS_TIMEOUT_SECONDS": "5"}


@pytest.fixture
def lakefs(lakefs_server: ThrowawayLakeFS, tmp_path: Path) -> CommandLine:
    """`perago` with the settings that `perago dev env` would print."""
    return CommandLine(
        tmp_path / "home",
        {
            "HOME": str(tmp_path),
            "PERAGO_LAKEFS_ENDPOINT": lakefs_server.endpoint,
            "PERAGO_LAKEFS_ACCESS_KEY_ID": lakefs_server.access_key_id,
            "PERAGO_LAKEFS_SECRET_ACCESS_KEY": lakefs_server.secret_access_key,
            "PERAGO_CACHE_DIRECTORY": str(tmp_path / "cache"),
        },
    )


@pytest.fixture
def repo() -> str:
    return f"cli-{uuid4().hex[:12]}"


@pytest.fixture
def lake(lakefs_server: ThrowawayLakeFS, repo: str) -> Iterator[Lake]:
    with LakeFSWorkspaceStore(connection_to(lakefs_server)) as store:
        yield Lake(store, RepositoryName(repo))


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    """A directory to import."""
    directory = tmp_path / "raw"
    for name, text in FILES.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(text)
    return directory


@pytest.fixture
def stranger(lakefs_server: ThrowawayLakeFS, repo: str) -> Iterator[Stranger]:
    connection = connection_to(lakefs_server)
    with Stranger(connection, RepositoryName(repo), BranchName("main")) as other:
        yield other


def answer(perago: CommandLine, *arguments: str) -> Any:
    ended = perago(*arguments, "--json")
    assert ended.code == 0, ended.out + ended.err
    return ended.json


class Lake:
    """One repository of the server, looked at from this process."""

    def __init__(self, store: LakeFSWorkspaceStore, repository: RepositoryName) -> None:
        self._store = store
        self._repository = repository

    def history(self, branch: str = "main") -> list[Commit]:
        """The commits of a branch, oldest first."""
        head = self._store.head(self._repository, BranchName(branch))
        return list(self._store.log(self._repository, head.id))[::-1]

    def branches(self) -> list[str]:
        """All branches, hidden ones included."""
        return [branch.name for branch in self._store.branches(self._repository, hidden=True)]

    def objects(self, branch: str) -> list[str]:
        """The paths at the head of a branch."""
        head = self._store.head(self._repository, BranchName(branch))
        return [entry.path for entry in self._store.list_objects(self._repository, head.id)]


def test_files_go_in_and_come_out_again(
    lakefs: CommandLine, repo: str, raw: Path, tmp_path: Path
) -> None:
    made = answer(lakefs, "store", "init", repo)
    imported = answer(lakefs, "store", "import", str(raw), repo, "--prefix", "raw")
    again = lakefs("store", "import", str(raw), repo, "--prefix", "raw")
    listed = answer(lakefs, "store", "ls", repo, "raw")
    exported = lakefs("store", "export", repo, str(tmp_path / "out"), "--prefix", "raw")
    difference = answer(lakefs, "store", "diff", repo, made["commit"], "main")

    assert (imported["objects"], imported["bytes"]) == (2, 4)
    assert again.out == "nothing changed: no commit\n"
    assert [entry["path"] for entry in listed["objects"]] == ["raw/a.txt", "raw/sub/b c.txt"]
    assert exported.code == 0, exported.err
    assert {name: (tmp_path / "out" / name).read_text() for name in FILES} == FILES
    assert difference["added"] == ["raw/a.txt", "raw/sub/b c.txt"]
    assert repo in answer(lakefs, "store", "repos")["repositories"]
    assert not lakefs.home.exists(), "a lakeFS store needs none"


def test_a_branch_is_made_and_written_on_its_own(
    lakefs: CommandLine, repo: str, lake: Lake, raw: Path
) -> None:
    first = answer(lakefs, "store", "init", repo)["commit"]
    branched = answer(lakefs, "store", "branch", f"{repo}@{first[:8]}", "lab")
    answer(lakefs, "store", "import", str(raw), f"{repo}@lab", "--mirror")

    assert branched["head"] == first
    assert lake.branches() == ["lab", "main"]
    assert len(lake.history("lab")) == 2
    assert len(lake.history()) == 1
    assert len(answer(lakefs, "store", "log", f"{repo}@lab")["commits"]) == 2
    assert len(answer(lakefs, "store", "branches", repo)["branches"]) == 2


def test_the_same_files_from_somebody_else_are_no_change(
    lakefs: CommandLine, repo: str, lake: Lake, raw: Path, stranger: Stranger
) -> None:
    answer(lakefs, "store", "init", repo)
    stranger.commit({name: text.encode() for name, text in FILES.items()})

    imported = lakefs("store", "import", str(raw), repo)

    assert (imported.code, imported.out) == (0, "nothing changed: no commit\n"), imported.err
    assert len(lake.history()) == 2
    assert lake.branches() == ["main"]


def test_a_run_makes_a_commit_per_step_and_a_second_one_none(
    lakefs: CommandLine, repo: str, lake: Lake, lakefs_server: ThrowawayLakeFS
) -> None:
    first = lakefs("run", f"{NOTES}:notes", "--repo", repo, "--param", "text=good day")
    second = lakefs("run", f"{NOTES}:notes", "--repo", repo, "--param", "text=good day", "--json")

    assert first.code == 0, first.out + first.err
    assert first.err == f"created repository {repo}\n"
    assert f"store: lakefs at {lakefs_server.endpoint}, soft fence" in first.out
    assert steps_of(lake.history()) == ["write", "shout"]
    assert lake.branches() == ["main"]

    events = [json.loads(line) for line in second.out.splitlines()]
    assert second.code == 0, second.out
    assert events[0]["store"]["fencing"] == "soft"
    assert events[-1]["commits"] == []
    assert "writing good day" in lakefs("logs", "last", "write").out


def test_an_executor_that_dies_after_publication_is_replaced(
    lakefs: CommandLine, repo: str, lake: Lake
) -> None:
    ended = lakefs(
        "run", f"{NOTES}:notes", "--repo", repo, PERAGO_FAILPOINTS="published=kill@write#0"
    )

    assert ended.code == 0, ended.out + ended.err
    assert "write: started again (retry 1)" in ended.out
    assert steps_of(lake.history()) == ["write", "shout"]


def test_a_crash_leaves_a_staging_and_gc_removes_it(
    lakefs: CommandLine, repo: str, lake: Lake
) -> None:
    crashed = lakefs(
        "run", f"{NOTES}:write", "--repo", repo, PERAGO_FAILPOINTS="staged=kill@write#0"
    )
    (left,) = [name for name in lake.branches() if name != "main"]
    another = CommandLine(lakefs.home.parent / "another", lakefs.settings)
    another.home.mkdir()
    unknown = another("gc", "--staging", repo)
    dry = lakefs("gc", "--staging", repo, "--dry-run")
    removed = answer(lakefs, "gc", "--staging", repo)

    assert crashed.code == 0, crashed.out
    assert f"left {left} of {repo}: its attempt is unknown to this orchestrator" in unknown.out
    assert f"would remove {left} of {repo}" in dry.out
    assert removed["removed"] == [{"repository": repo, "branch": left}]
    assert lake.branches() == ["main"]


def test_a_failed_attempt_leaves_its_staging_where_that_is_asked_for(
    lakefs: CommandLine, repo: str, lake: Lake
) -> None:
    ended = lakefs(
        *("run", f"{NOTES}:write", "--repo", repo),
        PERAGO_KEEP_FAILED_STAGING="true",
        PERAGO_FAILPOINTS="staged=fail@write#0",
    )

    (kept,) = [name for name in lake.branches() if name != "main"]
    assert ended.code == 0, ended.out
    assert lake.objects(kept) == ["notes/note.txt"]
    logs = "".join(path.read_text() for path in (lakefs.home / "logs").rglob("*.log"))
    assert f"kept the staging branch {kept}" in logs
    assert steps_of(lake.history()) == ["write"]


# -- what is refused


def test_a_wrong_secret_is_one_clear_error(lakefs: CommandLine, repo: str) -> None:
    for command in (("store", "repos"), ("run", f"{NOTES}:notes", "--repo", repo)):
        ended = lakefs(*command, PERAGO_LAKEFS_SECRET_ACCESS_KEY="wrong-but-secret")

        assert ended.code == 4
        assert "access key" in ended.err
        assert ended.err.count("error: ") == 1
        assert "wrong-but-secret" not in ended.out + ended.err


def test_a_server_that_is_not_there_is_one_clear_error(lakefs: CommandLine, repo: str) -> None:
    dead = {"PERAGO_LAKEFS_ENDPOINT": "http://127.0.0.1:1", **HASTY}
    for command in (("store", "repos"), ("run", f"{NOTES}:notes", "--repo", repo)):
        ended = lakefs(*command, **dead)

        assert ended.code == 4
        assert ended.err.count("error: ") == 1
        assert "no lakeFS server answers at http://127.0.0.1:1\n" in ended.err
        assert "Traceback" not in ended.err


def test_a_repository_that_is_not_there_is_named(lakefs: CommandLine, repo: str) -> None:
    for command in (
        ("store", "ls", repo),
        ("store", "branches", repo),
        ("gc", "--staging", repo),
        ("run", f"{NOTES}:notes", "--repo", repo, "--ref", "main"),
    ):
        lakefs.home.mkdir(exist_ok=True)
        ended = lakefs(*command)

        assert ended.code == 4, ended.err
        assert repo in ended.err
        assert ended.err.count("error: ") == 1


def test_missing_settings_are_named_before_anything_runs(lakefs: CommandLine) -> None:
    ended = lakefs(
        *("run", f"{NOTES}:notes"),
        PERAGO_LAKEFS_ACCESS_KEY_ID="",
        PERAGO_LAKEFS_SECRET_ACCESS_KEY="",
    )

    assert ended.code == 2
    assert "lakefs_access_key_id" in ended.err
    assert "lakefs_secret_access_key" in ended.err
    assert not lakefs.home.exists()


@pytest.mark.parametrize("command", ["verify", "gc"])
def test_upkeep_of_the_embedded_store_is_refused_with_advice(
    lakefs: CommandLine, command: str
) -> None:
    ended = lakefs("store", command)

    assert ended.code == 2
    assert "perago gc --staging" in ended.err


# -- access


def test_what_is_not_there_is_told_by_its_name(lakefs: CommandLine, repo: str) -> None:
    answer(lakefs, "store", "init", repo)

    nowhere = lakefs("store", "ls", "nosuch")
    no_branch = lakefs("store", "ls", f"{repo}@lab")
    no_name = lakefs("store", "init", "Bad_Name!")

    assert nowhere.code == no_branch.code == ExitCode.BACKEND
    assert "no repository 'nosuch' on this server\nhint: " in nowhere.err
    assert f"'lab' is no branch and no commit of repository '{repo}'\nhint: " in no_branch.err
    assert no_name.code == ExitCode.USAGE
    assert "'Bad_Name!' cannot be the name of a lakeFS repository" in no_name.err


def test_what_lakectl_has_is_enough(
    lakefs: CommandLine, repo: str, lakefs_server: ThrowawayLakeFS, tmp_path: Path
) -> None:
    (tmp_path / ".lakectl.yaml").write_text(
        f"server:\n  endpoint_url: {lakefs_server.endpoint}/api/v1\n"
        f"credentials:\n  access_key_id: {lakefs_server.access_key_id}\n"
        f"  secret_access_key: {lakefs_server.secret_access_key}\n"
    )
    perago = CommandLine(lakefs.home, {"HOME": str(tmp_path), "PERAGO_STORE": "lakefs"})

    answer(perago, "store", "init", repo)
    checked = perago("check", f"{NOTES}:notes", "--settings")

    assert f"store: lakefs at {lakefs_server.endpoint}, soft fence" in checked.out
    assert "~/.lakectl.yaml" in checked.out
    assert lakefs_server.secret_access_key not in checked.out + checked.err


def test_the_secret_is_on_no_command_line_in_no_output_and_in_no_file(
    lakefs: CommandLine, repo: str, lakefs_server: ThrowawayLakeFS, tmp_path: Path
) -> None:
    gate, secret = tmp_path / "gate", lakefs_server.secret_access_key
    with lakefs.start(
        *("--debug", "run", f"{NOTES}:notes", "--repo", repo, "--param", f"gate={gate}"),
        PERAGO_LOG_LEVEL="DEBUG",
        PERAGO_FAILPOINTS="published=fail@shout#0",
    ) as run:
        run.wait_for("at the gate")
        family = [psutil.Process(run.process.pid)]
        family += family[0].children(recursive=True)
        command_lines = [word for process in family for word in process.cmdline()]
        gate.touch()
        code = run.end()

    assert code == 0, run.lines
    assert len(family) >= 2, "a supervisor and an executor"
    for text in (secret, b64encode(f"{lakefs_server.access_key_id}:{secret}".encode()).decode()):
        assert text not in " ".join(command_lines)
        assert text not in "".join(run.lines)
        for directory in (lakefs.home, tmp_path / "cache"):
            for path in filter(Path.is_file, directory.rglob("*")):
                assert text.encode() not in path.read_bytes(), path
