"""The operations of lakeFS's API that Perago uses: the request of each, as a value.

Names are those of lakeFS's own API description. `api.py` sends them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from perago.domain.outcome import JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request: the segments of its address, what follows the `?`, and its JSON body.

    `status` is the answer's where the call succeeded; None is any that means success.
    """

    method: str
    where: tuple[str, ...]
    status: int | None = 200
    query: Mapping[str, str] = field(default_factory=dict)
    content: JsonObject | None = None

    def page(self, after: str, amount: int) -> Call:
        """The same listing from this place on."""
        return replace(self, query={**self.query, "after": after, "amount": str(amount)})


# -- the server


def health_check() -> Call:
    """Answered with 204 and without a log-in."""
    return Call(method="GET", where=("healthcheck",), status=None)


def get_config() -> Call:
    """Version and block stores."""
    return _get("config")


def get_current_user() -> Call:
    """Who the server takes the key for."""
    return _get("user")


# -- repositories


def list_repositories(*, prefix: str = "") -> Call:
    """All repositories that the user may see."""
    return _get("repositories", prefix=prefix)


def get_repository(repository: str) -> Call:
    """Its default branch and where it is stored."""
    return _get("repositories", repository)


def create_repository(repository: str, *, storage_namespace: str, default_branch: str) -> Call:
    """Make an empty repository."""
    return Call(
        method="POST",
        where=("repositories",),
        status=201,
        content={
            "name": repository,
            "storage_namespace": storage_namespace,
            "default_branch": default_branch,
        },
    )


def get_branch_protection_rules(repository: str) -> Call:
    """The patterns of protected branches; the answer is a list."""
    return _get("repositories", repository, "settings", "branch_protection")


# -- branches


def list_branches(repository: str, *, prefix: str = "", show_hidden: bool = False) -> Call:
    """Branches, without the hidden ones unless they are asked for."""
    hidden = {"show_hidden": "true"} if show_hidden else {}
    return _get("repositories", repository, "branches", prefix=prefix, **hidden)


def get_branch(repository: str, branch: str) -> Call:
    """Where a branch stands."""
    return _get(*_branch(repository, branch))


def create_branch(repository: str, branch: str, source: str, *, hidden: bool) -> Call:
    """Make a branch at a commit."""
    return Call(
        method="POST",
        where=("repositories", repository, "branches"),
        status=201,
        content={"name": branch, "source": source, "hidden": hidden},
    )


def delete_branch(repository: str, branch: str) -> Call:
    """Remove a branch; the answer is empty."""
    return Call(method="DELETE", where=_branch(repository, branch), status=204)


def diff_branch(repository: str, branch: str) -> Call:
    """The uncommitted changes of a branch."""
    return _get(*_branch(repository, branch), "diff")


def hard_reset_branch(repository: str, branch: str, ref: str) -> Call:
    """Put a branch on another commit; the answer is empty."""
    where = (*_branch(repository, branch), "hard_reset")
    return Call(method="PUT", where=where, status=204, query={"ref": ref})


# -- commits


def get_commit(repository: str, commit: str) -> Call:
    """A commit by its id, or the beginning of one."""
    return _get("repositories", repository, "commits", commit)


def log_commits(repository: str, ref: str) -> Call:
    """The first parents of a commit, newest first."""
    return _get("repositories", repository, "refs", ref, "commits", first_parent="true")


def commit(repository: str, branch: str, *, message: str, metadata: Mapping[str, str]) -> Call:
    """Commit what a branch shows, unless it shows nothing new."""
    return Call(
        method="POST",
        where=(*_branch(repository, branch), "commits"),
        status=201,
        content={"message": message, "metadata": dict(metadata), "allow_empty": False},
    )


def merge_into_branch(
    repository: str, source: str, target: str, *, message: str, metadata: Mapping[str, str]
) -> Call:
    """Squash-merge a ref into a branch, unless that changes nothing."""
    return Call(
        method="POST",
        where=("repositories", repository, "refs", source, "merge", target),
        content={
            "message": message,
            "metadata": dict(metadata),
            "squash_merge": True,
            "force": False,
            "allow_empty": False,
        },
    )


def diff_refs(repository: str, left: str, right: str) -> Call:
    """The difference of two trees as they are, and not since their histories parted."""
    return _get("repositories", repository, "refs", left, "diff", right, type="two_dot")


# -- objects


def list_objects(repository: str, ref: str, *, prefix: str) -> Call:
    """Objects with their own metadata."""
    where = ("repositories", repository, "refs", ref, "objects", "ls")
    return _get(*where, prefix=prefix, user_metadata="true")


def delete_objects(repository: str, branch: str, paths: Sequence[str]) -> Call:
    """Delete objects; the answer lists those that were not deleted."""
    return Call(
        method="POST",
        where=(*_branch(repository, branch), "objects", "delete"),
        content={"paths": list(paths)},
    )


def _get(*where: str, **query: str) -> Call:
    return Call(method="GET", where=where, query=query)


def _branch(repository: str, branch: str) -> tuple[str, ...]:
    return ("repositories", repository, "branches", branch)
