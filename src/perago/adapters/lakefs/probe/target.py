"""Whether a repository and a branch of it can be published to. Reads only."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from perago.adapters.lakefs import calls
from perago.adapters.lakefs.answers import Asked
from perago.adapters.lakefs.api import LakeFSApi
from perago.adapters.lakefs.history import History
from perago.adapters.lakefs.lookup import read_id
from perago.adapters.lakefs.names import check_repository_name
from perago.adapters.lakefs.probe.permission import (
    examine_allowed,
    on_branch,
    on_repository,
)
from perago.adapters.lakefs.values import read_each, read_part, read_text, to_change
from perago.app.diagnosis import Check, failed, judge_protection, passed, warned
from perago.domain.errors import NotFoundInStoreError
from perago.domain.ids import BranchName, CommitId, RepositoryName
from perago.domain.staging import STAGING_PREFIX

ACTIONS_PREFIX = "_lakefs_actions/"
_NAMED = 3


class TargetCheck:
    """The checks of one target branch; `repository` comes first and tells whether to go on."""

    def __init__(
        self, api: LakeFSApi, history: History, repository: RepositoryName, branch: BranchName
    ) -> None:
        self._api = api
        self._history = history
        self._repository = repository
        self._branch = branch
        self._default_branch: BranchName | None = None
        self._read_only = False
        self._head: CommitId | None = None

    @property
    def repository_name(self) -> RepositoryName:
        """Which repository this is about."""
        return self._repository

    @property
    def is_found(self) -> bool:
        """Whether there is such a repository."""
        return self._default_branch is not None

    @property
    def is_read_only(self) -> bool:
        """Whether the server refuses every change in the repository."""
        return self._read_only

    def repository(self) -> Check:
        """Look for the repository."""
        return self._examine("repository", "fs:ReadRepository", self._find_repository)

    def rest(self) -> Iterator[Check]:
        """Everything else: first what the repository tells, then the branch."""
        yield self._examine("listing", "fs:ListRepositories", self._list)
        rules = "branches:GetBranchProtectionRules"
        yield self._examine("protection", rules, self._read_protection)
        yield self._examine("stagings", "fs:ListBranches", self._count_stagings)
        reading = on_branch("fs:ReadBranch", self._repository, "*")
        yield examine_allowed("branch", reading, self._find_branch)
        if self._head is not None:
            yield self._examine("history", "fs:ReadCommit", self._read_head)
            yield self._examine("uncommitted", "fs:ListObjects", self._look_for_uncommitted)
            yield self._examine("actions", "fs:ListObjects", self._list_actions)

    def any_commit(self) -> CommitId | None:
        """A commit that a throw-away branch can begin at."""
        if self._head is not None or self._default_branch is None:
            return self._head
        return self._history.head_id(self._repository, self._default_branch)

    def _examine(self, name: str, action: str, look: Callable[[], Check]) -> Check:
        return examine_allowed(name, on_repository(action, self._repository), look)

    def _find_repository(self) -> Check:
        repository = self._repository
        try:
            self._history.require_repository(repository)
        except NotFoundInStoreError:
            check_repository_name(repository)
            return warned(
                "repository",
                f"no {repository!r} yet; `perago run` makes it",
                f"`perago store init {repository}` makes it now; either way this key must be "
                "allowed to create repositories",
            )
        asked = Asked(what=f"read {repository!r}", missing=f"no repository {repository!r}")
        found = self._api.read(asked, calls.get_repository(repository))
        default = read_part(asked, lambda answer: read_text(answer, "default_branch"), found)
        self._default_branch = BranchName(default)
        self._read_only = found.get("read_only") is True
        if self._read_only:
            return failed(
                "repository",
                f"{repository!r} is read-only: nothing can be published to it",
                "use a repository that can be written to",
            )
        return passed("repository", f"{repository!r} in {found.get('storage_namespace')}")

    def _find_branch(self) -> Check:
        try:
            self._head = self._history.head_id(self._repository, self._branch)
        except NotFoundInStoreError as error:
            return failed(
                "branch",
                error.message,
                f"make it with `perago store branch {self._repository} {self._branch}`, or name "
                "another: REPO@BRANCH",
            )
        return passed("branch", f"{self._branch!r} stands at {self._head[:12]}")

    def _list(self) -> Check:
        asked = Asked(what="list the repositories", missing="no repositories")
        listed = self._api.read_pages(asked, calls.list_repositories(prefix=self._repository))
        if self._repository in set(read_each(asked, read_id, listed)):
            return passed("listing", f"{self._repository!r} is listed")
        return failed(
            "listing",
            f"{self._repository!r} is not listed, so `perago run` would try to create it",
            f"allow fs:ListRepositories on arn:lakefs:fs:::repository/{self._repository}",
        )

    def _read_head(self) -> Check:
        assert self._head is not None
        made = self._history.commit(self._repository, self._head).created_at
        return passed("history", f"the newest commit is of {made:%Y-%m-%d %H:%M} UTC")

    def _look_for_uncommitted(self) -> Check:
        asked = Asked(
            what=f"look for uncommitted changes on {self._repository}/{self._branch}",
            missing=f"no branch {self._branch!r} in repository {self._repository!r}",
        )
        call = calls.diff_branch(self._repository, self._branch)
        found = self._api.read_first(asked, call)
        if found is not None:
            path = read_part(asked, to_change, found).path
            return failed(
                "uncommitted",
                f"{self._branch!r} has uncommitted changes, such as {path!r}: "
                "nothing can be merged into it",
                "somebody wrote to the branch without committing: commit or reset that by hand",
            )
        return passed("uncommitted", f"nothing on {self._branch!r}")

    def _list_actions(self) -> Check:
        asked = Asked(what="list the actions of the branch", missing="the branch is gone")
        assert self._head is not None
        call = calls.list_objects(self._repository, self._head, prefix=ACTIONS_PREFIX)
        paths = read_each(
            asked, lambda found: read_text(found, "path"), self._api.read_pages(asked, call)
        )
        names = [path.removeprefix(ACTIONS_PREFIX) for path in paths]
        if not names:
            return passed("actions", "none")
        shown = ", ".join(names[:_NAMED]) + (", …" if len(names) > _NAMED else "")
        return passed("actions", f"{shown}: their hooks may delay or refuse a publication")

    def _read_protection(self) -> Check:
        asked = Asked(
            what=f"read the protection rules of {self._repository!r}",
            missing=f"no repository {self._repository!r}",
        )
        rules = self._api.read_list(asked, calls.get_branch_protection_rules(self._repository))
        patterns = read_each(asked, lambda rule: read_text(rule, "pattern"), rules)
        return judge_protection("protection", list(patterns), self._branch)

    def _count_stagings(self) -> Check:
        asked = Asked(
            what=f"list the branches of {self._repository!r}",
            missing=f"no repository {self._repository!r}",
        )
        call = calls.list_branches(self._repository, prefix=STAGING_PREFIX, show_hidden=True)
        count = sum(1 for _ in self._api.read_pages(asked, call))
        if not count:
            return passed("stagings", "none")
        said = "1 staging branch" if count == 1 else f"{count} staging branches"
        return passed(
            "stagings", f"{said}; `perago gc --staging` removes those whose attempt is over"
        )
