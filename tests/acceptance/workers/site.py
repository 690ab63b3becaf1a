"""A real Conductor and a real lakeFS with tasks of a test's own on them, and workers for these."""

from __future__ import annotations

import json
import shutil
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.request import Request, urlopen

from perago.adapters.conductor import ConductorConnection, ConductorOrchestrator
from perago.adapters.lakefs import LakeFSWorkspaceStore
from perago.adapters.servers import ThrowawayLakeFS
from perago.authoring import Declarations, build_task_definition, load_targets
from perago.bootstrap import tasks_of
from perago.domain.attempt import AttemptStatus
from perago.domain.ids import BranchName, CommitId, ObjectPath, RepositoryName, WorkflowId
from perago.domain.outcome import JsonObject
from perago.domain.publication import Commit
from perago.domain.workflow import TaskState, WorkflowState, WorkflowStatus
from tests.acceptance.command_line import PERAGO, CommandLine, Ended
from tests.acceptance.workers.processes import (
    PATIENCE_SECONDS,
    SITE_VARIABLE,
    WorkerProcess,
    wait_until,
)
from tests.integration.lakefs.stranger import Stranger
from tests.lakefs_server import connection_to, settings_of

PIPELINES = Path(__file__).parents[1] / "pipelines"
MAIN = BranchName("main")
_BETWEEN_LOOKS = 0.3
INPUT = {"in/kept.txt": b"kept", "in/old.txt": b"old"}


@dataclass(slots=True, kw_only=True)
class Site:
    """Where one test works. Each workflow has a branch of its own, which starts at `base`."""

    conductor: ConductorOrchestrator
    conductor_url: str
    lakefs: ThrowawayLakeFS
    store: LakeFSWorkspaceStore
    directory: Path
    mark: str
    base: CommitId
    started: list[WorkflowId] = field(default_factory=list)
    workers: list[WorkerProcess] = field(default_factory=list)

    @property
    def repository(self) -> RepositoryName:
        return RepositoryName(f"site-{self.mark}")

    # -- tasks and workflows

    def module(self, name: str) -> Path:
        """A module of tasks under this site's own name."""
        copy = self.directory / f"{name}_{self.mark}.py"
        if not copy.exists():
            shutil.copy(PIPELINES / f"{name}.py", copy)
        return copy

    def load(self, name: str) -> Declarations:
        return load_targets([str(self.module(name))], self.directory)

    def register(self, name: str) -> None:
        """Tell Conductor of all tasks of a module."""
        for task in tasks_of(self.load(name)):
            self.conductor.register_task(build_task_definition(task))

    def branch(self, name: str) -> JsonObject:
        """A new branch at `base`, as the workspace of an input."""
        self.store.create_branch(self.repository, BranchName(name), self.base)
        return self.workspace(name)

    def workspace(self, branch: str) -> JsonObject:
        return {
            "repository": self.repository,
            "branch": branch,
            "ref_type": "commit",
            "ref": self.base,
        }

    def start(
        self, task: str, reference: str, params: JsonObject | None = None, *, on: str | None = None
    ) -> WorkflowId:
        """Start a workflow of one step on a branch of that name; by default the reference's."""
        workspace = self.branch(on or reference)
        return self.start_raw(task, reference, {"workspace": workspace, "params": params or {}})

    def start_raw(self, task: str, reference: str, task_input: JsonObject) -> WorkflowId:
        """Start a workflow of one step, whose input may be anything."""
        name = f"{reference}_{self.mark}"
        self.conductor.register_workflow(
            {
                "name": name,
                "version": 1,
                "schemaVersion": 2,
                "ownerEmail": "data@example.com",
                "timeoutSeconds": 0,
                "tasks": [
                    {
                        "name": f"{task}_{self.mark}",
                        "taskReferenceName": reference,
                        "type": "SIMPLE",
                        "inputParameters": {k: f"${{workflow.input.{k}}}" for k in task_input},
                    }
                ],
            }
        )
        return self.note(self.conductor.start_workflow(name, workflow_input=task_input))

    def note(self, workflow: WorkflowId) -> WorkflowId:
        """Remember a workflow: what is not over at the end of the test is ended."""
        self.started.append(workflow)
        return workflow

    # -- what became of them

    def state(self, workflow: WorkflowId) -> WorkflowState:
        return self.conductor.workflow(workflow)

    def decide(self, workflow: WorkflowId) -> None:
        """Have Conductor look at the instance now; by itself it notices time-outs late."""
        self.ask("PUT", f"/workflow/decide/{workflow}")

    def ask(self, method: str, path: str, body: JsonObject | None = None) -> None:
        """A request that no client of ours would make."""
        request = Request(
            f"{self.conductor_url}/api{path}",
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
            method=method,
        )
        with urlopen(request, timeout=30) as response:
            assert response.status == 200

    def finish(self, workflow: WorkflowId, within: float = PATIENCE_SECONDS) -> WorkflowState:
        """Wait until an instance is over."""
        wait_until(lambda: self._is_over(workflow), f"workflow {workflow} is over", within)
        return self.state(workflow)

    def _is_over(self, workflow: WorkflowId) -> bool:
        for worker in self.workers:
            # Not one that was killed: its code is negative.
            assert (worker.process.poll() or 0) <= 0, worker.said
        if self.state(workflow).status.is_terminal:
            return True
        time.sleep(_BETWEEN_LOOKS)
        self.decide(workflow)
        return False

    def complete(
        self, workflows: Sequence[WorkflowId], within: float = PATIENCE_SECONDS
    ) -> list[WorkflowState]:
        """Wait until all instances are over, each so long; none may have failed."""
        states = [self.finish(workflow, within) for workflow in workflows]
        for state in states:
            assert state.status is WorkflowStatus.COMPLETED, (state.name, state.reason)
        return states

    def wait_for_status(self, workflow: WorkflowId, status: AttemptStatus) -> TaskState:
        """Wait until the newest attempt has this status."""

        def has_it() -> bool:
            tasks = self.state(workflow).tasks
            return bool(tasks) and tasks[-1].status is status

        wait_until(has_it, f"an attempt of {workflow} is {status}")
        return self.state(workflow).tasks[-1]

    # -- the store

    def history(self, branch: str) -> list[Commit]:
        """The commits of a branch after `base`, oldest first."""
        head = self.store.head(self.repository, BranchName(branch))
        newer: list[Commit] = []
        for commit in self.store.log(self.repository, head.id):
            if commit.id == self.base:
                return newer[::-1]
            newer.append(commit)
        raise AssertionError(f"{branch} does not come from {self.base}")

    def files(self, branch: str, prefix: str) -> list[str]:
        head = self.store.head(self.repository, BranchName(branch)).id
        return [entry.path for entry in self.store.list_objects(self.repository, head, prefix)]

    def read(self, branch: str, path: str) -> str:
        head = self.store.head(self.repository, BranchName(branch)).id
        with self.store.open_object(self.repository, head, ObjectPath(path)) as stream:
            return stream.read().decode()

    def assert_published_once(self, state: WorkflowState, branch: str, text: str = "done") -> None:
        """History is `input_ref -> published`, by the attempt that Conductor calls completed."""
        (commit,) = self.history(branch)
        last = state.tasks[-1]
        assert commit.parents == (self.base,)
        assert last.status is AttemptStatus.COMPLETED
        assert last.output["workspace"] == self.workspace(branch) | {"ref": commit.id}
        (written,) = self.files(branch, "out/")
        assert self.read(branch, written).rstrip("\n") == f"{text} {last.attempt.retry_count}"
        assert self.files(branch, "") == [*INPUT, written], "no stray object"
        done = [task for task in state.tasks if task.status is AttemptStatus.COMPLETED]
        assert done == [last]

    def stagings(self) -> list[str]:
        """The staging branches that are there."""
        found = self.store.branches(self.repository, hidden=True)
        return [branch.name for branch in found if branch.name.startswith("perago-staging-")]

    def intrude(self, branch: str) -> CommitId:
        """Two commits of a stranger: no abandoned publication."""
        connection = connection_to(self.lakefs)
        with Stranger(connection, self.repository, BranchName(branch)) as stranger:
            stranger.commit({"in/strange.txt": b"1"})
            return stranger.commit({"in/strange.txt": b"2"})

    # -- workers

    def settings(self, extra: Mapping[str, str]) -> dict[str, str]:
        return {
            **settings_of(self.lakefs),
            "PERAGO_CONDUCTOR_URL": self.conductor_url,
            "PERAGO_CACHE_DIRECTORY": str(self.directory / "cache"),
            "PERAGO_SHUTDOWN_GRACE_SECONDS": "60",
            SITE_VARIABLE: self.mark,
            **extra,
        }

    def worker(
        self, *arguments: str, home: str = "home", module: str = "jobs", **environment: str
    ) -> WorkerProcess:
        """Start a worker for the tasks of a module, on the workspace root of that home."""
        command = [*PERAGO, "start", str(self.module(module)), *arguments]
        place = self.directory / home
        perago = CommandLine(place, self.settings({"PERAGO_LOG_FORMAT": "json"}))
        self.workers.append(WorkerProcess(command, perago.environment(environment), place))
        return self.workers[-1]

    def run(self, *arguments: str, **environment: str) -> Ended:
        """A command line on the same servers."""
        perago = CommandLine(self.directory / "home", self.settings({}))
        return perago(*arguments, **environment)


@contextmanager
def open_site(
    conductor_url: str, lakefs: ThrowawayLakeFS, directory: Path, *modules: str
) -> Iterator[Site]:
    """A repository with an input commit, and the tasks of these modules at Conductor."""
    mark = uuid.uuid4().hex[:10]
    directory.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        store = stack.enter_context(LakeFSWorkspaceStore(connection_to(lakefs)))
        conductor = stack.enter_context(
            ConductorOrchestrator(ConductorConnection(url=conductor_url))
        )
        repository = RepositoryName(f"site-{mark}")
        store.create_repository(repository, branch=MAIN)
        stranger = stack.enter_context(Stranger(connection_to(lakefs), repository, MAIN))
        site = Site(
            conductor=conductor,
            conductor_url=conductor_url,
            lakefs=lakefs,
            store=store,
            directory=directory,
            mark=mark,
            base=stranger.commit(INPUT),
        )
        for module in modules:
            site.register(module)
        yield site
        for workflow in site.started:
            conductor.terminate(workflow, "the test is over")
