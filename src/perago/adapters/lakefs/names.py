"""Names on a lakeFS server: which it takes, and what is said of one that is not there.

Invariant: a name is checked before it becomes part of an address, so that none can lead a call
anywhere else.
"""

from __future__ import annotations

import re

from perago.domain.errors import NotFoundInStoreError, StoreError, UsageError
from perago.domain.ids import BranchName, CommitId, RepositoryName

_BRANCH_NAME = re.compile(r"\w[-\w]*", re.ASCII)
_REPOSITORY_NAME = re.compile(r"[a-z0-9][a-z0-9-]{2,62}")
_COMMIT_ID = re.compile(r"[0-9a-f]{64}")
_COMMIT_PREFIX = re.compile(r"[0-9a-f]{8,64}")


def check_repository_name(repository: RepositoryName) -> None:
    """Raise `UsageError` for a name that lakeFS does not take."""
    if not is_repository_name(repository):
        raise UsageError(
            f"{repository!r} cannot be the name of a lakeFS repository",
            hint="3 to 63 characters: lower-case letters, digits and dashes",
        )


def check_branch_name(branch: BranchName) -> None:
    """Raise `StoreError` for a name that lakeFS does not take."""
    if not is_branch_name(branch):
        raise StoreError(
            f"{branch!r} cannot be the name of a branch",
            hint="use letters, digits, _ and -, and do not begin with -",
        )


def is_repository_name(text: str) -> bool:
    """Whether a repository can be called so."""
    return _REPOSITORY_NAME.fullmatch(text) is not None


def is_branch_name(text: str) -> bool:
    """Whether a branch can be called so."""
    return _BRANCH_NAME.fullmatch(text) is not None


def is_commit_id(text: str) -> bool:
    """Whether it is the whole id of a commit."""
    return _COMMIT_ID.fullmatch(text) is not None


def is_commit_prefix(text: str) -> bool:
    """Whether it is enough of an id to look for a commit with it."""
    return _COMMIT_PREFIX.fullmatch(text) is not None


# -- what is not there


def no_repository(repository: RepositoryName) -> NotFoundInStoreError:
    """There is no such repository."""
    return NotFoundInStoreError(
        f"no repository {repository!r} on this server",
        hint="`perago store init` makes one; check the spelling and PERAGO_LAKEFS_ENDPOINT",
    )


def no_branch(repository: RepositoryName, branch: BranchName) -> NotFoundInStoreError:
    """There is no such branch."""
    return NotFoundInStoreError(
        f"no branch {branch!r} in repository {repository!r}",
        hint="check the spelling; a staging branch is gone once its attempt is over",
    )


def no_commit(repository: RepositoryName, commit: CommitId) -> NotFoundInStoreError:
    """There is no such commit."""
    return NotFoundInStoreError(
        f"no commit {commit} in repository {repository!r}",
        hint="`perago store log` shows what there is",
    )


def no_ref(repository: RepositoryName, ref: str) -> NotFoundInStoreError:
    """There is nothing that a ref could mean."""
    return NotFoundInStoreError(
        f"{ref!r} is no branch and no commit of repository {repository!r}",
        hint="give a branch, a commit id, or at least 8 characters of one",
    )
